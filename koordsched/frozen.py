"""Keeps CPython's garbage collector away from what is there to stay: imported modules and the initial lists of the cluster's objects."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def frozen() -> Iterator[None]:
    """Keep the collector from looking at what is made meanwhile, then and at every later collection: nothing of it is garbage.

    Looking at it again and again is a tenth of the imports' time, and a third of that of initial lists (`serve.command.GC_THRESHOLDS`).
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
