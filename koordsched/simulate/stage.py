"""Where scenarios are played without a cluster: each on an embedded world of its own, which answers HTTP too.

Apart from `world`, which a simulation needs: flags and endpoints take their time to import.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from koordsched.config.flags import parse_flags
from koordsched.config.launch import Launch
from koordsched.server.endpoints import Endpoints, Response
from koordsched.server.request import Request
from koordsched.simulate.world import EmbeddedWorld, WorldSettings, run_world


class AnsweringWorld(EmbeddedWorld):
    """An embedded world with endpoints, as scenarios ask them (`scenario.world.World`)."""

    async def http(self, path: str) -> Response:
        return await Endpoints(self.scheduler).answer(Request.of("GET", path))


class EmbeddedStage:
    """The stage in memory (`scenario.world.Stage`)."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}  # each once, in their order

    def play(self, launch: Launch, script: Callable[[AnsweringWorld], Awaitable[None]]) -> None:
        async def noting(world: AnsweringWorld) -> None:
            self._notes |= dict.fromkeys(world.notes())
            await script(world)

        settings = WorldSettings(config=launch.config, flags=parse_flags(list(launch.args)))
        run_world(partial(AnsweringWorld, settings=settings), noting)

    def notes(self) -> Sequence[str]:
        return tuple(self._notes)
