"""Who may preempt at all (framework.md §7.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.clock import parse_rfc3339
from koordsched.framework.status import Code, Status, unschedulable

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo

NEVER = "Never"
POLICY_NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
TERMINATING = unschedulable("not eligible due to a terminating pod on the nominated node.")

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"

PATIENCE_SECONDS = 60.0
"""For how long after its grace period a victim is waited for. kube-scheduler waits for ever (kubernetes #95752)."""


def leaving(pod: PodInfo, node: NodeInfo) -> list[PodInfo]:
    """Return the pods of lower priority that were evicted for somebody and are still on the node."""
    return [other for other in node.pods.values() if other.priority < pod.priority and _was_evicted(other.pod)]


def overdue_at(victim: PodInfo) -> float:
    """Return when to stop waiting for a terminating pod, in seconds since the epoch. Its deletionTimestamp is when its grace ends."""
    stamp = victim.pod.metadata.deletion_timestamp
    try:
        return parse_rfc3339(stamp) + PATIENCE_SECONDS if stamp is not None else float("inf")
    except ValueError:
        return float("inf")


def may_wait_for(status: Status | None) -> bool:
    """Answer whether victims that leave could help on a node with this status."""
    return status is None or status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def _was_evicted(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        condition.type == DISRUPTION_TARGET and condition.status == "True" and condition.reason == BY_SCHEDULER
        for condition in pod.status.conditions
    )
