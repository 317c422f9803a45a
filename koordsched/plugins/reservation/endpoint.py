"""What `/apis/v1/plugins/Reservation/nodeReservations/{node}` answers (reservation.md §2): its reservations and who owns what of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.quantity import NANO_PER_MILLI, NANO_PER_UNIT, QuantityFormat, quantity_text
from koordsched.framework.routes import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.api.resources import HostPort
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.state import ReservationState

Json = dict[str, Any]
NAMED = {"cpu": "MilliCPU", "memory": "Memory", "ephemeral-storage": "EphemeralStorage", "pods": "AllowedPodNumber"}
BINARY = {"memory", "ephemeral-storage"}


class ReservationEndpoint:
    def __init__(self, state: ReservationState) -> None:
        self._state = state

    def on_node(self, named: Mapping[str, str]) -> Answer:
        """Answer for all reservations of a node, also those that no pod may use now; {} when there are none."""
        found = sorted(self._state.on_node(named["nodeName"]), key=lambda info: info.name)
        return Answer({"items": [_item(info) for info in found]} if found else {})


def _item(info: ReservationInfo) -> Json:
    left = {
        name: max(0, amount - info.allocated.get(name, 0) - info.reserved.get(name, 0))
        for name, amount in info.allocatable.items()
        if name in info.resource_names
    }
    item: Json = {
        "name": info.name,
        "namespace": info.pod.pod.metadata.namespace,
        "uid": info.uid,
        "kind": "Pod" if info.operating else "Reservation",
        "available": info.available,
        "allocateOnce": info.allocate_once,
        "allocatable": _texts(info.allocatable),
        "reserved": _texts(info.reserved),
        "allocated": _texts(info.allocated),
        "allocatablePorts": _ports(info.pod.ports),
        "allocatedPorts": _ports(port for owner in info.owners.values() for port in owner.ports),
        "availableResource": _resource(left),
        "allocatedResource": _resource(info.allocated),
        "owners": msgspec.to_builtins(info.reservation.spec.owners),
        "allocatePolicy": info.policy,
        "assignedPods": [_owner(owner) for owner in info.owners.values()],
    }
    return {key: value for key, value in item.items() if value}


def _owner(pod: PodInfo) -> Json:
    meta = pod.pod.metadata
    return {
        "Namespace": meta.namespace,
        "Name": meta.name,
        "UID": meta.uid,
        "Requests": _texts(pod.resources.requests),
        "Ports": _ports(pod.ports),
    }


def _texts(amounts: Mapping[str, int]) -> Json:
    """Write amounts, cpu in milli and others in whole units, as quantities."""
    return {
        name: quantity_text(
            amount * (NANO_PER_MILLI if name == "cpu" else NANO_PER_UNIT),
            QuantityFormat.BINARY_SI if name in BINARY else QuantityFormat.DECIMAL_SI,
        )
        for name, amount in amounts.items()
    }


def _resource(amounts: Mapping[str, int]) -> Json:
    """Write amounts as the reference's framework.Resource, with all of its fields."""
    scalars = {name: amount for name, amount in amounts.items() if name not in NAMED}
    return {field: amounts.get(name, 0) for name, field in NAMED.items()} | {"ScalarResources": scalars or None}


def _ports(ports: Iterable[HostPort]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for port in ports:
        found.setdefault(port.ip, []).append(f"{port.protocol}/{port.port}")
    return found
