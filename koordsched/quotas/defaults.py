"""What is filled in when a quota is created: the rules of Koordinator's mutating webhook (elasticquota.md §15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.quota_definitions import PARENT, ROOT_QUOTA, SHARED_WEIGHT, TREE_ID
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.quantity import QuantityError, format_of, nano, quantity_text
from koordsched.quotas.rules import QuotaRefusal, written_weight

if TYPE_CHECKING:
    from koordsched.api.core import Quantity, ResourceList
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.quotas.topology import QuotaTopology

PARENT_UNKNOWN = "fill quota {name} failed, parent not exist"
WEIGHT_MALFORMED = "fillDefaultQuotaInfo unmarshal sharedWeight failed:{problem}"


class QuotaDefaults(msgspec.Struct, frozen=True):
    """Labels and annotations to set; both are empty where nothing is to be filled in."""

    labels: dict[str, str]
    annotations: dict[str, str]

    def applied(self, quota: ElasticQuota) -> ElasticQuota:
        """Return the quota with them."""
        metadata = quota.metadata
        metadata = msgspec.structs.replace(
            metadata, labels={**metadata.labels, **self.labels}, annotations={**metadata.annotations, **self.annotations}
        )
        return msgspec.structs.replace(quota, metadata=metadata)


def defaults_of(quota: ElasticQuota, topology: QuotaTopology) -> QuotaDefaults | QuotaRefusal:
    """Return what a new quota leaves to its defaults; a refusal where that cannot be said.

    No parent: the root. No tree: its parent's. No weight: max. A weight gets the resources of max that it lacks, and loses all others.
    """
    made = QuotaDefaults({}, {})
    name, labels, annotations = quota.metadata.name, quota.metadata.labels, quota.metadata.annotations
    if name == ROOT_QUOTA:
        return made
    parent = labels.get(PARENT)
    if not parent:
        parent = made.labels[PARENT] = ROOT_QUOTA
    if not labels.get(TREE_ID) and parent != ROOT_QUOTA:
        known = topology.get(parent)
        if known is None:
            return QuotaRefusal(f"metadata.labels[{PARENT}]", parent, PARENT_UNKNOWN.format(name=name))
        if known.definition.tree_id:
            made.labels[TREE_ID] = known.definition.tree_id
    if not annotations.get(SHARED_WEIGHT):
        made.annotations[SHARED_WEIGHT] = _written(quota.spec.max)
        return made
    try:
        weight = written_weight(annotations)
        for quantity in weight.values():
            nano(quantity)
    except (Malformed, QuantityError) as error:
        message = WEIGHT_MALFORMED.format(problem=error.problem)
        return QuotaRefusal(f"metadata.annotations[{SHARED_WEIGHT}]", annotations[SHARED_WEIGHT], message)
    if weight.keys() != quota.spec.max.keys():
        completed = {key: weight.get(key, amount) for key, amount in quota.spec.max.items()}
        made.annotations[SHARED_WEIGHT] = _written(completed)
    return made


def _written(amounts: ResourceList) -> str:
    """Write a list as the reference does: sorted keys, canonical quantities; what is no quantity stays for the rules to refuse."""
    return msgspec.json.encode({name: _canonical(amounts[name]) for name in sorted(amounts)}).decode()


def _canonical(quantity: Quantity) -> Quantity:
    try:
        return quantity_text(nano(quantity), format_of(quantity))
    except (QuantityError, TypeError):
        return quantity
