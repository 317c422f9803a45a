"""What tasks wait for, and what threads do, as Go lists goroutines: equal stacks together, the most frequent first."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from koordsched.server.profiling.cpu import DEEPEST, stack_of

if TYPE_CHECKING:
    from koordsched.slices import Slices

Stack = tuple[str, ...]


MOST_TASKS = 20_000
"""How many are looked at: more say no more."""


async def tasks(work: Slices) -> str:
    """Describe the tasks of the running loop: the chain of coroutines that each is in, the innermost last."""
    stacks = []
    for task in islice(asyncio.all_tasks(), MOST_TASKS):
        stacks.append(_awaits(task.get_coro()))
        await work.pause()
    return _grouped("task", stacks)


def threads() -> str:
    """Describe the threads: the stack of each."""
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return _grouped("thread", [(names.get(ident, str(ident)), *stack_of(frame)) for ident, frame in frames.items()])


def _awaits(waiting: Any) -> Stack:
    """Follow what a coroutine awaits as far as Python tells."""
    chain: list[str] = []
    while waiting is not None and len(chain) < DEEPEST:
        chain.append(_place(waiting))
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return tuple(chain)


def _place(waiting: Any) -> str:
    name = getattr(waiting, "__qualname__", type(waiting).__qualname__)
    frame: FrameType | None = waiting.cr_frame if isinstance(waiting, CoroutineType) else getattr(waiting, "ag_frame", None)
    return f"{name}:{frame.f_lineno}" if frame is not None else name


def _grouped(what: str, stacks: Iterable[Stack]) -> str:
    counts = Counter(stacks)
    lines = [f"{what} profile: total {counts.total()}\n"]
    for stack, count in counts.most_common():
        lines.append(f"\n{count} @\n" + "".join(f"#\t{frame}\n" for frame in stack))
    return "".join(lines)
