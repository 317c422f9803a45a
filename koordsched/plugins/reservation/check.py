"""The standing comparison of what is kept of reservations with the objects that it follows from (`Cache.checked`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.operating_pods import is_operating, operating_reservation
from koordsched.api.koordinator.reservation_links import allocated_reservation
from koordsched.api.koordinator.reserve_pods import is_active, problem_of
from koordsched.cache.plugin_state import StateDifference
from koordsched.plugins.reservation.info import same_amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.state import ReservationState


class ReservationCheck:
    """Compares, node by node, the reservations with the watched objects, their owners with the pods on the node, and what is left of them
    with what the cache counts."""

    name = "Reservation"

    def __init__(self, cache: Cache, state: ReservationState, reservations: Mapping[str, Reservation]) -> None:
        self._cache = cache
        self._state = state
        self._reservations = reservations

    def names(self) -> Iterable[str]:
        """Return the names of the nodes that have, or should have, reservations; pods in operating mode are looked for on these alone."""
        return {info.node_name for info in self._state.by_uid.values()} | {
            r.status.node_name for r in self._reservations.values() if self._counts(r)
        }

    def _counts(self, reservation: Reservation) -> bool:
        """Answer whether the Reservation holds something on a node. One whose amounts cannot be read does not, which was reported."""
        return is_active(reservation) and problem_of(reservation) is None and not self._state.is_left_out(reservation)

    def differences(self, node: str) -> Iterator[StateDifference]:
        actual = {r.metadata.uid: r for r in self._reservations.values() if r.status.node_name == node and self._counts(r)}
        actual |= {pod.metadata.uid: operating_reservation(pod) for pod in self._operating(node)}
        known = {info.uid: info for info in self._state.on_node(node)}
        for uid in sorted(actual.keys() | known.keys()):
            info, reservation = known.get(uid), actual.get(uid)
            if info is None or reservation is None:
                yield StateDifference(f"reservation {uid}", info is not None, reservation is not None)
                continue
            yield from self._differences(info, reservation)

    def _operating(self, node: str) -> list[Pod]:
        """Return the pods in operating mode that are bound to the node."""
        info = self._cache.nodes_by_name.get(node)
        return [pod.pod for pod in info.pods.values() if pod.pod.spec.node_name and is_operating(pod.pod)] if info is not None else []

    def _differences(self, info: ReservationInfo, reservation: Reservation) -> Iterator[StateDifference]:
        ours, theirs = info.reservation.metadata.resource_version, reservation.metadata.resource_version
        if ours != theirs:
            yield StateDifference(f"version of reservation {info.name}", ours, theirs)
            return
        node = self._cache.nodes_by_name.get(info.node_name)
        pods = {} if node is None else node.pods
        owners = {uid for uid, pod in pods.items() if self._owns(uid, pod.pod.metadata.annotations, info)}
        if owners != info.owners.keys():
            yield StateDifference(f"owners of reservation {info.name}", sorted(info.owners), sorted(owners))
        allocated: dict[str, int] = {}
        for owner in owners:
            for name, amount in pods[owner].resources.requests.items():
                if name in info.resource_names:
                    allocated[name] = allocated.get(name, 0) + amount
        if allocated != info.allocated:
            yield StateDifference(f"allocated of reservation {info.name}", dict(info.allocated), allocated)
        counted = self._cache.pods.get(info.uid)
        if (counted is not None) != info.held:
            yield StateDifference(f"reservation {info.name} is counted", counted is not None, info.held)
        elif counted is not None and not same_amounts(counted.info, left := info.left()):
            yield StateDifference(f"left of reservation {info.name}", counted.info.resources.requests, left.resources.requests)

    def _owns(self, uid: str, annotations: Mapping[str, str], info: ReservationInfo) -> bool:
        """Answer whether a pod on the node owns a part: its annotation says so, or it is assumed and was given it here."""
        if self._cache.is_assumed(uid):
            return uid in info.owners
        return allocated_reservation(annotations) == info.uid

    def rebuild(self, node: str) -> None:
        """Take in the reservations of a node anew; those of its pods that own a part are linked again."""
        assumed: list[tuple[PodInfo, str]] = []
        for info in list(self._state.on_node(node)):
            assumed += [(owner, info.uid) for owner in info.owners.values() if self._cache.is_assumed(owner.uid)]
            self._state.remove(info.uid)
        for reservation in self._reservations.values():
            if reservation.status.node_name == node and self._counts(reservation):
                self._state.put(reservation)
        for pod in self._operating(node):
            self._state.put_pod(pod)
        for owner, uid in assumed:
            self._state.draw(owner, uid)
