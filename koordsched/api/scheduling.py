"""scheduling.k8s.io/v1: PriorityClass.

An API server resolves `priorityClassName` into `spec.priority` and `spec.preemptionPolicy` when a pod is created; the embedded cluster
does so from these objects.
"""

from __future__ import annotations

from koordsched.api.meta import Int32, Object


class PriorityClass(Object):
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
