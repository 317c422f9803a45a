"""A binder that does not schedule: every pending pod goes to the next node, whoever fits.

Everything else it does as ours does: the same watches, transport, binds at a time, order of work and Scheduled events; for a theme whose
pods get CPUs or devices also the annotations that name these, and the watch of the objects that describe them; for quotas the patches of
what they use, for gangs those of their phases, for owners of Reservations the annotation that names one. What it reaches is the most that a
scheduler on this adapter can reach.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, NamedTuple

import uvloop

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NODE, NODE_METRIC, NODE_RESOURCE_TOPOLOGY, POD, POD_GROUP, RESERVATION, Kind
from koordsched.clock import Clock, RealClock
from koordsched.cluster.apiserver import ConnectionSettings, connect
from koordsched.cluster.event_body import EventSource
from koordsched.cluster.event_recorder import EventRecorder, RecorderOptions
from koordsched.cluster.event_series import EventText
from koordsched.cluster.informer import Informer
from koordsched.cluster.object_store import Arrival, FinalState
from koordsched.cluster.port import Binding, Cluster
from koordsched.frozen import frozen
from koordsched.scheduler.context import MAX_BINDS_IN_FLIGHT
from koordsched.scheduler.cycle import PODS_A_TURN
from koordsched.scheduler.scheduler import LIVE_PODS
from koordsched.serve.command import GC_THRESHOLDS
from side_by_side.cpus import cpu_annotations
from side_by_side.gangs import SIZES, GangWriter
from side_by_side.gpus import GPU, JOINT, half_annotations, joint_annotations
from side_by_side.koordinator import KOORDINATOR, OBJECTS
from side_by_side.quotas import QUOTA, UseWriter
from side_by_side.reservations import OWNERS, STRANGERS, link
from side_by_side.workload import CPUSET, SCHEDULER_NAME

QPS, BURST = 5000.0, 5000


class Written(NamedTuple):
    """What is written to pods before they are bound, by the node and how many it has had, None: nothing; and what is watched to know it."""

    annotations: Callable[[str, int], dict[str, str]] | None
    watched: Kind


WRITTEN = {
    CPUSET: Written(cpu_annotations, NODE_RESOURCE_TOPOLOGY),
    GPU: Written(half_annotations, DEVICE),
    JOINT: Written(joint_annotations, DEVICE),
    QUOTA: Written(None, ELASTIC_QUOTA),
    **dict.fromkeys(SIZES, Written(None, POD_GROUP)),
    OWNERS: Written(link, RESERVATION),
    STRANGERS: Written(None, RESERVATION),
    **dict.fromkeys((KOORDINATOR, OBJECTS), Written(None, NODE_METRIC)),
}
"""By theme; pods of other themes are only bound."""


class Backlog:
    """Pods that wait for a node, in the order in which they came."""

    def __init__(self) -> None:
        self.pods: deque[Pod] = deque()
        self.filled = asyncio.Event()

    def on_add(self, obj: Pod, _arrival: Arrival) -> None:
        if not obj.spec.node_name and obj.spec.scheduler_name == SCHEDULER_NAME:
            self.pods.append(obj)
            self.filled.set()

    def on_update(self, _old: Pod, _new: Pod) -> None:
        """Take no note: what changes is being bound already."""

    def on_delete(self, _obj: Pod, _final_state: FinalState) -> None:
        """Take no note: the bind of a pod that is gone fails."""


class NullBinder:
    """Binds pods to nodes in turn, after writing to each what there is to write."""

    def __init__(self, cluster: Cluster, clock: Clock, random: Random, written: Written | None = None) -> None:
        self._cluster = cluster
        self._written = written
        self._described: list[Informer[Any]] = [] if written is None else [Informer(cluster, written.watched, clock, random)]
        self._backlog = Backlog()
        self._pods: Informer[Pod] = Informer(cluster, POD, clock, random, LIVE_PODS)
        self._nodes: Informer[Node] = Informer(cluster, NODE, clock, random)
        self._pods.add_handler(self._backlog)
        source = EventSource(SCHEDULER_NAME, f"{SCHEDULER_NAME}-{socket.gethostname()}")
        self._recorder = EventRecorder(cluster, clock, random, source, RecorderOptions(lambda: bool(self._backlog.pods)))
        self._use = UseWriter(cluster) if written is not None and written.watched is ELASTIC_QUOTA else None
        of_gangs = written is not None and written.watched is POD_GROUP
        self._gangs = GangWriter(cluster, clock, self._described[0].store) if of_gangs else None
        self._slots = asyncio.Semaphore(MAX_BINDS_IN_FLIGHT)

    async def run(self) -> None:
        """Bind until cancelled; a bind that fails ends the process, since it would falsify the figures."""
        async with asyncio.TaskGroup() as tasks:
            with frozen():
                tasks.create_task(self._nodes.run())
                tasks.create_task(self._pods.run())
                for informer in self._described:
                    tasks.create_task(informer.run())
                    await informer.synced.wait()
                await self._nodes.synced.wait()
                await self._pods.synced.wait()
            tasks.create_task(self._recorder.run())
            if self._use is not None:
                tasks.create_task(self._use.run())
            if self._gangs is not None:
                tasks.create_task(self._gangs.run())
            await self._bind_all(tasks)

    async def _bind_all(self, tasks: asyncio.TaskGroup) -> None:
        nodes = list(self._nodes.store)
        waiting = self._backlog
        for turn in count():
            while not waiting.pods:
                waiting.filled.clear()
                await waiting.filled.wait()
            node, pod = nodes[turn % len(nodes)], waiting.pods.popleft()
            annotations = None
            if self._written is not None and self._written.annotations is not None:
                annotations = self._written.annotations(node, turn // len(nodes))
            elif self._gangs is not None:
                annotations = self._gangs.annotations(pod)
            tasks.create_task(self._bind(pod, node, annotations))
            if turn % PODS_A_TURN == 0:
                await asyncio.sleep(0)

    async def _bind(self, pod: Pod, node: str, annotations: dict[str, str] | None) -> None:
        meta = pod.metadata
        async with self._slots:
            await self._cluster.bind(Binding(meta.namespace, meta.name, meta.uid, node, annotations or {}))
        if self._use is not None:
            self._use.bound(pod)
        if self._gangs is not None:
            self._gangs.bound(pod)
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {node}"
        self._recorder.event(pod, EventText("Normal", "Scheduled", "Binding", note))


async def serve(kubeconfig: str, written: Written | None) -> None:
    """Bind until SIGTERM."""
    clock, random = RealClock(), Random()
    cluster = await connect(ConnectionSettings(kubeconfig=kubeconfig, qps=QPS, burst=BURST), clock, random)
    try:
        running = asyncio.create_task(NullBinder(cluster, clock, random, written).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        with suppress(asyncio.CancelledError):
            await running
    finally:
        await cluster.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="side_by_side.null_binder", description="Bind every pending pod to the next node.")
    parser.add_argument("--kubeconfig", required=True, metavar="FILE")
    parser.add_argument("--theme", default="", help=f"with {', '.join(WRITTEN)}: write what is written of such pods")
    parsed = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(parsed.kubeconfig, WRITTEN.get(parsed.theme)))


if __name__ == "__main__":
    main()
