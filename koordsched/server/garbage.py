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
YOUNG = 1  # generation: what was made since the last sweep; some ten milliseconds at 500 pods a second
SWEEPS_TO_ALL = 15  # every five minutes all that is not frozen is looked at, if no pod waits to be scheduled

M_MMAP_THRESHOLD = -3  # malloc.h's; setting it ends glibc's own adjusting
MAPPED_FROM = 128 << 10  # bytes


async def sweep(is_busy: Callable[[], bool]) -> None:
    """Collect young garbage now and then, and all of it rarely and only when no pod waits; until cancelled."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)
    since = 0
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        since += 1
        if since >= SWEEPS_TO_ALL and not is_busy():
            since = 0
            gc.collect()
            if hasattr(libc, "malloc_trim"):
                libc.malloc_trim(0)
        else:
            gc.collect(YOUNG)
