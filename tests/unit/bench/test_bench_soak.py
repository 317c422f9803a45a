"""The soak's recount must see what is wrong: room sold twice, statuses that are not what annotations say, pods that were forgotten."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from soak import objects
from soak.objects import GANG, IMPORTANT, JOINT, KIND, OF_QUOTA, OWN_CPUS, OWNER, PLAIN, TEAMS, WEIGHTS
from soak.recount import Listing, forgotten, oversold, wrong_quotas, wrong_reservations

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.quota_definitions import QUOTA_NAME
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text


def node(cpu: str = "8", **spec: Any) -> Any:
    return {"metadata": {"name": "n1"}, "spec": spec, "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "5"}}}


def pod(name: str, cpu: str, *, bound: bool = True, kind: str = PLAIN, labels: Any = (), reservation: str = "", nominated: str = "") -> Any:
    annotations = {RESERVATION_ALLOCATED: allocated_text("r", reservation)} if reservation else {}
    made = objects.pod_of(name, {"cpu": cpu, "memory": "1Gi"}, {KIND: kind, **dict(labels)}, annotations)
    made["metadata"]["uid"] = f"uid-{name}"
    made["spec"] |= {"nodeName": "n1"} if bound else {}
    return {**made, "status": {"nominatedNodeName": nominated} if nominated else {}}


def reservation(allocated: str = "0", owners: tuple[str, ...] = (), phase: str = "Available") -> Any:
    status = {
        "phase": phase,
        "nodeName": "n1",
        "allocatable": {"cpu": "4", "memory": "8Gi"},
        "allocated": {"cpu": allocated, "memory": f"{len(owners)}Gi"},
        "currentOwners": [{"uid": f"uid-{name}"} for name in owners],
    }
    return {"metadata": {"name": "r", "uid": "uid-r"}, "status": status}


def quota(name: str, used: str, most: int = 4, parent: str = "") -> Any:
    return {**objects.quota(name, most, parent), "status": {"used": {"cpu": used, "memory": f"{int(used)}Gi"}}}


def listed(
    *pods: Any, reservations: Any = (), quotas: Any = (), groups: Any = (), cpu: str = "8", measured: str = "0", **spec: Any
) -> Listing:
    metric = {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": measured}}}}}
    return Listing({"n1": node(cpu, **spec)}, list(pods), list(reservations), list(quotas), list(groups), {"n1": metric})


def test_what_is_reserved_and_not_used_yet_is_sold() -> None:
    full = [pod("a", "4"), pod("owner", "1", reservation="uid-r")]
    held = reservation("1", ("owner",))
    assert list(oversold(listed(*full, reservations=[held]))) == []
    assert list(oversold(listed(*full, pod("b", "1"), reservations=[held]))) == ["n1 is oversold: {'cpu': '-1'} left"]
    ended = reservation("1", ("owner",), phase="Succeeded")
    assert list(oversold(listed(*full, pod("b", "3"), reservations=[ended]))) == []


def test_a_node_has_no_place_for_more_pods_than_it_takes() -> None:
    assert list(oversold(listed(*(pod(f"p{number}", "100m") for number in range(5))))) == []
    assert list(oversold(listed(*(pod(f"p{number}", "100m") for number in range(6))))) == ["n1 is oversold: {'pods': '-1'} left"]


@pytest.mark.parametrize(
    ("pods", "held", "wrong"),
    [
        ([pod("a", "2", reservation="uid-r")], reservation("2", ("a",)), []),
        ([pod("a", "2", reservation="uid-other")], reservation(), []),
        (
            [pod("a", "2", reservation="uid-r")],
            reservation(),
            [
                "r says that 0 cpu are allocated, its owners have 2",
                "r says that 0 memory are allocated, its owners have 1073741824",
                "r names 0 owners, 1 pods have it in their annotation, and not the same",
            ],
        ),
        (
            [pod("a", "3", reservation="uid-r"), pod("b", "2", reservation="uid-r")],
            reservation("5", ("a", "b")),
            ["r gave 5 cpu of 4"],
        ),
        (
            [pod("a", "2", reservation="uid-r")],
            reservation("2", ("b",)),
            ["r names 1 owners, 1 pods have it in their annotation, and not the same"],
        ),
    ],
    ids=["right", "of another one", "not written", "given twice", "of another owner"],
)
def test_what_a_reservation_says_is_what_its_owners_say(pods: list[Any], held: Any, wrong: list[str]) -> None:
    assert list(wrong_reservations(listed(*pods, reservations=[held]))) == wrong


def test_what_a_quota_says_is_what_its_pods_and_those_of_its_children_ask_for() -> None:
    pods = [pod("a", "1", labels={QUOTA_NAME: "leaf"}), pod("b", "1", labels={QUOTA_NAME: "leaf"}), pod("c", "1")]
    waiting = pod("d", "9", bound=False, labels={QUOTA_NAME: "leaf"})
    right = [quota("team", "2"), quota("leaf", "2", parent="team"), quota("koordinator-default-quota", "0")]
    assert list(wrong_quotas(listed(*pods, waiting, quotas=right))) == []
    wrong = [quota("team", "1"), quota("leaf", "2", most=1, parent="team")]
    assert list(wrong_quotas(listed(*pods, quotas=wrong))) == [
        "team says that 1 cpu are used, its pods have 2",
        "team says that 1073741824 memory are used, its pods have 2147483648",
        "leaf uses 2 cpu of at most 1",
    ]


FORGOTTEN = ["w is pending though n1 has room for it"]


def test_a_plain_pod_waits_only_where_there_is_no_room_whatever_the_load() -> None:
    waiting = pod("w", "1", bound=False)
    assert list(forgotten(listed(pod("a", "4"), waiting))) == FORGOTTEN
    assert list(forgotten(listed(pod("a", "4"), waiting, measured="1"))) == []  # 1 + 0.85 * 5 of 8: more than 0.65
    assert list(forgotten(listed(waiting, cpu="900m"))) == []
    assert list(forgotten(listed(waiting, unschedulable=True))) == []
    assert list(forgotten(listed(waiting, taints=[{"key": "busy"}]))) == []
    assert list(forgotten(listed(waiting, cpu="5", reservations=[reservation()]))) == FORGOTTEN
    assert list(forgotten(listed(waiting, cpu="4", reservations=[reservation()]))) == []
    assert list(forgotten(listed(waiting, pod("other", "8", bound=False, kind=IMPORTANT, nominated="n1")))) == []
    assert list(forgotten(listed(pod("w", "1", bound=False, kind=OF_QUOTA)))) == []


def test_a_gang_that_is_begun_is_completed_where_there_is_room() -> None:
    lacking = pod("w", "1", bound=False, kind=GANG, labels={POD_GROUP_LABEL: "g"})
    begun = pod("m", "1", kind=GANG, labels={POD_GROUP_LABEL: "g"})
    assert list(forgotten(listed(lacking))) == []
    assert list(forgotten(listed(lacking, begun, groups=[named("g", gathered=False)]))) == FORGOTTEN
    assert list(forgotten(listed(lacking, begun, groups=[named("g", gathered=True)]))) == []


def named(gang: str, *, gathered: bool) -> Any:
    return objects.pod_group(gang, 2, gathered=gathered)


def test_every_kind_of_pod_comes_up_and_asks_for_what_its_kind_does() -> None:
    random, leaves = Random(1), [leaf for leaves in TEAMS.values() for leaf in leaves]
    made = [objects.pod(random, number, leaves) for number in range(500)]
    kinds = {each["metadata"]["labels"][KIND] for each in made}
    assert kinds == WEIGHTS.keys()
    of_quotas = Counter(name for each in made if (name := each["metadata"]["labels"].get(QUOTA_NAME)))
    assert of_quotas.keys() == set(leaves)
    bound_cpus = [each for each in made if each["metadata"]["labels"][KIND] == OWN_CPUS]
    assert all(each["metadata"]["labels"]["koordinator.sh/qosClass"] == "LSR" for each in bound_cpus)
    jointly = next(each for each in made if each["metadata"]["labels"][KIND] == JOINT)
    assert jointly["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2", "koordinator.sh/rdma": "1"}
    assert "requiredScope" in json.loads(jointly["metadata"]["annotations"]["scheduling.koordinator.sh/device-joint-allocate"])


def test_owners_of_reservations_have_the_labels_that_these_ask_for() -> None:
    random = Random(1)
    wanted = {
        owner["labelSelector"]["matchLabels"][objects.OWNER_LABEL]
        for number in range(100)
        for owner in objects.reservation(random, f"r{number}")["spec"]["owners"]
    }
    pods = [objects.pod(random, number, ["q"]) for number in range(500)]
    assert wanted == {each["metadata"]["labels"][objects.OWNER_LABEL] for each in pods if each["metadata"]["labels"][KIND] == OWNER}
