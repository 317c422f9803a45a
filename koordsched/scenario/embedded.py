"""The embedded backend: each scenario runs on an embedded cluster of its own, in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from koordsched.clock import VirtualTimeLoop
from koordsched.config.flags import parse_flags
from koordsched.config.loading import Launch
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_made
from koordsched.scenario.cluster import HttpAnswer, Script
from koordsched.scheduler.scheduler import Scheduler

Http = Callable[[Scheduler, str], Awaitable[HttpAnswer]]
"""Answers a GET of a path as the scheduler's secure port does. It comes in as an argument: the server is no part of a scenario."""


class _AnsweringCluster(EmbeddedCluster):
    """An embedded cluster whose scheduler answers HTTP (`scenario.cluster.ScenarioCluster`)."""

    def __init__(self, loop: VirtualTimeLoop, options: EmbeddedOptions, http: Http) -> None:
        super().__init__(loop, options)
        self._http = http

    async def http(self, path: str) -> HttpAnswer:
        return await self._http(self.scheduler, path)


class EmbeddedBackend:
    """Runs scenarios in memory (`scenario.cluster.Backend`)."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._notes: dict[str, None] = {}  # each once, in their order

    def run(self, launch: Launch, script: Script) -> None:
        async def noting(cluster: _AnsweringCluster) -> None:
            self._notes |= dict.fromkeys(cluster.notes())
            await script(cluster)

        options = EmbeddedOptions(config=launch.config, flags=parse_flags(list(launch.args)))
        run_made(partial(_AnsweringCluster, options=options, http=self._http), noting)

    def notes(self) -> Sequence[str]:
        return tuple(self._notes)
