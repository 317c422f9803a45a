"""policy/v1: PodDisruptionBudget, which preemption spares when it can (framework.md §7).

A budget without a selector covers no pod, one with an empty selector covers every pod of its namespace.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.meta import Api, Int32, LabelSelector, Object


class PodDisruptionBudgetSpec(Api):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Api):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
