"""Evictions under disruption budgets, as values: the next raw states of budget and pod, or the error that the API server answers.

The rules are those of kube-apiserver v1.35's pods/eviction. A budget whose status has no observedGeneration is taken as it is: there is no
disruption controller here that would write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from koordsched.api.groups import PodDisruptionBudget
from koordsched.api.selectors import label_selector_matcher
from koordsched.cluster.port import Forbidden, ServerError, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.cluster.memory.store import Raw, Stored

PROCESSING_SECONDS = 10.0
MAX_DISRUPTED_PODS = 2000
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."
SPENT = "does not allow evicting pods currently"
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def may_disrupt(pod: Raw) -> bool:
    """Answer whether budgets are asked: not for a pod that has not started, has ended or is being deleted, which serves nothing."""
    return (pod.get("status") or {}).get("phase") not in {"Pending", "Succeeded", "Failed"} and "deletionTimestamp" not in pod["metadata"]


def covers(budget: Object, pod: Object) -> bool:
    known = cast("PodDisruptionBudget", budget)
    return known.metadata.namespace == pod.metadata.namespace and label_selector_matcher(known.spec.selector).matches(pod.metadata.labels)


def budget_after(budgets: Sequence[Stored], pod: Raw, now: str) -> Raw | None:
    """Return the budget that covers the pod as it is after its eviction; None: no budget covers it, or its budget stays as it is.

    TooManyRequests: it does not allow it. Forbidden: its status is out of bounds. ServerError: there are several budgets.
    """
    if not budgets:
        return None
    if len(budgets) > 1:
        raise ServerError(SEVERAL)
    raw = budgets[0].raw
    name, generation = raw["metadata"]["name"], raw["metadata"]["generation"]
    status: Raw = raw.get("status") or {}
    healthy, desired, allowed = (int(status.get(field) or 0) for field in ("currentHealthy", "desiredHealthy", "disruptionsAllowed"))
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in _conditions(pod))
    always_allows = (raw.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not ready and (always_allows or healthy >= desired > 0):
        return None
    if status.get("observedGeneration", generation) < generation:
        raise TooManyRequests(f"{REFUSED} The disruption budget {name} is still being processed by the server.", PROCESSING_SECONDS)
    disrupted = status.get("disruptedPods") or {}
    if allowed < 0 or len(disrupted) > MAX_DISRUPTED_PODS:
        too_many = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        why = "pdb disruptions allowed is negative" if allowed < 0 else too_many
        raise Forbidden(f'poddisruptionbudget.policy "{name}" is forbidden: {why}')
    if allowed == 0:
        why = f"needs {desired} healthy pods and has {healthy} currently"
        raise TooManyRequests(f"{REFUSED} The disruption budget {name} {why if healthy <= desired else SPENT}")
    taken = {"disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod["metadata"]["name"]: now}}
    return {**raw, "status": {**status, **taken}}


def evicted(pod: Raw, now: str) -> Raw:
    """Return the pod with the condition DisruptionTarget, which gives the reason of its deletion."""
    status = pod.get("status") or {}
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": now,
        "observedGeneration": pod["metadata"]["generation"],
    }
    others = [each for each in _conditions(pod) if each.get("type") != condition["type"]]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _conditions(pod: Raw) -> Sequence[dict[str, Any]]:
    return (pod.get("status") or {}).get("conditions") or []
