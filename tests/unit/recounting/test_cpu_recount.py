"""The recount of CPUs must see what would be wrong: CPUs given twice, too few, of broken cores, or of another machine."""

from __future__ import annotations

import json
from typing import Any

from support.cpu_recount import CPU_TOPOLOGY, QOS_CLASS, RESOURCE_SPEC, RESOURCE_STATUS, TOPOLOGIES, CpuRecount, cpu_ids, recount_cpus

DETAIL = [{"id": cpu, "core": cpu // 2, "socket": 0, "node": 0} for cpu in range(8)]
TOPOLOGY = {"metadata": {"name": "n1", "annotations": {CPU_TOPOLOGY: json.dumps({"detail": DETAIL})}}}


class Cluster:
    """Answers lists."""

    def __init__(self, *pods: Any) -> None:
        self._items = {"/api/v1/pods": pods, TOPOLOGIES: (TOPOLOGY,)}

    def get(self, path: str) -> Any:
        return {"items": self._items[path]}


def pod(name: str, cpus: str, cpuset: str, required: str = "", qos: str = "LSR") -> Any:
    spec = {"requiredCPUBindPolicy": required} if required else {}
    annotations = {RESOURCE_STATUS: json.dumps({"cpuset": cpuset}), RESOURCE_SPEC: json.dumps(spec)}
    containers = [{"resources": {"requests": {"cpu": cpus}}}]
    metadata = {"name": name, "labels": {QOS_CLASS: qos}, "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": containers}}


def counted(*pods: Any) -> CpuRecount:
    cluster: Any = Cluster(*pods)
    return recount_cpus(cluster)


def test_cpu_lists_are_read() -> None:
    assert cpu_ids("0-2,5") == {0, 1, 2, 5}
    assert cpu_ids("") == frozenset()


def test_pods_side_by_side_are_sound() -> None:
    found = counted(pod("a", "4", "0-3", "FullPCPUs"), pod("b", "2", "4,6", "SpreadByPCPUs"), pod("c", "1", "", qos="LS"))
    assert (found.sold_twice(), found.not_as_requested()) == ([], [])


def test_a_cpu_of_two_pods_is_named() -> None:
    assert counted(pod("a", "2", "0-1"), pod("b", "2", "1-2")).sold_twice() == ["CPU 1 of n1: a, b"]


def test_a_pod_that_is_not_bound_holds_nothing() -> None:
    waiting = pod("b", "2", "1-2")
    del waiting["spec"]["nodeName"]
    assert counted(pod("a", "2", "0-1"), waiting).sold_twice() == []


def test_what_is_not_as_requested_is_named() -> None:
    wrong = counted(
        pod("few", "2", "0"),
        pod("many", "1", "0", qos="LS"),
        pod("far", "2", "7-8"),
        pod("broken", "2", "1-2", "FullPCPUs"),
        pod("together", "2", "2-3", "SpreadByPCPUs"),
    )
    assert wrong.not_as_requested() == [
        "few: 1 CPUs instead of 2",
        "many: 1 CPUs instead of 0",
        "far: CPUs that n1 does not have: [8]",
        "broken: cores that are not whole",
        "together: several CPUs of one core",
    ]
