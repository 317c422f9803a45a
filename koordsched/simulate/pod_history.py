"""The history of each pod, recorded from the scheduler's own watch.

`PodHistory` is a state machine without I/O; `PodHistoryHandler` feeds it. The state at the end is not enough: pods leave again, preempted
ones vanish, and the share of the cluster that is taken has its peak in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec

from koordsched.api.core import Pod
from koordsched.api.resources import pod_resources
from koordsched.cluster.object_store import Arrival, FinalState, object_key

RequestsOf = Callable[[Pod], Mapping[str, int]]


def requests_on_node(pod: Pod) -> Mapping[str, int]:
    """Return what a bound pod requests: cpu in milli, others in whole units."""
    return pod_resources(pod, counted_on_node=True).requests


def summed(requests: Sequence[Mapping[str, int]]) -> Counter[str]:
    """Return the sums by name. Pods with equal requests mostly share one mapping, which is added once, times its pods."""
    distinct, sums = {id(each): each for each in requests}, Counter[str]()
    for same, pods in Counter(map(id, requests)).items():
        for name, amount in distinct[same].items():
            sums[name] += pods * amount
    return sums


class PodStep(Enum):
    """What happens to a pod."""

    CREATED = "created"
    BOUND = "bound"
    DELETED = "deleted"


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A step of a pod, and when it happened. pod: on a node if it is or was bound."""

    at: float
    step: PodStep
    pod: Pod


class PodHistory:
    """The last state of every pod that ever was, by namespace/name, what the bound ones request, and what happened in which order.

    requests_of: called once for each pod that is bound, so that a caller that has computed its requests can return them. now: the time.
    was_bound: called with the key of each pod that is bound.
    """

    def __init__(
        self,
        requests_of: RequestsOf = requests_on_node,
        now: Callable[[], float] = float,
        was_bound: Callable[[str], None] | None = None,
    ) -> None:
        self._read_requests = requests_of
        self._now = now
        self._was_bound = was_bound
        self.changes: list[PodChange] = []
        self._counted: dict[str, Mapping[str, int]] = {}  # the requests of the pods on nodes, by key
        self._read: dict[str, Mapping[str, int]] = {}  # the requests of the pods that ever were on a node, by key
        self.pods: dict[str, Pod] = {}
        self.deleted: set[str] = set()
        self._taken: list[Mapping[str, int]] = []  # the requests of pods on nodes that are not in `_requested` yet
        self._requested: Counter[str] = Counter()
        self._peak: dict[str, int] = {}
        self.decided = 0  # pods bound so far
        self.version = 0  # grows with every pod that is bound or deleted

    def put(self, pod: Pod, *, gone: bool = False) -> None:
        """Record a pod's new state; gone: it was its last."""
        key = object_key(pod)
        if key not in self.pods or key in self.deleted:
            self.changes.append(PodChange(self._now(), PodStep.CREATED, pod))
        self.pods[key] = pod
        if gone:
            self.changes.append(PodChange(self._now(), PodStep.DELETED, pod))
            self.deleted.add(key)
            self._leave(key)
            self.version += 1
            return
        if self.deleted:
            self.deleted.discard(key)
        if not pod.spec.node_name:
            if key in self._counted:  # of another pod of this name
                self.changes += [PodChange(self._now(), step, pod) for step in (PodStep.DELETED, PodStep.CREATED)]
                self._leave(key)
                self.version += 1
        elif key not in self._counted:
            requests = self._counted[key] = self._read[key] = self._read_requests(pod)
            self._taken.append(requests)
            self.changes.append(PodChange(self._now(), PodStep.BOUND, pod))
            self.decided += 1
            self.version += 1
            if self._was_bound is not None:
                self._was_bound(key)

    def requests_of(self, key: str) -> Mapping[str, int] | None:
        """Return what the pod requests as long as it is on a node."""
        return self._counted.get(key)

    def asked_by(self, key: str) -> Mapping[str, int]:
        """Return what a pod requests, or would request on a node. KeyError: there never was such a pod."""
        found = self._read.get(key)
        return requests_on_node(self.pods[key]) if found is None else found

    def _leave(self, key: str) -> None:
        """Stop counting the pod, if it was counted. The peak is noted before."""
        if key in self._counted:
            self._note_peak()
            self._requested.subtract(self._counted.pop(key))

    def _note_peak(self) -> None:
        for name, total in self.requested.items():
            if total > self._peak.get(name, 0):
                self._peak[name] = total

    @property
    def requested(self) -> dict[str, int]:
        """Return what pods on nodes request now: cpu in milli, others in whole units, and `pods`."""
        if self._taken:
            self._requested.update(summed(self._taken))
            self._taken.clear()
        return {**self._requested, "pods": len(self._counted)}

    @property
    def peak(self) -> dict[str, int]:
        """Return the highest that `requested` was, per resource."""
        self._note_peak()
        return dict(self._peak)


class PodHistoryHandler:
    """Feeds the history with what the scheduler sees of pods; `changed` is called when a pod on a node changed."""

    def __init__(self, history: PodHistory, changed: Callable[[], None] | None) -> None:
        self._history = history
        self._changed = changed

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        self._history.put(pod)

    def on_update(self, _old: Pod, new: Pod) -> None:
        self._history.put(new)
        if self._changed is not None and new.spec.node_name:
            self._changed()

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._history.put(pod, gone=True)
