"""When garbage is collected."""

from __future__ import annotations

import asyncio
import gc

import pytest
from support.virtual_loop import run_virtual

from koordsched.clock import VirtualClock
from koordsched.server.garbage import SWEEP_SECONDS, SWEEPS_TO_ALL, sweep


def collections(monkeypatch: pytest.MonkeyPatch, sweeps: int, *, busy: bool) -> list[int]:
    """Return which generations were collected in so many sweeps."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda generation=2: collected.append(generation))

    async def main(_: VirtualClock) -> None:
        task = asyncio.create_task(sweep(lambda: busy))
        await asyncio.sleep(SWEEP_SECONDS * (sweeps + 0.5))
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main)
    return collected


def test_young_garbage_is_collected_often_and_all_of_it_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collections(monkeypatch, SWEEPS_TO_ALL + 1, busy=False) == [1] * (SWEEPS_TO_ALL - 1) + [2, 1]


def test_while_pods_wait_only_young_garbage_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collections(monkeypatch, SWEEPS_TO_ALL + 1, busy=True) == [1] * (SWEEPS_TO_ALL + 1)
