"""The theme `cpuset`: nodes of 208 CPUs on 4 NUMA nodes, and pods that want 4 CPUs of their own.

Also what that needs: who schedules may patch pods and read topologies (Kubernetes' own role of a scheduler has neither right), and the
annotations that a binder writes which does not choose CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from support.controlplane.credentials import SCHEDULER

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

LAYOUT = CpuLayout.parse("2x2x26x2")
MEMORY = 512 << 30
ROOM = {"cpu": str(LAYOUT.cpus), "memory": str(MEMORY), "ephemeral-storage": "400Gi", "pods": "110"}
CPUS = 4  # of each pod
REQUESTS = {"cpu": str(CPUS), "memory": "4Gi"}
LABELS = {"koordinator.sh/qosClass": "LSR"}
PRIORITY_CLASS, PRIORITY = "koord-prod", 9000
PLUGIN = "NodeNUMAResource"

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
RIGHTS = "side-by-side-cpuset"
RBAC = "rbac.authorization.k8s.io"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def topology(node: str) -> Created:
    return "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies", topology_manifest(node, LAYOUT, MEMORY)


def rights() -> Iterator[Created]:
    """Yield the role, and who has it."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        {"apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["get", "list", "watch"]},
    ]
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": rules}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}


def cpu_annotations(_node: str, turn: int) -> dict[str, str]:
    """Return what is written of a node's pod number `turn`: the next CPUs, in the words of the scheduler."""
    first = CPUS * turn % LAYOUT.cpus
    status = {"cpuset": f"{first}-{first + CPUS - 1}"}
    return {RESOURCE_SPEC: '{"preferredCPUBindPolicy":"FullPCPUs"}', RESOURCE_STATUS: msgspec.json.encode(status).decode()}
