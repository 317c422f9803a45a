"""The themes `koordinator`, `koordinator-objects` and `koordinator-bare`: plain pods, under the whole profile of Koordinator's chart.

With `koordinator` each node has a NodeMetric that is written anew every minute, as koordlets do, while the competitors are measured.
`koordinator-objects` has all that a start has to take in: NodeMetrics, Devices, 1,000 quotas in a tree, two Reservations a node; and
`koordinator-bare` the same nodes and pods without any custom resource. kube-scheduler takes part with its defaults and looks at none of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import yaml
from support.controlplane.credentials import SCHEDULER

from koordsched.api.kinds import ELASTIC_QUOTA, NODE_METRIC
from koordsched.api.koordinator.quota_definitions import IS_PARENT, PARENT, TRUE
from koordsched.clock import rfc3339
from koordsched.cluster.apiserver import ApiServer, RawRequest
from side_by_side import gangs

KOORDINATOR, OBJECTS, BARE = "koordinator", "koordinator-objects", "koordinator-bare"
CHART = (KOORDINATOR, OBJECTS, BARE)
"""Themes under the chart's profile."""
FLAGS = (gangs.MANAGED,)
CONFIG = Path(__file__).parents[2] / "config"
NAMESPACE = "koordinator-system"  # of the chart's quotas
TREES, BRANCHES, LEAVES = 10, 9, 10  # quotas below the root, below each of these, and below each of those: 1,000
MOST = {"cpu": "1000000", "memory": "10000Ti"}
METRICS = f"/apis/{NODE_METRIC.api_version}/nodemetrics"
REPORT_SECONDS = 60.0
MERGE_PATCH = "application/merge-patch+json"
RIGHTS = "side-by-side-koordinator"
RBAC = "rbac.authorization.k8s.io"

Created = tuple[str, dict[str, Any]]  # the collection's path, and the object


def profile() -> dict[str, Any]:
    """Return the profile that Koordinator's chart configures."""
    whole = yaml.safe_load((CONFIG / "koord-scheduler-config.yaml").read_text(encoding="utf-8"))
    (found,) = whole["profiles"]
    return dict(found)


def namespace() -> Created:
    return "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def rights() -> Iterator[Created]:
    """Yield the role that config/rbac.yaml gives the scheduler, and who has it."""
    documents = yaml.safe_load_all((CONFIG / "rbac.yaml").read_text(encoding="utf-8"))
    (role,) = (each for each in documents if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "koord-scheduler")
    common = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": RIGHTS}}
    yield f"/apis/{RBAC}/v1/clusterroles", {**common, "kind": "ClusterRole", "rules": role["rules"]}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": RIGHTS}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": SCHEDULER.user}]
    yield f"/apis/{RBAC}/v1/clusterrolebindings", {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}


def quotas() -> Iterator[Created]:
    """Yield 1,000 quotas on three levels, with room for all pods."""
    for tree in range(TREES):
        yield _quota(f"tree-{tree}", "100", {IS_PARENT: TRUE})
        for branch in range(BRANCHES):
            yield _quota(f"branch-{tree}-{branch}", "10", {IS_PARENT: TRUE, PARENT: f"tree-{tree}"})
            for leaf in range(LEAVES):
                yield _quota(f"leaf-{tree}-{branch}-{leaf}", "1", {PARENT: f"branch-{tree}-{branch}"})


def leaf_of(number: int) -> str:
    """Return the quota of the pod of this number: the leaves in turn."""
    tree, branch, leaf = number // (BRANCHES * LEAVES) % TREES, number // LEAVES % BRANCHES, number % LEAVES
    return f"leaf-{tree}-{branch}-{leaf}"


def _quota(name: str, least: str, labels: dict[str, str]) -> Created:
    path = f"/apis/{ELASTIC_QUOTA.api_version}/namespaces/{NAMESPACE}/elasticquotas"
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    spec = {"max": MOST, "min": {"cpu": least}}
    return path, {"apiVersion": ELASTIC_QUOTA.api_version, "kind": ELASTIC_QUOTA.kind, "metadata": metadata, "spec": spec}


def node_metric(node: str, serial: int, now: float, pods: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a koordlet reports of its node and the pods there; other numbers for each serial number."""
    policy = {"aggregateDurationSeconds": 300, "reportIntervalSeconds": int(REPORT_SECONDS)}
    return {
        "apiVersion": NODE_METRIC.api_version,
        "kind": NODE_METRIC.kind,
        "metadata": {"name": node},
        "spec": {"metricCollectPolicy": policy},
        "status": report(serial, now, pods),
    }


def report(serial: int, now: float, pods: Sequence[str] = ()) -> dict[str, Any]:
    """Return the status of a NodeMetric."""
    of_pods = [
        {"namespace": "default", "name": pod, "podUsage": _usage(20 + (7 * serial + place) % 60, (64 << 20) + 4096 * (serial + place))}
        for place, pod in enumerate(pods)
    ]
    used = _usage(1000 + 37 * serial % 4000, (8 << 30) + 4096 * serial)
    return {"updateTime": rfc3339(now), "nodeMetric": {"nodeUsage": used}, "podsMetric": of_pods}


def _usage(cpu: int, memory: int) -> dict[str, Any]:
    return {"resources": {"cpu": f"{cpu}m", "memory": str(memory)}}


async def report_for_ever(server: ApiServer, nodes: Sequence[str]) -> None:
    """Write each node's NodeMetric anew every minute, spread over the minute, whatever the answers take."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for serial in count(1):
            await asyncio.sleep(begun + serial * REPORT_SECONDS / len(nodes) - time.monotonic())
            body = msgspec.json.encode({"status": report(serial, time.time())})
            path = f"{METRICS}/{nodes[serial % len(nodes)]}/status"
            tasks.create_task(server.raw(RawRequest("PATCH", path, body=body, content_type=MERGE_PATCH)))
