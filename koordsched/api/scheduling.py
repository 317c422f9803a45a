"""scheduling.k8s.io/v1: PriorityClass.

An API server resolves `priorityClassName` into `spec.priority` and `spec.preemptionPolicy` when a pod is created; the embedded cluster
does so from these objects.
"""

from __future__ import annotations

from koordsched.api.meta import Object


class PriorityClass(Object):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
