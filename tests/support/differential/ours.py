"""Our scheduler on the embedded cluster, kept equal to the real one.

A pod is judged by the columns of its shape: the feasible nodes, each plugin's scores, the best of them. One that fits nowhere is created
there, so that the message is the one that its condition would have. What kube-scheduler decided is then taken over by `follow`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from koordsched.api.core import Pod
from koordsched.api.kinds import POD, Kind, kind_of
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation import decode
from koordsched.clock import VirtualClock, VirtualTimeLoop
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.object_store import Arrival, FinalState
from koordsched.cluster.port import AlreadyExists, NotFound, Patch, Ref
from koordsched.config import load_config_text
from koordsched.config.flags import parse_flags
from koordsched.framework.status import PluginError
from koordsched.scheduler.scheduler import Dependencies, Scheduler
from koordsched.scheduler.transformers import standard_transformers
from support.differential.choosing import Json, merged
from support.differential.replacing import patches
from support.differential.scoring import Score, scores_of
from support.searching import feasible_rows, totals

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npercentageOfNodesToScore: 100\n"
KEPT = frozenset({"name", "namespace", "labels", "annotations", "ownerReferences"})
TIMEOUT_SECONDS = 30.0  # virtual
STEP_SECONDS = 0.05


class Judgement(NamedTuple):
    """What we make of a pod. `scores` is by node, then by plugin, and empty when there is nothing to choose among."""

    best: frozenset[str]
    message: str
    nominated: str
    scores: dict[str, dict[str, Score]]
    evicted: tuple[int, ...] = ()  # the priorities of pods that had to go


class Said:
    """Hears the first thing that is said of a pod: when something is evicted for it, it may be bound a moment later."""

    def __init__(self) -> None:
        self.message = self.nominated = self._about = ""

    @property
    def about(self) -> str:
        return self._about

    @about.setter
    def about(self, name: str) -> None:
        """Listen for this pod from now on."""
        self.message = self.nominated = ""
        self._about = name

    def on_add(self, obj: Pod, _arrival: Arrival) -> None:
        """Take no notice: a new pod has no condition."""

    def on_update(self, _old: Pod, new: Pod) -> None:
        if new.metadata.name != self._about or self.message:
            return
        for condition in new.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                self.message, self.nominated = condition.message, new.status.nominated_node_name

    def on_delete(self, obj: Pod, _final_state: FinalState) -> None:
        """Take no notice."""


class Ours:
    """A context manager: an embedded cluster with a scheduler on it, in virtual time, which begins at the virtual epoch.

    `config` has one profile; `gates` is what --feature-gates says. Its cluster has these objects, of which the pods in `deleted`
    are terminating.
    """

    def __init__(self, objects: Iterable[Json], deleted: Iterable[Json], config: str = CONFIG, gates: str = "") -> None:
        self._objects = list(objects)
        self._deleted = list(deleted)
        self._config = load_config_text(config)
        self._flags = parse_flags([f"--feature-gates={gates}"] if gates else [])
        self._loop = VirtualTimeLoop()
        self._runner = asyncio.Runner(loop_factory=lambda: self._loop)

    def __enter__(self) -> Self:
        self._runner.run(self._begin())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._runner.run(self._scheduler.kill())
        self._runner.close()

    def judge(self, pod: Json) -> Judgement:
        """Say which nodes are best for the pod, as the API server has it, or why there is none."""
        return self._runner.run(self._judge(pod))

    def place(self, pod: Json, node: str) -> Json:
        """Let the scheduler bind the pod, to this node if one is named, and return it as it is then: bound, or with what was said of it."""
        return self._runner.run(self._place(pod, node))

    def follow(self, objects: Iterable[Json]) -> None:
        """Make pods, volumes and claims what they are on the real cluster."""
        self._runner.run(self._follow(list(objects)))

    def change(self, written: Iterable[Json], deleted: Iterable[Json]) -> None:
        """Put objects in the place of what is there, and delete others; a pod that is written and not there stays away."""
        self._runner.run(self._change(list(written), list(deleted)))

    def wait_until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the virtual epoch."""
        self._runner.run(asyncio.sleep(max(0.0, seconds - self._loop.seconds)))

    def objects(self, kinds: Iterable[Kind]) -> list[Json]:
        """Return all objects of these kinds as they are on the cluster."""
        return [body for kind in kinds for body in self._cluster.raws(kind)]

    async def _begin(self) -> None:
        clock = VirtualClock(self._loop)
        self._cluster = MemoryCluster(clock, random=Random(1))
        self._scheduler = Scheduler(self._config, Dependencies(self._cluster, clock, Random(1), self._flags))
        self._transform = standard_transformers(self._flags.gates, lambda *_: None).of(POD)
        for body in self._objects:
            await self._put(body)
        for pod in self._deleted:
            await self._cluster.delete(ref_of(pod))
        await self._scheduler.start()
        self._said = Said()
        self._scheduler.watch_pods(self._said)
        await asyncio.sleep(STEP_SECONDS)

    async def _put(self, body: Json) -> None:
        ref = ref_of(body)
        try:
            await self._cluster.create(ref.kind, without_identity(body))
        except AlreadyExists:  # what every cluster has, or a volume or a claim that has changed
            await self._cluster.update(ref, without_identity(body))
        if "status" in body and "status" not in self._cluster.raw(ref):
            await self._cluster.patch(ref, Patch({"status": body["status"]}, subresource="status"))

    async def _change(self, written: list[Json], deleted: list[Json]) -> None:
        for body in written:
            ref = ref_of(body)
            try:
                present = self._cluster.raw(ref)
            except NotFound:
                if ref.kind != POD:
                    await self._put(body)
                continue
            for subresource, patch in patches(ref.kind, present, body):
                await self._cluster.patch(ref, Patch(patch, subresource=subresource))
        for body in deleted:
            with suppress(NotFound):
                await self._cluster.delete(ref_of(body), grace_period_seconds=0 if body["kind"] == "Pod" else None)
        await asyncio.sleep(STEP_SECONDS)

    async def _judge(self, pod: Json) -> Judgement:
        (profile,) = self._scheduler.profiles.values()
        shapes = profile.shapes
        assert self._transform is not None
        info = PodInfo(self._transform(decoded(pod)))
        info.shape = shapes.key(info)
        try:
            rows = feasible_rows(shapes, info)
            found = totals(shapes, info) if len(rows) > 1 else {}
        except PluginError:
            return await self._refusal(pod)
        if not rows:
            return await self._refusal(pod)
        names = {row: self._scheduler.cache.nodes().info(row).name for row in rows}
        if len(rows) == 1:  # taken without a look at its scores
            return Judgement(frozenset(names.values()), "", "", {})
        winners = frozenset(names[row] for row, total in found.items() if total == max(found.values()))
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        others = np.setdiff1d(shape.evaluation.feasible_rows(), np.array(rows, np.int32))  # to which the pod may not go
        shapes.overrule(shape, others)
        try:
            shapes.pre_score(shape, info)
            shapes.score(shape, info)
            return Judgement(winners, "", "", scores_of(self._scheduler.cache, shape, info, names))
        finally:
            shapes.reinstate(shape, others)

    async def _refusal(self, pod: Json) -> Judgement:
        """Let the scheduler try the pod, and return what it says. What it evicts for it comes back with the next `follow`."""
        before = self._cluster.raws(POD)
        self._said.about = pod["metadata"]["name"]
        await self._cluster.create(POD, pod)
        for _ in range(int(TIMEOUT_SECONDS / STEP_SECONDS)):
            await asyncio.sleep(STEP_SECONDS)
            if self._said.message:
                evicted = lost(before, self._cluster.raws(POD))
                return Judgement(frozenset(), self._said.message, self._said.nominated, {}, evicted)
        raise AssertionError(f"nothing was said of {pod['metadata']['name']}: {self._cluster.raw(ref_of(pod))}")

    async def _place(self, pod: Json, node: str) -> Json:
        self._said.about = pod["metadata"]["name"]
        await self._cluster.create(POD, merged([pod, {"spec": pinned_to(node) if node else {}}]))
        for _ in range(int(TIMEOUT_SECONDS / STEP_SECONDS)):
            await asyncio.sleep(STEP_SECONDS)
            found = self._cluster.raw(ref_of(pod))
            if self._said.message or placed(found):
                return found
        raise AssertionError(f"nothing became of {pod['metadata']['name']}: {found}")

    async def _follow(self, objects: list[Json]) -> None:
        wanted = {ref_of(body): body for body in objects}
        for pod in list(self._cluster.raws(POD)):
            body = wanted.get(ref_of(pod))
            if body is None or placed(body) != placed(pod) or annotations_of(body) != annotations_of(pod):
                await self._cluster.delete(ref_of(pod), grace_period_seconds=0)
            else:
                del wanted[ref_of(pod)]
        for body in wanted.values():
            await self._put(body)
        await asyncio.sleep(STEP_SECONDS)


