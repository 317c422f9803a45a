"""What became of each pod, kept while it happens from the scheduler's own watch.

`Ledger` is a state machine without I/O; `LedgerHandler` feeds it. It must follow rather than look at the end: pods leave again, preempted
ones vanish, and the share of the cluster that is taken has its peak in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from koordsched.api.core import Pod
from koordsched.api.resources import pod_resources
from koordsched.cluster.mirror import Arrival, FinalState, object_key


class Ledger:
    """The last state of every pod that ever was, by namespace/name, and what the bound ones request."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.deleted: set[str] = set()
        self.requested: Counter[str] = Counter()  # by pods on nodes now: cpu in milli, others in whole units, and `pods`
        self.peak: dict[str, int] = {}  # the highest that `requested` was, per resource
        self.decided = 0  # pods bound so far
        self.version = 0  # grows with every pod that is bound or deleted

    def put(self, pod: Pod, *, gone: bool = False) -> None:
        """Take in a pod's new state; gone: it was its last."""
        key = object_key(pod)
        before = self.pods.get(key)
        was_there = before is not None and bool(before.spec.node_name) and key not in self.deleted
        self.pods[key] = pod
        if gone:
            self.deleted.add(key)
        elif self.deleted:
            self.deleted.discard(key)
        is_there = bool(pod.spec.node_name) and not gone
        if is_there != was_there:
            self._count(pod if is_there or before is None else before, 1 if is_there else -1)
            self.decided += is_there
        self.version += is_there != was_there or gone

    def _count(self, pod: Pod, sign: int) -> None:
        requested, peak = self.requested, self.peak
        requests = pod_resources(pod, counted_on_node=True).requests
        for name, amount in (*requests.items(), ("pods", 1)):
            requested[name] = total = requested[name] + sign * amount
            if total > peak.get(name, 0):
                peak[name] = total


class LedgerHandler:
    """Feeds the ledger with what the scheduler sees of pods, and tells when it changed."""

    def __init__(self, ledger: Ledger, changed: Callable[[], None]) -> None:
        self._ledger = ledger
        self._changed = changed

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        self._ledger.put(pod)

    def on_update(self, _old: Pod, new: Pod) -> None:
        self._ledger.put(new)
        if new.spec.node_name:
            self._changed()

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._ledger.put(pod, gone=True)
