"""Rules for lists of resources: names, quantities, and how requests relate to limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.names import is_extended_resource_name, is_qualified_name
from koordsched.api.quantity import EXPECTED, NANO_PER_UNIT, QuantityError, nano
from koordsched.api.validation.metadata import KEY_RULE

if TYPE_CHECKING:
    from koordsched.api.core import Quantity, ResourceList, ResourceRequirements
    from koordsched.api.validation.errors import Errors

_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_POD_RESOURCES = ("cpu", "memory")


def check_container_resources(errors: Errors, path: str, resources: ResourceRequirements) -> None:
    """Check what a container asks for."""
    for field, listed in (("limits", resources.limits), ("requests", resources.requests)):
        check_container_list(errors, f"{path}.{field}", listed)
    _check_limits(errors, path, resources)


def check_pod_resources(errors: Errors, path: str, resources: ResourceRequirements) -> None:
    """Check pod-level resources: cpu, memory and huge pages only."""
    for field, listed in (("limits", resources.limits), ("requests", resources.requests)):
        for name, quantity in listed.items():
            at = f"{path}.{field}[{name}]"
            if name not in _POD_RESOURCES and not name.startswith("hugepages-"):
                errors.one_of(at, name, (*_POD_RESOURCES, "hugepages-*"))
            check_quantity(errors, at, name, quantity)
    _check_limits(errors, path, resources)


def check_container_list(errors: Errors, path: str, resources: ResourceList) -> None:
    """Check names and quantities of one list that a container (or spec.overhead) may have."""
    for name, quantity in resources.items():
        at = f"{path}[{name}]"
        if not is_qualified_name(name):
            errors.invalid(at, name, KEY_RULE)
        elif "/" not in name and name not in _CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            errors.invalid(at, name, "must be a standard resource for containers, or have a domain as in example.com/device")
        elif "/" in name and "kubernetes.io/" not in name and not is_extended_resource_name(name):
            errors.invalid(at, name, "doesn't follow extended resource name standard")
        check_quantity(errors, at, name, quantity)


def check_resource_list(errors: Errors, path: str, resources: ResourceList) -> None:
    """Check a list that may name any resource: what a node or a volume has, what a claim wants."""
    for name, quantity in resources.items():
        at = f"{path}[{name}]"
        if not is_qualified_name(name):
            errors.invalid(at, name, KEY_RULE)
        check_quantity(errors, at, name, quantity)


def check_quantity(errors: Errors, path: str, name: str, quantity: Quantity) -> None:
    """Check one quantity of the named resource: it can be read, is not negative, and whole where only whole things exist."""
    try:
        amount = nano(quantity)
    except QuantityError:
        errors.invalid(path, quantity, f"expected {EXPECTED}")
        return
    if amount < 0:
        errors.invalid(path, quantity, "must be greater than or equal to 0")
    elif amount % NANO_PER_UNIT and (name == "pods" or is_extended_resource_name(name)):
        errors.invalid(path, quantity, "must be an integer")


def _check_limits(errors: Errors, path: str, resources: ResourceRequirements) -> None:
    """A request is at most the limit; of what cannot be overcommitted (extended resources, huge pages) it equals the limit."""
    for name, request in resources.requests.items():
        if name not in resources.limits:
            continue
        limit = resources.limits[name]
        requested, limited = _amount(request), _amount(limit)
        if requested is None or limited is None or requested == limited:
            continue
        if is_extended_resource_name(name) or name.startswith("hugepages-"):
            errors.invalid(f"{path}.requests[{name}]", request, f"must be equal to {name} limit of {limit}")
        elif requested > limited:
            errors.invalid(f"{path}.requests[{name}]", request, f"must be less than or equal to {name} limit of {limit}")


def _amount(quantity: Quantity) -> int | None:
    try:
        return nano(quantity)
    except QuantityError:
        return None
