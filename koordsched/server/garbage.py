"""Garbage that would lie too long, and memory that would not be given back.

Nearly everything dies by its reference count, and collections are rare (`command.GC_THRESHOLDS`). What is left are cycles of exceptions
and tasks, few but heavy: one of a broken TLS connection holds 256 KiB of buffers, which the collector does not count. On a cluster whose
API server breaks off watches for minutes they would come to hundreds of MiB.

Such buffers come from glibc, which by itself begins to cut them out of the heap once a few have been freed; connections come and go, and
what lives between their holes keeps the heap from shrinking. So large buffers are mapped one by one for good, and holes are given back
after each full collection. Without glibc there is nothing of this to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable

SWEEP_SECONDS = 20.0
YOUNGEST, YOUNG, ALL = 0, 1, 2
"""Generations: what was made since the last collection of any kind, at most `command.GC_THRESHOLDS`; since the last sweep; and all that is
not frozen. While pods are on their way it is kept to the first, 1 to 4 ms: thousands of binding cycles would be looked at."""
SWEEPS_TO_ALL = 15  # every five minutes, if no pod waits to be scheduled
SWEEPS_TO_YOUNG = 6  # where pods wait all the time

M_MMAP_THRESHOLD = -3  # malloc.h's; setting it ends glibc's own adjusting
MAPPED_FROM = 128 << 10  # bytes


async def sweep(is_busy: Callable[[], bool]) -> None:
    """Collect young garbage now and then, and all of it rarely and only when no pod is on its way; until cancelled."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)
    since = 0
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        since += 1
        if is_busy():
            gc.collect(YOUNGEST if since % SWEEPS_TO_YOUNG else YOUNG)
        elif since < SWEEPS_TO_ALL:
            gc.collect(YOUNG)
        else:
            since = 0
            gc.collect(ALL)
            if hasattr(libc, "malloc_trim"):
                libc.malloc_trim(0)
