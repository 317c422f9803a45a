"""Tests of the scheduler run it on the embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fakes import config_with, embedded, factory
from support.stages import Stage
from support.virtual_loop import clock, no_task_left, pytest_asyncio_loop_factories

import koordsched.plugins
from koordsched.config.flags import parse_flags
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.interface import Plugin

__all__ = ["clock", "no_task_left", "pytest_asyncio_loop_factories"]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a maker of worlds: plugins with the points they play are added to the default profile; keywords are the configuration's.

    damaged: the test leaves a scheduler that does not know what the cluster has. args: flags.
    """

    @asynccontextmanager
    async def make(
        *plugins: tuple[Plugin, str], seed: int = 1, damaged: bool = False, args: Sequence[str] = (), **fields: Any
    ) -> AsyncIterator[EmbeddedCluster]:
        for plugin, _ in plugins:
            monkeypatch.setitem(koordsched.plugins.REGISTRY, plugin.name, factory(plugin))
        config = config_with({plugin.name: points for plugin, points in plugins}, **fields)
        async with embedded(asyncio.get_running_loop(), config, seed, parse_flags(args), damaged=damaged) as world:
            yield world

    return make
