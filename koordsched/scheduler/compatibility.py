"""APIs that a cluster has in an older version, or that are not to be watched: Koordinator's gates for them (frameworkext.md §1.3).

A kind that a cluster does not serve counts as empty without any of this. The gates are for clusters on which watching it is forbidden, and
for those that serve v1beta1 alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.kinds import CSI_STORAGE_CAPACITY, POD_DISRUPTION_BUDGET

if TYPE_CHECKING:
    from koordsched.api.groups import PodDisruptionBudget
    from koordsched.api.kinds import Kind
    from koordsched.config.features import FeatureGates

DISABLED = {"DisableCSIStorageCapacityInformer": CSI_STORAGE_CAPACITY, "DisablePodDisruptionBudgetInformer": POD_DISRUPTION_BUDGET}
BETA_BUDGETS = "CompatiblePodDisruptionBudget"
BETA = {
    ("CompatibleCSIStorageCapacity", "CSIStorageCapacity"): CSI_STORAGE_CAPACITY,
    (BETA_BUDGETS, "PodDisruptionBudget"): POD_DISRUPTION_BUDGET,
}
"""By the gates that have to be on, both."""


def other_versions(gates: FeatureGates) -> dict[Kind, Kind | None]:
    """Return the kinds that are watched as v1beta1, with that version, and those that are not watched, with None."""
    found: dict[Kind, Kind | None] = {
        kind: replace(kind, version="v1beta1") for (gate, other), kind in BETA.items() if gates[gate] and gates[other]
    }
    return found | {kind: None for gate, kind in DISABLED.items() if gates[gate]}


def without_empty_selector(budget: PodDisruptionBudget) -> PodDisruptionBudget:
    """Let a budget that comes from policy/v1beta1 mean what it says there: an empty selector covers no pod, in v1 every pod."""
    selector = budget.spec.selector
    if selector is None or selector.match_labels or selector.match_expressions:
        return budget
    return replace(budget, spec=replace(budget.spec, selector=None))
