"""PodInfo: a pod with the facts that scheduling derives from it once, when it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from koordsched.api.koordinator.operating_pods import is_operating
from koordsched.api.koordinator.reserve_pods import ReservePod, reserve_pod, reserve_pod_key
from koordsched.api.resources import PodResources, host_ports, pod_resources, shared_resources
from koordsched.api.sharing import MANY_NAMES, names_in
from koordsched.api.volumes import pod_volumes

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.resources import HostPort
    from koordsched.api.volumes import PodVolumes


class PodInfo:
    """A pod as the scheduler's own code passes it around. Immutable but for `shape`; a changed pod gets a new PodInfo.

    Raises QuantityError (names the path and the value) when the pod's resources cannot be read.
    """

    __slots__ = ("__weakref__", "key", "pod", "ports", "priority", "reservation", "resources", "shape", "uid", "volumes")

    pod: Pod
    key: str  # namespace/name
    uid: str
    priority: int  # spec.priority, 0 when absent
    resources: PodResources  # what it asks for (framework.md §9)
    ports: tuple[HostPort, ...]  # host ports of app containers and sidecars
    volumes: PodVolumes | None  # claims and disks that plugins look at; None when there are none
    reservation: Reservation | None  # for which the pod stands; None for a pod of the cluster
    shape: Hashable | None  # written by the framework: equal for pods that every plugin treats alike

    def __init__(self, pod: Pod, *, counted_on_node: bool = False) -> None:
        """counted_on_node: read resources as a running pod's (with status.resources), not as an incoming one's."""
        meta = pod.metadata
        self.pod = pod
        self.key = reserve_pod_key(pod) if type(pod) is ReservePod else f"{meta.namespace}/{meta.name}"
        self.uid = meta.uid
        self.priority = pod.spec.priority or 0
        self.resources = pod_resources(pod, counted_on_node=counted_on_node)
        self.ports = host_ports(pod)
        if len(self.ports) > MANY_NAMES:
            self._share_ports()
        self.volumes = pod_volumes(pod) if pod.spec.volumes else None
        self.reservation = pod.reservation if type(pod) is ReservePod else None
        self.shape = None

    @classmethod
    def of_reservation(cls, reservation: Reservation) -> PodInfo:
        """Return the pod that stands for a Reservation as it is now. QuantityError as for any pod."""
        return cls(reserve_pod(reservation))

    def _share_ports(self) -> None:
        key = hash(self.ports)
        found = _LONG_PORTS.get(key)
        if found is not None and found.ports == self.ports:
            self.ports = found.ports
        _LONG_PORTS[key] = self

    @property
    def lends(self) -> bool:
        """Whether what the pod holds is for owners of a reservation: that for which it stands, or which it is itself."""
        return self.reservation is not None or is_operating(self.pod)

    @property
    def names_much(self) -> bool:
        """Whether the pod names hundreds of things: what is derived from it must not be kept longer than the pod."""
        return names_in(self.pod.spec) + len(self.pod.metadata.labels) > MANY_NAMES

    def with_pod(self, pod: Pod) -> PodInfo:
        """Return the same facts for a newer state of the pod that differs in nothing they are derived from."""
        other = PodInfo.__new__(PodInfo)
        other.pod = pod
        other.key, other.uid, other.priority = self.key, self.uid, self.priority
        other.resources, other.ports, other.shape = self.resources, self.ports, self.shape
        other.volumes = self.volumes
        other.reservation = pod.reservation if type(pod) is ReservePod else None
        return other

    def resized(self, amounts: Mapping[str, int]) -> PodInfo:
        """Return the same pod with other amounts of these resources (cpu in milli); all others stay."""
        asked, other = self.resources, self.with_pod(self.pod)
        cpu, memory = amounts.get("cpu", asked.nonzero_cpu), amounts.get("memory", asked.nonzero_memory)
        requests = {name: amount for name, amount in {**asked.requests, **amounts}.items() if amount}
        other.resources = shared_resources(requests, cpu, memory, cpu, memory)
        return other


_LONG_PORTS: WeakValueDictionary[int, PodInfo] = WeakValueDictionary()  # by hash: the last pod with such a long list of host ports


def is_specified_alike(one: Pod, other: Pod) -> bool:
    """Answer whether two states of a pod differ at most in their status, and in metadata beside labels and annotations."""
    was, now = one.metadata, other.metadata
    return one.spec == other.spec and was.labels == now.labels and was.annotations == now.annotations
