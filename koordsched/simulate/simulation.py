"""Run a workload on an embedded cluster, and sum up what became of it.

Everything that exists is created, the scheduler starts, pods come (and go) at their times, and the end is when nothing is left to do. All
waiting is virtual. Objects that the cluster refuses are outcomes, not errors: a line of their own and, for pods, a place among the pending.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from operator import itemgetter
from random import Random
from typing import Any

import msgspec

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import EVENT, NAMESPACE, POD, PRIORITY_CLASS
from koordsched.api.resources import node_allocatable
from koordsched.cluster.object_store import object_key
from koordsched.cluster.port import AlreadyExists, ClusterError, NotFound
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.tooling import PluginReport
from koordsched.manifests.objects import Manifest, Rejection
from koordsched.plugins import tooling
from koordsched.scheduler.transformers.pods import ORIGINAL_SCHEDULER_NAME
from koordsched.simulate.bands import BandCount
from koordsched.simulate.fairness import NamespaceCount
from koordsched.simulate.fragmentation import AMOUNTS, Mix, Request, request_of, unusable
from koordsched.simulate.pod_history import PodHistory, PodHistoryHandler, PodStep, requests_on_node
from koordsched.simulate.result import SHARE_DIGITS, Pending, Placement, Result, Summary
from koordsched.simulate.usage import RunFacts, UsageRecord, usage_of
from koordsched.simulate.workload import PodArrival, Workload
from koordsched.tasks import Tasks

POLL_SECONDS = 0.1
"""Virtual seconds between two checks whether the scheduler is done: everything that is due happens in between."""
QUIET_SECONDS, SLOW_POLL_SECONDS = 10.0, 1.0
"""After so many quiet seconds only retries are left, which come after whole seconds of backoff: check less often."""
GIVE_UP_SECONDS = 1200.0
"""Virtual seconds without a pod bound or deleted after which what the scheduler still retries counts as pending. Longer than any wait of
its own: Permit ends after at most 15 minutes (framework.md §2.1)."""
ENDED_PODS = ("status.phase=Succeeded", "status.phase=Failed")

Progress = Callable[[int, int], None]
"""Called with how many pods of how many have a node."""


class SimulationOutcome(msgspec.Struct):
    """The result, what the cluster refused of the input, what plugins report, by key, and what works out use over time."""

    result: Result
    rejected: list[Rejection]
    reports: dict[str, PluginReport] = {}
    usage: Callable[[], UsageRecord] | None = None


class Simulation:
    """One workload on one embedded cluster. `run` may be called once. progress: None where it is not shown."""

    def __init__(self, workload: Workload, embedded: EmbeddedCluster, progress: Progress | None) -> None:
        self._workload = workload
        self._embedded = embedded
        self._progress = progress
        self._running = {arrival.manifest.key: arrival for arrival in workload.arrivals if arrival.runs is not None}
        self._ends: list[float] = []  # a heap: when pods on nodes will have run for their time
        self._tasks = Tasks(Random(0))  # one for each of them
        self.history = PodHistory(self._requests_of, embedded.now, self._begin if self._running else None)
        self._submitted: dict[str, Manifest] = {}  # every pod by key, in the order of creation
        self.refused: dict[str, str] = {}  # pod -> why the cluster did not take it
        self._departed: set[str] = set()
        self._begun = 0.0  # when the first pods come
        self._mix: Counter[Request] = Counter()  # what pods ask for, once it is summed up
        self.rejected = list(workload.rejected)

    async def run(self) -> SimulationOutcome:
        """Run to the end and sum up."""
        clock = self._embedded.clock
        begun = clock.perf()
        await self.play()
        await self._embedded.stop()
        seconds = clock.perf() - begun
        reports = await self._reports()
        return SimulationOutcome(await self._sum_up(seconds, reports), self.rejected, reports, self._usage)

    async def play(self, give_up: float = GIVE_UP_SECONDS) -> None:
        """Run to the end, and leave the scheduler running. give_up: virtual seconds without a pod bound or deleted that are the end."""
        for manifest in self._workload.existing:
            await self._create(manifest)
        await self._note_ended_pods()
        self._embedded.scheduler.watch_pods(PodHistoryHandler(self.history, self._progress and self._report))
        await self._embedded.start()
        self._begun = self._embedded.now()
        await self._submit_and_delete()
        await self._until_done(give_up)

    async def _note_ended_pods(self) -> None:
        """Record pods that ended before the simulation began: the scheduler does not watch them."""
        for selector in ENDED_PODS:
            for pod in (await self._embedded.cluster.list(POD, field_selector=selector)).items:
                if isinstance(pod, Pod):
                    self.history.pods[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod

    async def _submit_and_delete(self) -> None:
        """Submit and delete pods at their times; at one moment those that leave make room first."""
        moments = [(arrival.at, 1, arrival) for arrival in self._workload.arrivals]
        moments += [(arrival.departs, 0, arrival) for arrival in self._workload.arrivals if arrival.departs is not None]
        moments.sort(key=itemgetter(0, 1))
        begun, reached = self._begun, 0.0
        for at, comes, arrival in moments:
            if at > reached:
                reached = at
                wait = begun + at - self._embedded.now()
                if wait > 0:
                    await asyncio.sleep(wait)
            await (self._create(arrival.manifest) if comes else self._delete(arrival))

    async def _until_done(self, give_up: float) -> None:
        """Wait until no pod has time left on its node, and the scheduler twice has nothing to do, or only retries in vain."""
        quiet_since, version, idle = self._embedded.now(), -1, 0
        while idle < 2:  # noqa: PLR2004  # one check could come before the last change is noticed
            await asyncio.sleep(self._pause(self._embedded.now() - quiet_since))
            if self.history.version != version:
                version, quiet_since = self.history.version, self._embedded.now()
            elif self._embedded.now() - quiet_since > give_up and not self._ends:
                return
            idle = idle + 1 if self._embedded.scheduler.idle() and not self._ends else 0

    def _pause(self, quiet: float) -> float:
        """Return how long to wait until the next check: the scheduler was quiet for so many seconds."""
        if quiet < QUIET_SECONDS:
            return POLL_SECONDS
        return max(SLOW_POLL_SECONDS, self._ends[0] - self._embedded.now()) if self._ends else SLOW_POLL_SECONDS

    def _begin(self, key: str) -> None:
        """Let a pod leave when it has run for its time on the node that it was just given."""
        arrival = self._running.pop(key, None)
        if arrival is not None and arrival.runs is not None:
            heappush(self._ends, self._embedded.now() + arrival.runs)
            self._tasks.once("simulate: the end of a pod", self._run_out(arrival, arrival.runs))

    async def _run_out(self, arrival: PodArrival, seconds: float) -> None:
        await asyncio.sleep(seconds)
        heappop(self._ends)
        await self._delete(arrival)

    def _requests_of(self, pod: Pod) -> Mapping[str, int]:
        """Return what the scheduler counts for a pod on a node; its cache has seen the pod right before."""
        counted = self._embedded.scheduler.cache.pods.get(pod.metadata.uid)
        return requests_on_node(pod) if counted is None else counted.info.resources.requests

    def _report(self) -> None:
        assert self._progress is not None
        self._progress(self.history.decided, max(len(self._workload.arrivals), len(self._submitted)))

    async def _create(self, manifest: Manifest) -> None:
        key = manifest.key
        if manifest.kind is POD:
            self._submitted.setdefault(key, manifest)
        try:
            await self._embedded.create(manifest.kind, manifest.body)
        except AlreadyExists as error:
            await self._patch_existing(manifest, error)
        except ClusterError as error:
            self._reject(manifest, error)
            if manifest.kind is POD:
                self.refused[key] = problem_of(manifest, error)
        else:
            if self.refused:
                self.refused.pop(key, None)

    async def _patch_existing(self, manifest: Manifest, error: AlreadyExists) -> None:
        """Patch a namespace or a priority class, which may be there already (made on demand, or always there); others are there once."""
        if manifest.kind not in {NAMESPACE, PRIORITY_CLASS}:
            self._reject(manifest, error)
            return
        try:
            await self._embedded.patch(manifest.ref, manifest.body)
        except ClusterError as refusal:
            self._reject(manifest, refusal)

    def _reject(self, manifest: Manifest, error: ClusterError) -> None:
        self.rejected.append(Rejection(manifest.origin, f"{manifest.kind.kind} {manifest.key}", problem_of(manifest, error)))

    async def _delete(self, arrival: PodArrival) -> None:
        """Let a pod leave, unless it has left otherwise (preempted, refused)."""
        if arrival.manifest.key in self.history.deleted:
            return
        self._departed.add(arrival.manifest.key)
        try:
            await self._embedded.delete(arrival.manifest.ref)
        except NotFound:
            return

    async def _reports(self) -> dict[str, PluginReport]:
        """Ask plugins for their reports on the pods that are on nodes."""
        found: dict[str, PluginReport] = {}
        for report in (report for each in tooling() for report in each.reports):
            objects = (await self._embedded.cluster.list(report.kind)).items
            if not objects:
                continue
            pods = self.history.pods
            there = (pods[key] for key in self._submitted if key in pods and key not in self.history.deleted)
            made = report.make((pod for pod in there if pod.spec.node_name), objects, self._embedded.scheduler.cache)
            if made is not None:
                found[report.key] = made
        return found

    async def _sum_up(self, seconds: float, reports: dict[str, PluginReport]) -> Result:
        nodes = list(self._embedded.scheduler.nodes.values())
        preempted = await self._preempted()
        placements, pending, bands, namespaces = [], [], BandCount(), NamespaceCount()
        mix = self._mix
        pods, deleted = self.history.pods, self.history.deleted
        for key, manifest in self._submitted.items():
            pod = pods.get(key)
            stays = key not in deleted or key in self._departed
            if pod is not None:
                bound, asked = bool(pod.spec.node_name and stays), self.history.asked_by(key)
                bands.add(pod, self.history.requests_of(key), bound=bound)
                namespaces.add(pod.metadata.namespace, asked, bound=bound)
                mix[request_of(asked)] += 1
            if pod is not None and pod.spec.node_name and stays:
                annotations = _written(pod, manifest) if pod.metadata.annotations else {}
                placements.append(Placement(pod=key, node=pod.spec.node_name, annotations=annotations))
            else:
                pending.append(Pending(pod=key, reason=self._reason(key, pod, preempted)))
        metrics = self._embedded.scheduler.metrics
        offered = _offered(nodes)
        summary = Summary(
            nodes=len(nodes),
            pods=len(self._submitted),
            bound=len(placements),
            pending=len(pending),
            seconds=round(seconds, 3),
            decision_mean_micros=round(1e6 * metrics.decision_seconds_sum / max(metrics.decisions, 1), 1),
            allocation=self._allocation(offered),
            unusable=unusable(self._embedded.scheduler.cache.nodes_by_name.values(), mix, offered),
            fairness=namespaces.fairness(offered),
            bands=bands.summaries(offered),
            reports={key: report.summary for key, report in reports.items()},
        )
        return Result(placements=placements, pending=pending, summary=summary)

    def _usage(self) -> UsageRecord:
        """Work out what the cluster was used for, after the run."""
        cache, changes = self._embedded.scheduler.cache, self.history.changes
        on_nodes = [change.pod for change in changes if change.step is PodStep.BOUND]
        found = {tool.key: (tool, tool.find(on_nodes, cache)) for each in tooling() for tool in each.shared_units}
        facts = RunFacts(
            changes=changes,
            begun=self._begun,
            is_timed=self._workload.is_timed,
            allocatable={
                info.name: tuple(info.allocatable(name) for name in AMOUNTS)
                for info in cache.nodes_by_name.values()
                if info.node is not None
            },
            offered=_offered(list(self._embedded.scheduler.nodes.values())),
            requests=lambda pod: self.history.asked_by(object_key(pod)),
            mix=Mix(self._mix),
            units={key: (tool, units) for key, (tool, units) in found.items() if units is not None},
        )
        return usage_of(facts)

    def _reason(self, key: str, pod: Pod | None, preempted: dict[str, str]) -> str:
        """Return why a pod has no node, in the scheduler's words where it has any."""
        if key in self.refused:
            return f"rejected: {self.refused[key]}"
        if key in preempted:
            return f"preempted: {preempted[key]}"
        if pod is None or (key in self.history.deleted and key not in self._departed):
            return "it was deleted"
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                return condition.message
        if pod.spec.scheduler_name in self._embedded.scheduler.profiles:
            return "not tried: it waits for its gang or its quota"
        return f"not tried: it is for the scheduler {pod.spec.scheduler_name}, which is no profile of the configuration"

    async def _preempted(self) -> dict[str, str]:
        """Return the notes of the Preempted events, by pod."""
        if not self.history.deleted:
            return {}
        found = {}
        for event in (await self._embedded.cluster.list(EVENT)).items:
            regarding: Any = getattr(event, "regarding", None)
            if getattr(event, "reason", "") == "Preempted" and regarding is not None:
                found[f"{regarding.namespace}/{regarding.name}"] = getattr(event, "note", "")
        return {key: note for key, note in found.items() if key in self.history.deleted}

    def _allocation(self, offered: Mapping[str, int]) -> dict[str, float]:
        """Return per resource what pods on nodes request of what all nodes offer; at its peak where pods leave again."""
        requested = self.history.peak if self._workload.departs else self.history.requested
        names = [name for name in ("cpu", "memory") if name in offered] + sorted(offered.keys() - {"cpu", "memory"})
        return {name: round(requested.get(name, 0) / offered[name], SHARE_DIGITS) for name in names if offered[name]}


def _offered(nodes: list[Node]) -> Mapping[str, int]:
    """Return what all nodes together can give."""
    offered: dict[str, int] = {}
    distinct = {id(node.status): node for node in nodes}  # nodes that offer the same mostly share what says so
    for same, count in Counter(id(node.status) for node in nodes).items():
        for name, amount in node_allocatable(distinct[same]).items():
            offered[name] = offered.get(name, 0) + count * amount
    return offered


def problem_of(manifest: Manifest, error: ClusterError) -> str:
    """Say what is wrong with an object: path, value and reason, without the name that stands before it anyway."""
    subject = f"{manifest.kind.kind}.{manifest.kind.group}" if manifest.kind.group else manifest.kind.kind
    return error.message.removeprefix(f'{subject} "{manifest.ref.name}" is invalid: ')


def _written(pod: Pod, manifest: Manifest) -> dict[str, str]:
    """Return the annotations that were not there, or said something else, when the pod was submitted."""
    submitted = manifest.body["metadata"].get("annotations") or {}
    annotations = sorted(pod.metadata.annotations.items())
    return {key: text for key, text in annotations if submitted.get(key) != text and key != ORIGINAL_SCHEDULER_NAME}
