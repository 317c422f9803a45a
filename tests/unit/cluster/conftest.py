"""Tests of the cluster run in virtual time, each on an embedded cluster of its own."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from support.virtual_loop import clock, no_task_left, pytest_asyncio_loop_factories

from koordsched.cluster.memory import MemoryCluster

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock

__all__ = ["clock", "no_task_left", "pytest_asyncio_loop_factories"]


@pytest.fixture
def cluster(clock: VirtualClock) -> MemoryCluster:
    return MemoryCluster(clock, random=Random(1))
