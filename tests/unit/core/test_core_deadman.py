"""The dead man's switch ends a process by itself; so each test is a process of its own."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from koordsched._core import deadman

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="timers that are aimed at a thread are Linux's")

BEGIN = """
import threading, time
from koordsched._core import deadman

def within(seconds, text):
    deadman.arm(time.clock_gettime(time.CLOCK_BOOTTIME) + seconds, text)

deadman.make(threading.main_thread().native_id)
within(0.3, b"lost\\n")
"""
TIMEOUT = 20.0


def process(*lines: str) -> subprocess.Popen[str]:
    """Start a process that armed the switch, says so, and does the rest."""
    text = "\n".join([BEGIN, "print('armed', flush=True)", *lines])
    started = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "armed\n"
    return started


def end_of(started: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = started.communicate(timeout=TIMEOUT)
    return started.returncode, out, err


def test_a_busy_process_is_ended_with_code_1_and_its_last_words() -> None:
    assert end_of(process("while True: pass")) == (1, "", "lost\n")


def test_a_process_that_waits_is_ended_although_nothing_interrupts_it() -> None:
    assert end_of(process("threading.Event().wait()")) == (1, "", "lost\n")


def test_a_stopped_process_executes_nothing_after_the_moment_has_passed(tmp_path: Path) -> None:
    # The process overwrites the moment it last lived at: a pipe would be full at once, and its last line torn.
    lived = tmp_path / "lived"
    started = process(
        "import os, struct",
        f"fd = os.open({str(lived)!r}, os.O_CREAT | os.O_WRONLY)",
        "os.pwrite(fd, bytes(8), 0)",
        "within(2.0, b'lost\\n')",  # time enough to be stopped before it is over, on a busy machine too
        "print('going', flush=True)",
        "while True: os.pwrite(fd, struct.pack('d', time.clock_gettime(time.CLOCK_BOOTTIME)), 0)",
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "going\n"
    started.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    assert started.poll() is None
    went_on = time.clock_gettime(time.CLOCK_BOOTTIME)
    started.send_signal(signal.SIGCONT)
    assert end_of(started) == (1, "", "lost\n")
    (moment,) = struct.unpack("d", lived.read_bytes())
    assert moment < went_on


def test_a_later_moment_takes_the_place_of_an_earlier_one() -> None:
    renewing = "for _ in range(8): within(1.5, b'lost later\\n'); time.sleep(0.25)"
    assert end_of(process(renewing, "print('alive', flush=True)", "while True: pass")) == (1, "alive\n", "lost later\n")


def test_a_disarmed_process_lives_on() -> None:
    assert end_of(process("deadman.disarm()", "time.sleep(0.5)", "print('alive')")) == (0, "alive\n", "")


def test_last_words_are_cut_at_what_there_is_room_for() -> None:
    code, _, err = end_of(process("within(0.1, b'x' * 2000)", "while True: pass"))
    assert (code, err) == (1, "x" * 1024)


def test_a_moment_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not a reading of CLOCK_BOOTTIME: 0\.0"):
        deadman.arm(0.0, b"")


def test_a_full_pipe_that_is_not_read_does_not_keep_the_process_alive() -> None:
    """Writing the last words would wait for ever, as the thread that it interrupts does."""
    started = process("import os", "while True: os.write(2, b'x' * 4096)")
    assert started.wait(TIMEOUT) == 1
    started.communicate()
