"""What an API server refuses, for objects that never meet one: the embedded cluster's writes and `simulate`'s input.

`decode` turns JSON values into the Struct of their kind, `validate` also applies the rules of the API to what scheduling reads. Every
error names the field in Kubernetes notation, its value and what was expected; all that can be found are reported together. Rules that
concern nothing here (images, volumes' contents, security contexts) are not checked. Neither raises anything but InvalidObject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from koordsched.api.groups import PodDisruptionBudget, ReplicaSet, StatefulSet
from koordsched.api.meta import Unstructured
from koordsched.api.storage import CSIStorageCapacity
from koordsched.api.validation.decoding import decode, strip_nulls, subject
from koordsched.api.validation.errors import Errors, FieldError, InvalidObject
from koordsched.api.validation.metadata import check_label_selector, check_metadata
from koordsched.api.validation.placement import check_node_selector, check_taints
from koordsched.api.validation.pods import check_pod
from koordsched.api.validation.quantities import check_quantity, check_resource_list

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object

__all__ = ["FieldError", "InvalidObject", "decode", "strip_nulls", "validate", "validated"]


def validate(kind: Kind, raw: Any) -> list[FieldError]:
    """Return what an API server would refuse about the object, given as JSON values; an empty list when nothing."""
    try:
        validated(kind, raw)
    except InvalidObject as invalid:
        return list(invalid.errors)
    return []


def validated(kind: Kind, raw: Any) -> Object:
    """Decode the object and check it; InvalidObject lists everything an API server would refuse."""
    decoded = decode(kind, raw)
    errors = Errors()
    check_metadata(errors, kind, decoded.metadata, generated=bool((raw.get("metadata") or {}).get("generateName")))
    _check_kind(errors, decoded)
    if errors.found:
        raise InvalidObject(errors.found, subject(kind, raw))
    return decoded


def _check_kind(errors: Errors, decoded: Object) -> None:
    """Apply the rules of the object's kind; kinds without rules of their own pass."""
    match decoded:
        case Unstructured():
            pass
        case Pod():
            check_pod(errors, decoded)
        case Node():
            check_resource_list(errors, "status.capacity", decoded.status.capacity)
            check_resource_list(errors, "status.allocatable", decoded.status.allocatable)
            check_taints(errors, "spec.taints", decoded.spec.taints)
        case PodDisruptionBudget() | ReplicaSet() | StatefulSet():
            check_label_selector(errors, "spec.selector", decoded.spec.selector)
        case PersistentVolumeClaim():
            check_label_selector(errors, "spec.selector", decoded.spec.selector)
            check_resource_list(errors, "spec.resources.requests", decoded.spec.resources.requests)
        case PersistentVolume():
            check_resource_list(errors, "spec.capacity", decoded.spec.capacity)
            affinity = decoded.spec.node_affinity
            if affinity is not None and affinity.required is not None:
                check_node_selector(errors, "spec.nodeAffinity.required", affinity.required)
        case CSIStorageCapacity():
            check_label_selector(errors, "nodeTopology", decoded.node_topology)
            for field, quantity in (("capacity", decoded.capacity), ("maximumVolumeSize", decoded.maximum_volume_size)):
                if quantity is not None:
                    check_quantity(errors, field, "storage", quantity)
