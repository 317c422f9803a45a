"""The backend that runs scenarios on a real cluster (`scenario.cluster.Backend`), one after the other: each clears away what it made.

The first run checks whether the cluster is fit for it. Ctrl-C and SIGTERM end the scheduler and clear away as well.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import msgspec

from koordsched.api.kinds import NODE
from koordsched.apiclient.client import Client, UnusableKubeconfig
from koordsched.apiclient.sending import Json
from koordsched.clock import Clock
from koordsched.cluster.port import ClusterError
from koordsched.config.loading import Launch
from koordsched.scenario.cluster import BackendError, Script
from koordsched.scenario.live.api import ScenarioApi
from koordsched.scenario.live.cluster import LiveCluster
from koordsched.scenario.live.process import Command, SchedulerProcess
from koordsched.scenario.runner import ScenarioFailed

USER_AGENT = "koord-scheduler-test"
REPELLING = frozenset({"NoSchedule", "NoExecute"})
SHOWN_NODES = 3


class LiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster to use. command: how a scheduler is started there; None: one serves it already."""

    kubeconfig: str
    command: Command | None = None


class LiveBackend:
    """Runs each script on a `LiveCluster` of its own, all on one API server."""

    def __init__(self, settings: LiveSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._fit = False

    def run(self, launch: Launch, script: Script) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._run(launch, script))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    def notes(self) -> Sequence[str]:
        """Return nothing: what the scheduler there has is for its log."""
        return ()

    async def _run(self, launch: Launch, script: Script) -> None:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            client = await Client.of_file(self._settings.kubeconfig, USER_AGENT)
        except UnusableKubeconfig as mistake:
            raise BackendError(str(mistake)) from None
        async with client:
            await self._perform(ScenarioApi(client), launch, script)

    async def _perform(self, api: ScenarioApi, launch: Launch, script: Script) -> None:
        scheduler = SchedulerProcess(self._settings.command, launch, self._clock) if self._settings.command is not None else None
        cluster = LiveCluster(api, scheduler, self._clock)
        try:
            await self._look(api, cluster)
            await script(cluster)
            cluster.check()
        except (ClusterError, ScenarioFailed) as failure:
            try:
                details = await cluster.details()
            finally:
                await _end(cluster)
            if isinstance(failure, ClusterError):
                raise ScenarioFailed(f"end: expected the scheduler to run, seen {failure.message}", details) from None
            raise ScenarioFailed(failure.where, details, failure.differences) from None
        except BaseException:
            await _end(cluster)
            raise
        if left := await _end(cluster):
            raise ScenarioFailed(f"end: expected all to be cleared away, seen {'; '.join(left)}")

    async def _look(self, api: ScenarioApi, cluster: LiveCluster) -> None:
        """See that the cluster is fit for scenarios. BackendError."""
        try:
            if not self._fit and (inviting := inviting_nodes(await api.list(NODE))):
                shown = ", ".join(inviting[:SHOWN_NODES]) + (", ..." if len(inviting) > SHOWN_NODES else "")
                problem = f"it has {len(inviting)} nodes of its own that pods could land on ({shown}); cordon them, or take another cluster"
                raise BackendError(f"{self._settings.kubeconfig}: scenarios cannot be played on this cluster: {problem}")
            await cluster.prepare()
        except ClusterError as error:
            raise BackendError(f"{self._settings.kubeconfig}: {error.message}") from None
        self._fit = True


async def _end(cluster: LiveCluster) -> list[str]:
    """Clear the cluster away; when interrupted, once more from the start."""
    try:
        return await cluster.end()
    except asyncio.CancelledError:
        await cluster.end()
        raise


def inviting_nodes(nodes: Sequence[Json]) -> list[str]:
    """Return the names of the nodes that take any pod: neither cordoned nor tainted."""
    inviting = []
    for node in nodes:
        spec = node.get("spec") or {}
        if not spec.get("unschedulable") and not any(taint.get("effect") in REPELLING for taint in spec.get("taints") or ()):
            inviting.append(node["metadata"]["name"])
    return inviting
