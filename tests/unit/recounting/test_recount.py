"""What e2e tests judge a cluster by must itself see what is wrong: an overcommitted node, a pod that was forgotten, a pod that moved."""

from __future__ import annotations

from typing import Any

import pytest
from support.controlplane.credentials import Kubeconfig, by_token
from support.placements import Placements
from support.recount import Recount, amount, recount


class Listed:
    """Answers the two lists of a recount."""

    def __init__(self, nodes: list[Any], pods: list[Any]) -> None:
        self._lists = {"/api/v1/nodes": nodes, "/api/v1/pods": pods}

    def get(self, path: str) -> Any:
        return {"items": self._lists[path]}


def node(name: str, **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}}}


def pod(name: str, node_name: str, cpu: str, **selector: str) -> Any:
    containers = [{"resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}]
    return {"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node_name, "containers": containers, "nodeSelector": selector}}


def counted(*pods: Any) -> Recount:
    return recount(Listed([node("n1", pool="a")], list(pods)))  # type: ignore[arg-type]  # all that is asked of a Rest


@pytest.mark.parametrize(
    ("resource", "quantity", "value"),
    [("cpu", "2", 2000), ("cpu", "250m", 250), ("memory", "1Gi", 1073741824), ("memory", "64Mi", 67108864), ("pods", "110", 110)],
)
def test_amounts(resource: str, quantity: str, value: int) -> None:
    assert amount(resource, quantity) == value


def test_a_full_node_is_not_overcommitted() -> None:
    found = counted(pod("p", "n1", "1500m"), pod("q", "n1", "500m"))
    assert found.free == {"n1": {"cpu": 0, "memory": 0, "pods": 0}}
    assert found.overcommitted() == {}
    assert found.bound == {"p": "n1", "q": "n1"}


@pytest.mark.parametrize("pods", [[pod("p", "n1", "2001m")], [pod(name, "n1", "1m") for name in "pqr"]])
def test_a_node_with_too_much_of_anything_is_overcommitted(pods: list[Any]) -> None:
    assert counted(*pods).overcommitted().keys() == {"n1"}


@pytest.mark.parametrize(
    ("waiting", "fits"),
    [(pod("w", "", "1"), True), (pod("w", "", "1001m"), False), (pod("w", "", "1", pool="a"), True), (pod("w", "", "1", pool="b"), False)],
)
def test_a_pending_pod_that_fits_is_found(waiting: Any, fits: bool) -> None:
    found = counted(pod("p", "n1", "1"), waiting)
    assert found.pending == ["w"]
    assert found.pending_though_it_fits() == ([("w", "n1")] if fits else [])


@pytest.mark.parametrize(
    ("seen", "strays"),
    [(["", "n1", "n1"], False), (["n1"], False), (["", ""], False), (["n1", "n2"], True), (["", "n1", ""], True), (["n1", "", "n1"], True)],
)
def test_a_pod_that_moves_is_found(seen: list[str], strays: bool) -> None:
    placements = Placements(Kubeconfig("https://127.0.0.1:1", b"", by_token("")))
    for node_name in seen:
        placements.see(pod("p", node_name, "1"))
    assert [story.name for story in placements.strayed()] == (["p"] if strays else [])
    assert placements.bound == bool(seen[-1])
