"""What `/apis/v1/plugins/ElasticQuota/quotas...` answers (elasticquota.md §12): quotas as the reference sums them up, and `explain`.

`explain` says of one quota what limits it, which resources it has room for, from whom it borrows and who borrows of it (DEV-9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.koordinator.quota_definitions import amount_text, runtime_text
from koordsched.framework.routes import Answer, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.plugins.elasticquota.manager import Quota
    from koordsched.plugins.elasticquota.state import QuotaState

NOT_FOUND = 404
TRUE = "true"
SUMMARY_COLUMNS = {
    "max": "max",
    "min": "min",
    "autoScaleMin": "scaled_min",
    "used": "used",
    "nonPreemptibleUsed": "fixed_used",
    "request": "request",
    "nonPreemptibleRequest": "fixed_request",
    "sharedWeight": "weight",
    "childRequest": "child_request",
    "allocated": "allocated",
    "guaranteed": "guaranteed",
    "selfUsed": "self_used",
    "selfNonPreemptibleUsed": "self_fixed_used",
    "selfRequest": "self_request",
    "selfNonPreemptibleRequest": "self_fixed_request",
}
"""The kernel's column of each list of a summary, beside the runtime."""


class QuotaEndpoint:
    def __init__(self, state: QuotaState) -> None:
        self._state = state

    def all(self, named: Mapping[str, str]) -> Answer:
        """Answer for all quotas but the roots, or those of one tree."""
        tree = named.get("tree", "")
        managers = self._state.managers
        chosen = list(managers.values()) if not tree else [managers[tree]] if tree in managers else []
        return Answer(
            {
                quota.name: summary(quota, include_pods=named.get("includePods") == TRUE)
                for manager in chosen
                for quota in manager
                if quota is not manager.root
            }
        )

    def one(self, named: Mapping[str, str]) -> Answer:
        quota = self._state.quotas.get(named["name"])
        if quota is None:
            return refusal(NOT_FOUND, f"cannot find quota {named['name']}")
        return Answer(summary(quota, include_pods=named.get("includePods") == TRUE))

    def explain(self, named: Mapping[str, str]) -> Answer:
        quota = self._state.quotas.get(named["name"])
        if quota is None:
            return refusal(NOT_FOUND, f"cannot find quota {named['name']}")
        return Answer(explanation(self._state, quota))


def summary(quota: Quota, *, include_pods: bool) -> dict[str, Any]:
    """Return a quota as the reference's service shows it."""
    definition, manager = quota.definition, quota.manager
    body: dict[str, Any] = {
        "name": quota.name,
        "parentName": definition.parent,
        "isParent": definition.is_parent,
        "runtimeVersion": manager.up_to_date().version_of(quota.row),
        "allowLentResource": quota.lends,
        "tree": manager.tree_id,
    }
    for key, column in SUMMARY_COLUMNS.items():
        body[key] = _texts(quota.amounts(column))
    body["runtime"] = {name: runtime_text(name, amount) for name, amount in sorted(quota.runtimes().items())}
    if include_pods and quota.pods:  # as the reference has it: else there is no such key
        body["podCache"] = {
            pod.key: {"isAssigned": pod.entry.assigned, "resource": _texts(dict(pod.requests))} for pod in quota.pods.values()
        }
    return body


def explanation(state: QuotaState, quota: Quota) -> dict[str, Any]:
    """Return why a quota has room or has none."""
    manager = quota.manager
    parent, limit, used = manager.parent(quota), quota.limit(), quota.amounts("used")
    siblings = [] if parent is None else [child for child in manager.children(parent) if child is not quota]
    return {
        "name": quota.name,
        "path": [above.name for above in reversed(manager.path(quota))],
        "limitedBy": "runtime" if manager.kernel.by_runtime else "max",
        "limit": _texts(limit),
        "used": _texts(used),
        "room": _texts({name: amount - used.get(name, 0) for name, amount in limit.items()}),
        "waiting": _texts(_minus(quota.amounts("self_request"), quota.amounts("self_used"))),
        "borrows": _texts(_borrowed(quota)),
        "lends": _texts(_lent(quota)),
        "borrowingSiblings": {child.name: _texts(borrowed) for child in siblings if (borrowed := _borrowed(child))},
        "lendingSiblings": {child.name: _texts(lent) for child in siblings if (lent := _lent(child))},
        "shared": _texts(manager.total if parent is manager.root else {} if parent is None else parent.limit()),
        "problems": list(state.problems.of(quota)),
    }


def _borrowed(quota: Quota) -> Amounts:
    """Return what the quota uses beyond its min."""
    least = quota.amounts("min")
    return {name: amount - least.get(name, 0) for name, amount in quota.amounts("used").items() if amount > least.get(name, 0)}


def _lent(quota: Quota) -> Amounts:
    """Return what the quota has by its min and leaves to others."""
    if not quota.lends:
        return {}
    runtime = quota.runtimes()
    return {name: least - runtime[name] for name, least in quota.amounts("scaled_min").items() if name in runtime and least > runtime[name]}


def _minus(amounts: Amounts, others: Amounts) -> Amounts:
    return {name: rest for name, amount in amounts.items() if (rest := amount - others.get(name, 0))}


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: amount_text(name, amounts[name]) for name in sorted(amounts)}
