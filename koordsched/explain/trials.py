"""Trials: what becomes of the pod if something were different, found out by scheduling it on a copy of the cluster; `QuickTrials` finds out
most of it on columns, and has what is said confirmed by such a trial.

The copy has what is placed, the pod, and the pending members of its gang; other pending pods and Reservations are left out, as the question
is whether there is room, not who is first. A trial never evicts: a change that would need evictions is no change that suffices.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import EVENT, NODE, POD, RESERVATION
from koordsched.cluster.port import ClusterError, Ref
from koordsched.explain.applying import Draft, apply
from koordsched.scheduler.suggestions.changes import NOWHERE, TrialOutcome
from koordsched.scheduler.suggestions.node_changes import narrowed
from koordsched.scheduler.suggestions.search import Suggestion, smallest_changes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.embedded.cluster import EmbeddedCluster
    from koordsched.framework.pod_diagnosis import FailedNodes
    from koordsched.scheduler.suggestions.changes import Change, Sized
    from koordsched.scheduler.suggestions.column_trials import ColumnTrials

Json = dict[str, Any]

STEP_SECONDS = 0.01
"""Virtual seconds between two looks at a trial."""
QUIET_STEPS = 3
"""A scheduler that has had nothing to do for so many looks has decided."""
MOST_STEPS = 300
ALL_SCORES = 2**31


MOST_TRIALS = 600
MOST_COLUMN_TRIALS = 20_000


class CopyTrials:
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

    @property
    def is_exhausted(self) -> bool:
        return self.count > MOST_TRIALS

    def likely_level(self, _change: Change, _others: Sequence[Sized]) -> int:
        return 0

    def narrowed(self, change: Change, node: str) -> Change | None:
        return narrowed(change, node)

    async def run(self, changes: Sequence[Sized] = ()) -> TrialOutcome:
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
                await apply(change, draft, level)
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


class QuickTrials:
    """Trials on the columns of the cluster's own scheduler, a hundred times as quick, and on copies where the columns do not show it.

    Other pending pods are there on the columns: what they ask of quotas counts, and so does room that is kept for nominated ones.
    """

    def __init__(self, copies: CopyTrials, columns: ColumnTrials) -> None:
        self.copies = copies
        self._columns = columns

    @property
    def count(self) -> int:
        return self.copies.count + self._columns.count

    @property
    def is_exhausted(self) -> bool:
        return self.copies.is_exhausted or self._columns.count > MOST_COLUMN_TRIALS

    async def run(self, changes: Sequence[Sized] = ()) -> TrialOutcome:
        found = self._columns.estimate(changes)
        return await self.copies.run(changes) if found is None else found

    def likely_level(self, change: Change, others: Sequence[Sized]) -> int:
        return self._columns.likely_level(change, others)

    def narrowed(self, change: Change, node: str) -> Change | None:
        return narrowed(change, node)

    async def confirmed(self, found: Sequence[Suggestion]) -> list[Suggestion]:
        """Return what holds on a copy, too; where the columns said otherwise, what suffices there."""
        confirmed = list[Suggestion]()
        for each in found:
            outcome = await self.copies.run(each.changes)
            if outcome.node:
                confirmed.append(Suggestion(each.changes, outcome))
            else:
                confirmed += await smallest_changes(self.copies, [change for change, _ in each.changes])
        return confirmed


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
