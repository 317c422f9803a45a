"""An embedded cluster whose scheduler is traced as the environment asks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_made
from koordsched.scheduler.scheduler import Dependencies, Scheduler
from koordsched.serve.tracing import tracing_of


class TracedCluster(EmbeddedCluster):
    """A cluster with the shipped configuration. `ending` sends the spans that are left."""

    ending: ExitStack

    def _new_scheduler(self) -> Scheduler:
        self.ending = ExitStack()
        tracing = self.ending.enter_context(tracing_of(os.environ, self.clock))
        options = self._options
        return Scheduler(options.config, Dependencies(self.cluster, self.clock, self._random, options.flags, tracing=tracing))


def run_traced(script: Callable[[TracedCluster], Awaitable[None]]) -> None:
    """Run a script on a cluster with a started scheduler, stop that, and send the spans that are left."""

    async def main(cluster: TracedCluster) -> None:
        with cluster.ending:
            await cluster.start()
            await script(cluster)
            await cluster.stop()

    flags = Flags(enable_network_topology_manager=True)
    run_made(partial(TracedCluster, options=EmbeddedOptions(config=default_config(), flags=flags)), main)
