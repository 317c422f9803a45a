"""A pod's claims by binding mode; or why the pod cannot be scheduled whatever the nodes are (framework.md §10.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.quantity import QuantityError
from koordsched.api.selectors import SelectorError
from koordsched.api.volume_matching import claim_request
from koordsched.api.volumes import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    belongs_to,
    claim_class,
    is_bound,
)
from koordsched.cluster.object_store import object_key
from koordsched.framework.status import Status, error, unresolvable
from koordsched.framework.volumes import claim_not_found, class_not_found

if TYPE_CHECKING:
    from koordsched.api.core import PersistentVolumeClaim
    from koordsched.api.volume_matching import ClaimRequest
    from koordsched.api.volumes import ClaimUse, PodVolumes
    from koordsched.framework.volumes import VolumeObjects
    from koordsched.plugins.volumebinding.inventory import AssumedBindings

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

LOST = "Lost"


class DelayedClaim(msgspec.Struct, frozen=True):
    """An unbound claim with the binding mode WaitForFirstConsumer. `selected`: the node that was selected for it already, or ""."""

    key: str
    object: PersistentVolumeClaim
    storage_class: str
    selected: str
    request: ClaimRequest


class PodClaims(msgspec.Struct, frozen=True):
    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[DelayedClaim, ...]


def classify_claims(objects: VolumeObjects, assumed: AssumedBindings, volumes: PodVolumes) -> PodClaims | Status:
    """Return the pod's claims by binding mode, or the refusal of the pod, or an error."""
    found: list[PersistentVolumeClaim] = []
    for use in volumes.claims:
        claim = objects.claims.get(use.key)
        problem = _problem(use, claim, volumes.namespace)
        if problem or claim is None:
            return unresolvable(problem)
        found.append(claim)
    bound: list[PersistentVolumeClaim] = []
    delayed: list[DelayedClaim] = []
    reasons: dict[str, None] = {}  # why claims that should be bound long since are not
    for claim in found:
        name = claim_class(claim)
        storage_class = objects.classes.get(name) if name else None
        if is_bound(claim):
            bound.append(claim)
        elif storage_class is not None and storage_class.volume_binding_mode is None:
            return error(f'VolumeBindingMode not set for StorageClass "{name}"')
        elif storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.spec.volume_name:
            key = object_key(claim)
            selected = claim.metadata.annotations.get(SELECTED_NODE) or assumed.node_of(key)
            try:
                delayed.append(DelayedClaim(key, claim, name, selected, claim_request(claim)))
            except (QuantityError, SelectorError) as mistake:
                return unresolvable(f'persistentvolumeclaim "{claim.metadata.name}": {mistake}')
        else:
            reasons[UNBOUND_IMMEDIATE] = None
            if name and storage_class is None and not claim.spec.volume_name:
                reasons[class_not_found(name)] = None  # kube-scheduler does not name this cause
    return unresolvable(*reasons) if reasons else PodClaims(tuple(bound), tuple(delayed))


def _problem(use: ClaimUse, claim: PersistentVolumeClaim | None, namespace: str) -> str:
    """Return why the pod can never run with the claim as it is, or ""."""
    if claim is None:
        if use.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        return claim_not_found(use.name)
    if claim.status.phase == LOST:
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    if use.is_ephemeral and not belongs_to(claim, use):
        return f"PVC {use.key} was not created for pod {namespace}/{use.pod} (pod is not owner)"
    return ""