def decoded(pod: Json) -> Pod:
    found = decode(POD, pod)
    assert isinstance(found, Pod)
    return found


def ref_of(body: Json) -> Ref:
    kind = kind_of(body["apiVersion"], body["kind"])
    assert kind is not None, body["kind"]
    namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
    return Ref(kind, namespace, body["metadata"]["name"])


def lost(before: Iterable[Json], after: Iterable[Json]) -> tuple[int, ...]:
    """Return the priorities of the bound pods that are not there any more, in ascending order."""
    left = {body["metadata"]["name"] for body in after if body["kind"] == "Pod"}
    gone = [body for body in before if body["kind"] == "Pod" and placed(body) and body["metadata"]["name"] not in left]
    return tuple(sorted(body["spec"].get("priority", 0) for body in gone))


def placed(body: Json) -> str:
    """Return where a pod is; anything else is nowhere."""
    return str(body["spec"].get("nodeName", ""))


def annotations_of(body: Json) -> Json:
    return dict(body["metadata"].get("annotations", {}))


def pinned_to(node: str) -> Json:
    """Return what keeps a pod without a node affinity on one node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def without_identity(body: Json) -> Json:
    """Return the object without what is another one on each cluster: uids, of which a volume has its claim's, and versions."""
    metadata = {key: value for key, value in body["metadata"].items() if key in KEPT}
    spec = body.get("spec", {})
    if "claimRef" in spec:
        reference = {key: value for key, value in spec["claimRef"].items() if key not in {"uid", "resourceVersion"}}
        return {**body, "metadata": metadata, "spec": {**spec, "claimRef": reference}}
    return {**body, "metadata": metadata}
