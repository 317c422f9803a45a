"""What memory holds: objects that the garbage collector knows, by type; and by line while Python traces allocations.

Tracing costs half of the speed and is on only when the process was started with PYTHONTRACEMALLOC=1. Objects that were there when the
initial lists had been handled are frozen (`koordsched.frozen`) and not seen by the collector: what is listed came after.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections import Counter
from pathlib import Path

from koordsched.slices import PAUSE_SECONDS

SHOWN = 100
A_SLICE = 2000  # objects: a millisecond
STATUS = Path("/proc/self/status")
RESIDENT = ("VmRSS", "VmHWM")


def heap() -> str:
    """Describe memory. Takes up to seconds with millions of objects, in which other threads run on."""
    return "".join([_resident(), _by_line() if tracemalloc.is_tracing() else _by_type()])


def _resident() -> str:
    if not STATUS.exists():
        return ""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return "".join(f"# {line}\n" for line in lines if line.startswith(RESIDENT))


def _by_type() -> str:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for number, each in enumerate(gc.get_objects()):
        if number % A_SLICE == 0:
            time.sleep(PAUSE_SECONDS)  # other threads get the interpreter's lock at once, not after each switch interval
        name = f"{type(each).__module__}.{type(each).__qualname__}"
        counts[name] += 1
        sizes[name] += sys.getsizeof(each, 0)
    head = f"heap profile: {counts.total()} objects, {sizes.total()} bytes of their own, {gc.get_freeze_count()} frozen\n"
    return head + "".join(f"{counts[name]}: {size} {name}\n" for name, size in sizes.most_common(SHOWN))


def _by_line() -> str:
    lines = tracemalloc.take_snapshot().statistics("lineno")
    head = f"heap profile: {sum(line.count for line in lines)} allocations, {sum(line.size for line in lines)} bytes\n"
    return head + "".join(f"{line.count}: {line.size} {line.traceback}\n" for line in lines[:SHOWN])
