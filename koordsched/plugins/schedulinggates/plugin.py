"""SchedulingGates: PreEnqueue refuses a pod whose spec.schedulingGates is not empty.

Reference: plugins/schedulinggates/scheduling_gates.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.interface import PreEnqueuePlugin
from koordsched.framework.status import Status, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo

REASON = "waiting for scheduling gates: [{gates}]"


class SchedulingGates(PreEnqueuePlugin):
    name = "SchedulingGates"
    signs = ("pod.spec.scheduling_gates",)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(REASON.format(gates=" ".join(gate.name for gate in gates)))

    def events_to_register(self) -> Sequence[EventHint]:
        # Gates can only be removed, and one gate is as good as two: only the last one matters.
        return (EventHint(cluster_event(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), _is_own),)


def _is_own(pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP
