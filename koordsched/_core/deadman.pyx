"""A timer of the kernel that ends the process; see deadman.pyi.

The handler runs on the thread that the timer is aimed at, before that thread executes anything else, even when the process was stopped and
continues: only the operating system can guarantee that. The handler may call async-signal-safe functions only, so `arm` prepares its text,
in that of two buffers which the handler does not read.
"""

import os

from libc.string cimport memcpy
from posix.unistd cimport _exit

cdef extern from *:
    """
    #include <poll.h>
    #include <unistd.h>

    /* Write if that need not wait: a pipe that is not read any more must not keep the process from ending. A pipe is ready when it has a
       free page, and the text is smaller than one. */
    static void deadman_write(int file, const char *text, size_t length) {
        struct pollfd ready = {file, POLLOUT, 0};
        if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) && write(file, text, length)) {}
    }

    #ifdef __linux__
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <time.h>
    #ifndef sigev_notify_thread_id
    #define sigev_notify_thread_id _sigev_un._tid
    #endif

    static timer_t deadman_timer;
    static int deadman_made = 0;

    static int deadman_make(int thread, void (*expired)(int)) {
        struct sigaction action;
        struct sigevent event;
        memset(&action, 0, sizeof action);
        memset(&event, 0, sizeof event);
        action.sa_handler = expired;
        sigfillset(&action.sa_mask);
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGRTMIN + 5;
        event.sigev_notify_thread_id = thread;
        if (sigaction(event.sigev_signo, &action, NULL) || timer_create(CLOCK_BOOTTIME, &event, &deadman_timer)) return errno;
        deadman_made = 1;
        return 0;
    }

    static int deadman_set(double at) {  /* 0: never */
        struct itimerspec due;
        memset(&due, 0, sizeof due);
        due.it_value.tv_sec = (time_t)at;
        due.it_value.tv_nsec = (long)((at - (double)due.it_value.tv_sec) * 1e9);
        return deadman_made && timer_settime(deadman_timer, TIMER_ABSTIME, &due, NULL) ? errno : 0;
    }
    #else
    #include <errno.h>
    static int deadman_make(int thread, void (*expired)(int)) { (void)thread; (void)expired; return ENOSYS; }
    static int deadman_set(double at) { (void)at; return 0; }
    #endif
    """
    void deadman_write(int file, const char *text, size_t length) nogil
    int deadman_make(int thread, void (*expired)(int) noexcept nogil) nogil
    int deadman_set(double at) nogil


cdef void expired(int number) noexcept nogil:
    deadman_write(STDERR, texts[current], lengths[current])
    _exit(EXIT_CODE)


def make(int thread):
    cdef int failure = deadman_make(thread, expired)
    if failure:
        raise OSError(failure, os.strerror(failure))


def arm(double at, bytes text):
    global current
    cdef int other = 1 - current
    cdef size_t length = min(len(text), TEXT_BYTES)
    if at <= 0.0:
        raise ValueError(f"not a reading of CLOCK_BOOTTIME: {at}")
    memcpy(texts[other], <const char*> text, length)
    lengths[other] = length
    current = other
    cdef int failure = deadman_set(at)
    if failure:
        raise OSError(failure, os.strerror(failure))


def disarm():
    deadman_set(0.0)
