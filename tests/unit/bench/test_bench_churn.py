"""The churn must see what is wrong: growth, pods that exclude each other on one node, pods that were forgotten."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from churn.checks import forgotten, overcommitted, together
from churn.growth import growth_an_hour, rise, slope
from churn.mutator import Due
from churn.quiescence import unexplained
from churn.shapes import SHAPES, pod
from support.recount import Recount

ROOM = {"cpu": 8000, "memory": 1 << 35, "pods": 110}


def placed(shape: str, node: str = "", group: str = "") -> Any:
    made = next(made for number in range(1000) if (made := pod(Random(number), number).pod)["metadata"]["labels"]["shape"] == shape)
    labels = {**made["metadata"]["labels"], **({"group": group} if group else {})}
    return {**made, "metadata": {**made["metadata"], "labels": labels}, "spec": {**made["spec"], "nodeName": node}, "status": {}}


def counted(*pods: Any, **spec: Any) -> Recount:
    return Recount({"n1": {"metadata": {"labels": {}}, "spec": spec}}, list(pods), {"n1": dict(ROOM)})


def test_a_line_through_points_has_its_slope() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == 2
    assert slope([(3, 1), (3, 9)]) == 0
    assert slope([]) == 0


def test_only_the_second_half_says_whether_memory_grows() -> None:
    warming_up = [50, 80, 95, 100, 100, 100, 100, 100]
    growing = [50, 50, 50, 50, 100, 101, 102, 103]
    assert growth_an_hour(range(8), warming_up) == 0
    assert growth_an_hour(range(8), growing) == 60
    assert growth_an_hour(range(6), growing[:6]) is None


def test_a_third_is_warm_up_of_which_growth_is_not_counted() -> None:
    assert rise(range(9), [50, 80, 95, 100, 100, 100, 100, 100, 100]) == 0
    assert rise(range(9), [50, 80, 95, 100, 101, 102, 103, 104, 105]) == pytest.approx(5)
    assert rise(range(5), [50, 80, 100, 100, 105]) is None


def test_pods_that_exclude_each_other_are_seen_on_one_node() -> None:
    alone = [placed("exclusive", "n1", "g1"), placed("exclusive", "n1", "g2"), placed("exclusive", "n2", "g1"), placed("plain", "n1")]
    assert list(together(counted(*alone))) == []
    assert list(together(counted(*alone, placed("exclusive", "n1", "g2")))) == ["n1 has 2 pods of g2, which exclude each other"]


@pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [{"key": "busy", "effect": "NoSchedule"}]}])
def test_a_plain_pod_that_could_run_is_forgotten_unless_the_node_is_closed(spec: Any) -> None:
    pending = placed("plain")
    assert [line.endswith("is pending though n1 has room for it") for line in forgotten(counted(pending))] == [True]
    assert list(forgotten(counted(pending, **spec))) == []
    assert list(forgotten(counted(placed("spread")))) == []


def test_an_overcommitted_node_is_named() -> None:
    found = counted()
    assert list(overcommitted(found)) == []
    found.free["n1"]["cpu"] = -1
    assert [line.startswith("n1 is overcommitted: ") for line in overcommitted(found)] == [True]


def test_a_pending_pod_without_a_condition_is_not_at_rest() -> None:
    silent, explained = placed("plain"), placed("plain")
    explained["status"] = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    assert unexplained([silent, explained, placed("plain", "n1")]) == [silent["metadata"]["name"]]


def test_what_is_due_is_due_as_often_as_time_has_passed() -> None:
    due = Due(0.5)
    assert [due.times(now) for now in (10.0, 10.4, 10.5, 12.0)] == [1, 0, 1, 3]
    due.pause()
    assert due.times(50.0) == 1


def test_every_shape_of_pod_comes_up() -> None:
    random = Random(1)
    made = [pod(random, number) for number in range(500)]
    assert {each.pod["metadata"]["labels"]["shape"] for each in made} == SHAPES.keys()
    assert all(bool(each.claim) == (each.pod["metadata"]["labels"]["shape"] == "volume") for each in made)
