"""ScheduleExplanation: a question why an object is not scheduled, answered in the status (frameworkext.md §4.2)."""

from __future__ import annotations

from typing import Any

from koordsched.api.meta import Api, Object


class ScheduleExplanationSpec(Api):
    """`question_object_key` is namespace/name of a pod or job, or the id of a gang group. A template is not supported by v1.8.0."""

    question_object_key: str = ""
    question_object_template: Any = None
    ttl: str | None = None


class FeasibleResult(Api):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    node_name: str = ""


class NodeFailedDetail(Api):
    """Nodes that one plugin refuses for one reason."""

    failed_plugin: str = ""
    reason: str = ""
    preempt_might_help: bool = False
    failed_nodes: tuple[str, ...] = ()


class ExplainedAttempt(Api):
    schedulable: bool = False
    failed_message: str = ""
    feasible_scheduling_result: tuple[FeasibleResult, ...] = ()
    node_failed_details: tuple[NodeFailedDetail, ...] = ()


class PossibleVictim(Api):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    is_nominated_pod: bool = False


class NodePossibleVictims(Api):
    node_name: str = ""
    possible_victims: tuple[PossibleVictim, ...] = ()


class DetailedExplanation(Api):
    """The answer for one topology domain; "" is the whole cluster."""

    topology_domain: str = ""
    schedulable: bool = False
    schedulable_after_preemption: bool = False
    failed_message: str = ""
    schedule_explanation: ExplainedAttempt | None = None
    node_possible_victims: tuple[NodePossibleVictims, ...] = ()
    preempt_explanation: ExplainedAttempt | None = None


class ScheduleExplanationStatus(Api):
    schedulable: bool = False
    schedulable_after_preemption: bool = False
    failed_message: str = ""
    last_update_time: str | None = None
    detailed_explanation: tuple[DetailedExplanation, ...] = ()


class ScheduleExplanation(Object):
    spec: ScheduleExplanationSpec = ScheduleExplanationSpec()
    status: ScheduleExplanationStatus = ScheduleExplanationStatus()
