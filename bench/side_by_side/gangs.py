"""The themes `gang`, `gang-of-3` and `gang-topology`: pods in gangs of 10, of 3, and of 16 that must stay within a block of the network.

Also what that needs: who schedules may read PodGroups and the network's topology, write their status, and patch pods; and what a binder
writes which binds pods one by one: to each pod with which gang it is bound, to each PodGroup that its pods are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from support.controlplane.credentials import SCHEDULER

from koordsched.api.core import Pod
from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.gangs import PodGroup
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.clock import Clock, rfc3339
from koordsched.cluster.port import Cluster, Patch, Ref

GANG, GANG_OF_3, TOPOLOGY = "gang", "gang-of-3", "gang-topology"
SIZES = {GANG: 10, GANG_OF_3: 3, TOPOLOGY: 16}
"""Members of a gang, by theme; the last gang has the pods that are left."""
NAMESPACE = "default"
REQUESTS = {
    GANG: {"cpu": "500m", "memory": "512Mi"},
    GANG_OF_3: {"cpu": "500m", "memory": "512Mi"},
    TOPOLOGY: {"cpu": "4", "memory": "4Gi"},
}
PLUGIN = "Coscheduling"
POINTS = ("preEnqueue", "preFilter", "reserve", "permit", "postBind")
DOMAINS = {"spine": 640, "block": 40, "rack": 8}  # nodes in each, by the label that names it
LAYERS = (("Spine", "", "spine"), ("Block", "Spine", "block"), ("Rack", "Block", "rack"))
GATHERED = '{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}'
MANAGED = "--enable-network-topology-manager=true"
PATCH_SECONDS = 1.0
BOUND_WITH, COUNT = "scheduling.koordinator.sh/bind-gang-group-id", "scheduling.koordinator.sh/bind-gang-member-count"
BOUND_TOGETHER = (BOUND_WITH, COUNT, f"internal.{BOUND_WITH}", f"internal.{COUNT}")
SCHEDULED = "Scheduled"
RIGHTS = "side-by-side-gangs"
RBAC = "rbac.authorization.k8s.io"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def profile(theme: str, *needed: str) -> dict[str, Any]:
    """Return the plugins of a profile; `needed` ones besides."""
    enabled = {"enabled": [{"name": PLUGIN}]}
    plugins: dict[str, Any] = dict.fromkeys(POINTS, enabled)
    plugins["preBind"] = {"enabled": [{"name": PLUGIN}, {"name": "DefaultPreBind"}]}
    if needed:
        plugins["multiPoint"] = {"enabled": [{"name": name} for name in needed]}
    args = {"awareNetworkTopology": True} if theme == TOPOLOGY else {}
    return {"plugins": plugins, "pluginConfig": [{"name": PLUGIN, "args": args}]}


def flags(theme: str) -> tuple[str, ...]:
    return (MANAGED,) if theme == TOPOLOGY else ()


def gang_of(theme: str, number: int) -> str:
    """Return the gang of the pod of this number."""
    return f"gang-{number // SIZES[theme]}"


def labels(number: int) -> dict[str, str]:
    """Return the labels of the node of this number that name its domains."""
    return {label: f"{label}-{number // size}" for label, size in DOMAINS.items()}


def pod_groups(theme: str, pods: int) -> Iterator[Created]:
    members = Counter(gang_of(theme, number) for number in range(pods))
    path = f"/apis/{POD_GROUP.api_version}/namespaces/{NAMESPACE}/podgroups"
    annotations = {TOPOLOGY_SPEC: GATHERED} if theme == TOPOLOGY else {}
    for name, size in members.items():
        metadata = {"name": name, "annotations": annotations}
        yield path, {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": {"minMember": size}}


def topology() -> Created:
    layers: list[dict[str, Any]] = [
        {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": [label]} for name, parent, label in LAYERS
    ]
    layers.append({"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": LAYERS[-1][0]})
    kind = CLUSTER_NETWORK_TOPOLOGY
    path = f"/apis/{kind.api_version}/clusternetworktopologies"
    spec = {"networkTopologySpec": layers}
    return path, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "default"}, "spec": spec}


def rights() -> Iterator[Created]:
    """Yield the role, and who has it."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch", "patch"]},
        {
            "apiGroups": ["scheduling.koordinator.sh"],
            "resources": ["clusternetworktopologies", "clusternetworktopologies/status"],
            "verbs": ["get", "list", "watch", "patch"],
        },
    ]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}


class GangWriter:
    """Writes of gangs what the scheduler writes: with whom pods are bound, and once a second of PodGroups that all their pods are."""

    def __init__(self, cluster: Cluster, clock: Clock, groups: Mapping[str, PodGroup]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._groups = groups
        self._bound: Counter[str] = Counter()
        self._complete: list[str] = []

    def annotations(self, pod: Pod) -> dict[str, str]:
        key = _key(pod)
        return dict(zip(BOUND_TOGETHER, (key, str(self._groups[key].spec.min_member)) * 2, strict=True))

    def bound(self, pod: Pod) -> None:
        key = _key(pod)
        self._bound[key] += 1
        if self._bound[key] == self._groups[key].spec.min_member:
            self._complete.append(key)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PATCH_SECONDS)
            complete, self._complete = self._complete, []
            for key in complete:
                scheduled = self._groups[key].spec.min_member
                now = rfc3339(self._clock.now())
                await self._patch(key, {"phase": SCHEDULED, "scheduled": scheduled, "scheduleStartTime": now})

    async def _patch(self, key: str, status: dict[str, Any]) -> None:
        await self._cluster.patch(Ref(POD_GROUP, NAMESPACE, key.partition("/")[2]), Patch({"status": status}))


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.labels[POD_GROUP_LABEL]}"
