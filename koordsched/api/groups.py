"""The kinds of the smaller API groups (apps, coordination, events, policy, scheduling), as far as scheduling reads or writes them.

`core` and `storage` have files of their own; `kinds` lists all.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.core import ObjectReference
from koordsched.api.meta import Api, Int32, LabelSelector, Object

# apps/v1, and ReplicationController of the core group: owners whose selectors find the pods that belong together (framework.md §10.10).
# Topology spreading and the grouping of pods read only the selector.


class ReplicaSetSpec(Api):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Api):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None


class StatefulSet(Object):
    spec: StatefulSetSpec = StatefulSetSpec()


class ReplicationControllerSpec(Api):
    """Its selector is a plain map, that of the kinds in apps/v1 a LabelSelector."""

    replicas: Int32 | None = None
    selector: dict[str, str] = field(default_factory=dict)


class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class LeaseSpec(Api):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(Object):
    """coordination.k8s.io/v1: what a leader holds (framework.md §1.6). Times are RFC 3339 with microseconds, as client-go writes them."""

    spec: LeaseSpec = LeaseSpec()


class EventSeries(Api):
    count: Int32 = 0
    last_observed_time: str | None = None


class Event(Object):
    """events.k8s.io/v1: what happened to a pod; a repeated event grows its series.

    The scheduler writes events and reads back only those that it continues, so most fields matter to the writer and to scenarios.
    """

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class PodDisruptionBudgetSpec(Api):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Api):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)


class PodDisruptionBudget(Object):
    """policy/v1: pods that preemption spares when it can (framework.md §7).

    A budget without a selector covers no pod, one with an empty selector every pod of its namespace.
    """

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object):
    """scheduling.k8s.io/v1: what a pod's `priorityClassName` becomes, `spec.priority` and `spec.preemptionPolicy`, when it is created.

    A real API server resolves the name; the embedded cluster does so from these objects.
    """

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
