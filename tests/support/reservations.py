"""Reservations for tests: as they are once they have a node, with what they hold, and a world in which the plugin works on them."""

from __future__ import annotations

from typing import Any

import msgspec

from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.cycle_state import CycleState
from koordsched.plugins.reservation.state import ReservationState
from support.builders import PodBuilder
from support.world import Setup, World

WITH_DEVICES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}, {name: NodeNUMAResource}, {name: DeviceShare}]}
"""


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}]}
"""
WITH_RESERVATIONS = Setup(CONFIG)


def available(name: str, node: str, amounts: dict[str, str], owner: str = "x", **spec: Any) -> Reservation:
    """Return an Available reservation of these amounts for pods with the label app=owner. spec: as in YAML; metadata: labels and so on."""
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **spec.pop("metadata", {})}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {key: text for key, text in amounts.items() if key != "pods"}}}
    if "ports" in spec:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in spec.pop("ports")]
    status = {"phase": "Available", "nodeName": node, "allocatable": amounts}
    owners = spec.pop("owners", [{"labelSelector": {"matchLabels": {"app": owner}}}])
    whole = {
        "metadata": metadata,
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "owners": owners,
            "ttl": "0s",
            "allocateOnce": False,
            "allocatePolicy": "Restricted",
            **spec,
        },
        "status": status,
    }
    return msgspec.convert(whole, Reservation)


class ReservationWorld(World):
    """A world with the plugin's state."""

    def __init__(self, setup: Setup = WITH_RESERVATIONS) -> None:
        super().__init__(setup)
        found = self.cache.shared.find(ReservationState)
        assert found is not None
        self.reservations = found

    def give(self, pod: PodInfo) -> tuple[str, str]:
        """Place the pod as a cycle does, up to Reserve; the node and the name of the reservation it was given, "" for none."""
        state, node = self.search.find(self.profile, self.signed(pod))
        if not isinstance(node, str):
            raise LookupError(self.refusal(pod, node))
        self.cache.assume_pod(pod, node)
        refusal = self.profile.run_reserve(state, pod, node)
        if refusal is not None:
            self.profile.run_unreserve(state, pod, node)
            self.cache.forget_pod(pod.uid)
            raise LookupError(refusal.message)
        drawn = self.reservations.reservation_of(pod.uid)
        return node, "" if drawn is None else drawn.name

    def take_back(self, pod: PodInfo) -> None:
        """Undo `give`."""
        self.profile.run_unreserve(CycleState(), pod, "")
        self.cache.forget_pod(pod.uid)

    def refusal(self, pod: PodInfo, found: Any) -> str:
        """Return why the pod was refused, with what the plugin adds."""
        said = next(plugin for plugin in self.profile.post_filter if plugin.name == "Reservation").expected_refusal(pod, found)
        return f"{found.message} {said.message}".strip() if said is not None else str(found.message)


def hides_more_than_counts(cache: Cache, pod: PodInfo) -> bool:
    """Answer from what hides a counted pod what `Cache.holds_amounts_alone` answers from the pod, and check that each follower agrees."""
    parts, row = [], cache.pods[pod.uid].node.row
    for follower in cache._hiding:
        of_follower = [part for _, part in follower.without({row: (pod,)})]
        assert follower.counts_alone(pod, row) == all(part.counts_alone for part in of_follower), (follower, pod.pod)
        parts += of_follower
    return not all(part.counts_alone for part in parts)


def linked(builder: PodBuilder, reservation: Reservation, node: str) -> PodInfo:
    """Return a bound pod that says which reservation it was given."""
    meta = reservation.metadata
    return builder.annotation(RESERVATION_ALLOCATED, allocated_text(meta.name, meta.uid)).on(node).info(counted_on_node=True)
