"""Trials: what becomes of the pod if something were different, found out by scheduling it on a copy of the cluster.

The copy has what is placed, the pod, and the pending members of its gang; other pending pods and Reservations are left out, as the question
is whether there is room, not who is first. A trial never evicts: a change that would need evictions is no change that suffices.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from koordsched.api.kinds import EVENT, NODE, POD, RESERVATION
from koordsched.cluster.port import ClusterError, NotFound, Ref

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.embedded.cluster import EmbeddedCluster
    from koordsched.framework.pod_diagnosis import FailedNodes

Json = dict[str, Any]

STEP_SECONDS = 0.01
"""Virtual seconds between two looks at a trial."""
QUIET_STEPS = 3
"""A scheduler that has had nothing to do for so many looks has decided."""
MOST_STEPS = 300
ALL_SCORES = 2**31


class Change(Protocol):
    """Something that could be different. It has amounts, by level: a higher one is a larger change, and helps wherever a lower one does."""

    @property
    def kind(self) -> str:
        """Return the kind of the change: that of which none is smaller."""

    @property
    def levels(self) -> int:
        """Return the number of amounts, at least 1: level 1 is the smallest change, this the largest."""

    async def apply(self, draft: Draft, level: int, /) -> None:
        """Make the change on a copy."""

    def text(self, level: int, /) -> str:
        """Say what is changed, as an instruction."""

    def fields(self, level: int, /) -> Json:
        """Return the same for programs, without the kind."""


class Draft(msgspec.Struct):
    """A copy of the cluster that is being changed. pods: the bodies of the pod and of the pending members of its gang, by key."""

    base: MemoryCluster
    embedded: EmbeddedCluster
    pod: str
    pods: dict[str, Json]
    same: Sequence[str]

    @property
    def cluster(self) -> MemoryCluster:
        return self.embedded.cluster

    @property
    def alike(self) -> list[Json]:
        """Return the bodies of the pod and of the members of its gang that have the same specification: they are changed together."""
        return [self.pods[key] for key in self.same]

    def unchanged(self, ref: Ref) -> Json | None:
        """Return an object as it is without the changes, so that their order does not matter; None where there is none."""
        try:
            return self.base.raw(ref)
        except NotFound:
            return None


class TrialOutcome(msgspec.Struct, frozen=True):
    """What became of the pod. node: where it went, "" for nowhere. fits: how many nodes passed its filters, 0 where that was not asked."""

    node: str
    fits: int


NOWHERE = TrialOutcome("", 0)


class Trials:
    """Makes trials for one pod. `count` is how many there were."""

    def __init__(self, embedded: EmbeddedCluster, pod: str, members: Collection[str]) -> None:
        """embedded: the cluster as it is, with its scheduler. members: the keys of the pod and of the pending pods of its gang."""
        self.pod = pod
        self.count = 0
        self.left_out = 0
        self._embedded = embedded
        self._base = embedded.cluster.copy(Random("base"))
        self._members: dict[str, Json] = {}
        self._prepared: Sequence[str] = tuple(members)

    async def prepare(self) -> None:
        """Take everything out of the copy that is not part of the question."""
        members = frozenset(self._prepared)
        for raw in list(self._base.raws(POD)):
            ref = _ref_of(raw)
            key = f"{ref.namespace}/{ref.name}"
            if (raw.get("spec") or {}).get("nodeName"):
                continue
            if key in members:
                self._members[key] = _as_new(raw)
            else:
                self.left_out += 1
            await self._remove(ref)
        for raw in list(self._base.raws(RESERVATION)):
            if not (raw.get("status") or {}).get("nodeName"):
                await self._remove(Ref(RESERVATION, "", raw["metadata"]["name"]))
        for raw in list(self._base.raws(EVENT)):
            await self._base.delete(Ref(EVENT, raw["metadata"]["namespace"], raw["metadata"]["name"]))

    async def _remove(self, ref: Ref) -> None:
        if self._base.raw(ref)["metadata"].get("finalizers"):
            await self._base.update(ref, {**self._base.raw(ref), "metadata": {**self._base.raw(ref)["metadata"], "finalizers": []}})
        await self._base.delete(ref, grace_period_seconds=0 if ref.kind == POD else None)

    @property
    def base(self) -> MemoryCluster:
        """The copy without the pod, to be read."""
        return self._base

    @property
    def body(self) -> Json:
        """The pod as it is submitted in trials, to be read."""
        return self._members[self.pod]

    @property
    def members(self) -> Mapping[str, Json]:
        return self._members

    async def run(self, changes: Sequence[tuple[Change, int]] = ()) -> TrialOutcome:
        """Schedule the pod with these changes. What the cluster refuses is no change that suffices."""
        self.count += 1
        copy = self._embedded.scheduled_apart(self._base.copy(Random(f"trial {self.count}")))
        own = (self.body["spec"], self.body["metadata"].get("annotations"))
        same = [key for key, body in self._members.items() if (body["spec"], body["metadata"].get("annotations")) == own]
        draft = Draft(self._base, copy, self.pod, {key: msgspec.to_builtins(body) for key, body in self._members.items()}, same)
        explanations = copy.scheduler.explanations
        explanations.decisions.kept = {}
        explanations.switches.filters, explanations.switches.top_scores = True, ALL_SCORES
        try:
            for change, level in changes:
                await change.apply(draft, level)
            bound = len(copy.cluster.raws(POD))
            for body in draft.pods.values():
                await copy.create(POD, body)
            await copy.start()
            node = await self._node_of(copy)
        except ClusterError:
            return NOWHERE
        finally:
            await copy.scheduler.kill()
        if not node or len(copy.cluster.raws(POD)) < bound + len(draft.pods):
            return NOWHERE
        decision = explanations.decisions.kept.get(self.pod)
        return TrialOutcome(node, 0 if decision is None else len(takers(copy.cluster, decision.failed_nodes)))

    async def _node_of(self, copy: EmbeddedCluster) -> str:
        """Wait until the scheduler has decided about the pod, and return its node."""
        namespace, _, name = self.pod.partition("/")
        ref, scheduler, quiet = Ref(POD, namespace, name), copy.scheduler, 0
        for _ in range(MOST_STEPS):
            await asyncio.sleep(STEP_SECONDS)
            found = await copy.get(ref)
            if found is None:
                return ""
            if node := found["spec"].get("nodeName"):
                return str(node)
            busy = scheduler.queue.sizes().active or scheduler.queue.in_flight or scheduler.cycle.binding.tasks
            quiet = 0 if busy else quiet + 1
            if quiet == QUIET_STEPS:
                return ""
        return ""


def takers(cluster: MemoryCluster, failed: Sequence[FailedNodes]) -> list[str]:
    """Return the names of the nodes that no filter refuses."""
    refused = {node for part in failed for node in part.nodes}
    return [name for name in (raw["metadata"]["name"] for raw in cluster.raws(NODE)) if name not in refused]


def _ref_of(raw: Mapping[str, Any]) -> Ref:
    return Ref(POD, raw["metadata"]["namespace"], raw["metadata"]["name"])


def _as_new(raw: Mapping[str, Any]) -> Json:
    """Return a pod as its owner would submit it once more, which evicts nothing."""
    metadata = {key: value for key, value in raw["metadata"].items() if key not in {"uid", "resourceVersion", "generation", "finalizers"}}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "preemptionPolicy": "Never"}, "status": {"phase": "Pending"}}
