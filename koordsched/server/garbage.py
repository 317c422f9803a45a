"""Garbage that would lie too long.

Nearly everything dies by its reference count, and collections are rare (`command.GC_THRESHOLDS`). What is left are cycles of exceptions
and tasks, few but heavy: one of a broken TLS connection holds 256 KiB of buffers, which the collector does not count. On a cluster whose
API server breaks off watches for minutes they would come to hundreds of MiB.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

SWEEP_SECONDS = 20.0
YOUNG = 1  # generation: what was made since the last sweep; some ten milliseconds at 500 pods a second
SWEEPS_TO_ALL = 15  # every five minutes all that is not frozen is looked at, if nobody waits to be scheduled


async def sweep(is_busy: Callable[[], bool]) -> None:
    """Collect young garbage now and then, and all of it rarely and only when nobody waits; until cancelled."""
    since = 0
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        since += 1
        if since >= SWEEPS_TO_ALL and not is_busy():
            since = 0
            gc.collect()
        else:
            gc.collect(YOUNG)
