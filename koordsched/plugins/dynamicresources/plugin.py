"""DynamicResources in its place among the plugins, without its work: a pod with resource claims pends, and its condition says why.

PreFilter refuses such a pod as a whole: a pod must never run without the devices that it claims. PreEnqueue lets it in, since nothing is
reported to a gated pod. For all other pods PreFilter skips, and
PostFilter answers what the plugin of Kubernetes v1.35 (plugins/dynamicresources/dynamicresources.go) does, whose text stands in the
message of every pod that finds no node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.framework.interface import FilterNodesPlugin, PostFilterPlugin, PostFilterResult, PreFilterPlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.interface import Codes

REASON = "the pod has resource claims [{claims}], which this version of koord-scheduler does not allocate"
NOTHING_TO_FREE = unschedulable("no new claims to deallocate")
NOTHING_HELPS = unschedulable("still not schedulable")


class DynamicResources(PreFilterPlugin, FilterNodesPlugin, PostFilterPlugin):
    name = "DynamicResources"
    signs = ("pod.spec.resource_claims",)
    reads = NodeChange.EXISTENCE  # nothing that a node has makes it able to serve a claim

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status:
        return _refusal(pod) if pod.pod.spec.resource_claims else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        return None  # PreFilter skips all pods that it does not refuse

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return _refusal(pod)

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        return None, self.expected_refusal(pod, diagnosis)

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        return False

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status:
        return NOTHING_HELPS if pod.pod.spec.resource_claims else NOTHING_TO_FREE

    def events_to_register(self) -> Sequence[EventHint]:
        # A pod's claims never change, only which objects they are: it is tried again then, so that its condition is up to date.
        return (EventHint(cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM), _is_own),)


def _refusal(pod: PodInfo) -> Status:
    return unresolvable(REASON.format(claims=" ".join(claim.name for claim in pod.pod.spec.resource_claims)))


def _is_own(pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP
