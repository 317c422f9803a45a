"""PodGroup and ClusterNetworkTopology: which pods are bound together, and which nodes are close to each other (coscheduling.md §2).

A PodGroup has no status subresource: its status is patched with the main resource. Of the topologies only the one named `default` counts.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.meta import Api, Int32, Object


class PodGroupSpec(Api):
    """`schedule_timeout_seconds` of 0 or less, or none: the plugin's default timeout. minResources is not read."""

    min_member: Int32 = 0
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Api):
    phase: str = ""
    occupying: str = field(default="", name="occupiedBy")
    scheduled: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: str | None = None


class PodGroup(Object):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class NetworkTopologyLayer(Api):
    """A layer of the network. A node's domain in it is the value of the first of the labels that the node has."""

    topology_layer: str
    parent_topology_layer: str = ""
    label_key: tuple[str, ...] = ()


class ClusterNetworkTopologySpec(Api):
    network_topology_spec: tuple[NetworkTopologyLayer, ...] = ()


class NetworkDomain(Api):
    topology_layer: str
    topology_name: str


class NetworkDomainStatus(Api):
    """A domain, the one that it is part of, its parts by name (none where these are nodes), and how many nodes it has."""

    topology_info: NetworkDomain
    node_num: Int32
    parent_topology_info: NetworkDomain | None = None
    child_topology_layer: str = ""
    child_topology_names: tuple[str, ...] = ()


class ClusterNetworkTopologyStatus(Api):
    detail_status: tuple[NetworkDomainStatus, ...] = ()


class ClusterNetworkTopology(Object):
    spec: ClusterNetworkTopologySpec = ClusterNetworkTopologySpec()
    status: ClusterNetworkTopologyStatus = ClusterNetworkTopologyStatus()
