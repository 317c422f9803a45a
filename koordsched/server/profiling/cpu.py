"""Where the CPU time of one thread goes: its stack is looked at a hundred times a second, and weighed with the CPU time used since.

Weighing leaves out the time in which the thread waits for events. The result is "collapsed stacks": a line a stack, frames from the
outermost on, joined by semicolons, then microseconds; speedscope and flamegraph.pl read it.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from threading import Event
from types import FrameType

PERIOD = 0.01
MICROSECONDS = 1e6
DEEPEST = 100  # frames of a stack


def sample(thread: int, seconds: float, ended: Event) -> Counter[tuple[str, ...]]:
    """Return microseconds of CPU time by stack of a thread (its ident). Blocks for so long, or until `ended` is set."""
    clock = time.pthread_getcpuclockid(thread)
    used = time.clock_gettime(clock)
    found: Counter[tuple[str, ...]] = Counter()
    for _ in range(max(1, round(seconds / PERIOD))):
        if ended.wait(PERIOD):
            break
        before, used = used, time.clock_gettime(clock)
        frame = sys._current_frames().get(thread)
        if frame is not None:
            found[stack_of(frame)] += round((used - before) * MICROSECONDS)
    return found


def collapsed(samples: Counter[tuple[str, ...]]) -> str:
    """Write samples as collapsed stacks, the dearest first."""
    return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in samples.most_common() if weight)


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return the functions of a stack, the outermost first; of a deep one the innermost ones."""
    names: list[str] = []
    while frame is not None and len(names) < DEEPEST:
        names.append(f"{frame.f_code.co_qualname} ({_file(frame)}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(names))


def _file(frame: FrameType) -> str:
    return "/".join(frame.f_code.co_filename.rsplit("/", 2)[-2:])
