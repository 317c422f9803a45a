"""A PodDiagnosis as Koordinator's log line, and several of them as the status of a ScheduleExplanation (frameworkext.md §4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.koordinator.explanations import (
    DetailedExplanation,
    ExplainedAttempt,
    FeasibleResult,
    NodeFailedDetail,
    ScheduleExplanationStatus,
)
from koordsched.clock import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched.framework.pod_diagnosis import NodeDetails, PodDiagnosis, PreemptionRecord

MOST_NODES = 5_000
"""Names of nodes in a status: one of 50,000 nodes would not fit into etcd."""


def diagnosis_line(found: PodDiagnosis) -> str:
    """Return the line that --debug-diagnosis logs."""
    body = msgspec.json.encode(diagnosis_body(found)).decode()
    return f"dump diagnosis for {found.question}, targetPod: {found.namespace}/{found.name}/{found.uid}: ${body}"


def diagnosis_body(found: PodDiagnosis) -> dict[str, Any]:
    """Return its JSON. Texts and maps that are empty are left out."""
    texts = {
        "questionedKey": found.question,
        "nominatedNode": found.nominated_node,
        "preFilterMessage": found.pre_filter_message,
        "topologyKeyToExplain": found.topology_key,
    }
    return {
        "timestamp": rfc3339(found.timestamp),
        **{key: text for key, text in texts.items() if text},
        "isRootCausePod": found.is_root_cause,
        "scheduleDiagnosis": _schedule(found.placed_members, found.slots, () if found.pre_filter_message else found.details),
        "preemptionDiagnosis": None if found.preemption is None else _preemption(found.question, found.preemption),
    }


def _schedule(placed: int, slots: Mapping[str, int], details: NodeDetails) -> dict[str, Any]:
    body: dict[str, Any] = {"alreadyWaitForBound": placed}
    if slots:
        body["nodeOfferSlot"] = dict(sorted(slots.items()))
    if details:
        body["nodeFailedDetails"] = [
            {
                "failedPlugin": detail.failed_plugin,
                "reason": detail.reason,
                "preemptMightHelp": detail.preempt_might_help,
                "failedNodes": detail.failed_nodes,
            }
            for detail in details
        ]
    return body


def _preemption(preemptor: str, record: PreemptionRecord) -> dict[str, Any]:
    other = {
        "TriggerPodKey": record.trigger,
        "preemptorKey": preemptor,
        "message": record.message,
        "podToNominatedNode": record.nominated,
        "unschedulablePodsNumber": record.pods - record.placed,
        "victims": record.victims,
    }
    return {
        "dryRunFilterDiagnosis": _schedule(record.placed, {}, record.details),
        "otherDiagnosis": {key: value for key, value in other.items() if value},
    }


def explanation_status(found: Sequence[PodDiagnosis]) -> ScheduleExplanationStatus:
    """Return the answer about these pods; the first one that has no node and is a root cause says why."""
    pending = [pod for pod in found if not pod.node]
    if not pending:
        feasible = ExplainedAttempt(schedulable=True, feasible_scheduling_result=_results(found))
        return ScheduleExplanationStatus(
            schedulable=True, detailed_explanation=(DetailedExplanation(schedulable=True, schedule_explanation=feasible),)
        )
    cause = next((pod for pod in pending if pod.is_root_cause), pending[0])
    details = () if cause.pre_filter_message else limited(cause.details)
    attempt = ExplainedAttempt(failed_message=cause.message, feasible_scheduling_result=_results(found), node_failed_details=details)
    record, after_preemption = cause.preemption, all(pod.nominated_node for pod in pending)
    preempted = None
    if record is not None:
        nominated = tuple(_nominated(key, node) for key, node in sorted(record.nominated.items()))
        preempted = ExplainedAttempt(
            schedulable=bool(record.nominated),
            failed_message=record.message,
            feasible_scheduling_result=nominated,
            node_failed_details=limited(record.details),
        )
    explained = DetailedExplanation(
        schedulable_after_preemption=after_preemption,
        failed_message=cause.message,
        schedule_explanation=attempt,
        node_possible_victims=() if record is None else record.victims,
        preempt_explanation=preempted,
    )
    return ScheduleExplanationStatus(
        schedulable_after_preemption=after_preemption, failed_message=cause.message, detailed_explanation=(explained,)
    )


def unanswered(message: str) -> ScheduleExplanationStatus:
    """Return the status of a question to which there is no answer."""
    return ScheduleExplanationStatus(failed_message=message)


def limited(details: NodeDetails) -> NodeDetails:
    """Return the details with MOST_NODES names at most, shared out in order, and every reason."""
    left, shown = MOST_NODES, list[NodeFailedDetail]()
    for detail in details:
        shown.append(
            detail if len(detail.failed_nodes) <= left else msgspec.structs.replace(detail, failed_nodes=detail.failed_nodes[:left])
        )
        left -= len(shown[-1].failed_nodes)
    return tuple(shown)


def _nominated(key: str, node: str) -> FeasibleResult:
    namespace, _, name = key.partition("/")
    return FeasibleResult(namespace, name, node_name=node)


def _results(found: Sequence[PodDiagnosis]) -> tuple[FeasibleResult, ...]:
    return tuple(FeasibleResult(pod.namespace, pod.name, pod.uid, pod.node) for pod in found if pod.node)
