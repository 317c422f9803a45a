"""What counts as the same answer of DeviceShare, what as a wanted difference, and what as neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.differential.choosing import Json
from support.differential.koordinator.allocations import allocation_differences
from support.differential.koordinator.circumstances import Circumstances
from support.differential.koordinator.deliberate import deliberate
from support.differential.koordinator.device_pods import ALLOCATED, JOINT, SCHEDULING_HINT
from support.differential.koordinator.equal import comparable
from support.differential.ours import Judgement
from support.differential.reference import Decision

from koordsched.api.koordinator.node_reservation import NODE_RESERVATION

RATIO, MEMORY, CORE = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-core"
TAIL = "no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling."


def pod(annotations: dict[str, str] | None = None, /, **amounts: str) -> Json:
    """Return a pod that asks for these amounts of Koordinator's resources."""
    resources = {"requests": {f"koordinator.sh/{key}".replace("_", "-"): each for key, each in amounts.items()}}
    metadata = {"name": "p", "annotations": annotations or {}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "main", "resources": resources}]}, "status": {}}


@pytest.mark.parametrize(
    ("first", "second", "amounts"),
    [
        ("0/1 nodes are available: invalid resource device requests: [a b]. not found",) * 2 + ({},),
        (
            "0/1 nodes are available: invalid resource device requests: [b a]. not found",
            "0/1 nodes are available: invalid resource device requests: [a b]. not found",
            {},
        ),
        (
            f"0/3 nodes are available: invalid DeviceAllocateHint annotation, err: unexpected end of JSON input. {TAIL}",
            f"0/3 nodes are available: invalid DeviceAllocateHint annotation, err: {{ is not closed. {TAIL}",
            {},
        ),
        (
            'failed to lock node: parsing time "never" as "2006-01-02T15:04:05Z07:00": cannot parse "never" as "2006"',
            'failed to lock node: invalid node lock value "never,default,gone"',
            {},
        ),
        (  # both types are short: the reference looks at any of them first
            f"0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient gpu devices. {TAIL}",
            "0/3 nodes are available: 1 Insufficient GPU Devices, 1 Insufficient cpu, 1 Insufficient rdma devices. another tail",
            {"gpu": "100", "rdma": "1"},
        ),
    ],
)
def test_the_same_answer_in_other_words(first: str, second: str, amounts: dict[str, str]) -> None:
    body = pod(**amounts)
    assert comparable(first, body) == comparable(second, body)


@pytest.mark.parametrize(
    ("first", "second", "amounts"),
    [
        ('failed to lock node: invalid node lock value "a"', 'failed to lock node: invalid node lock value "b"', {}),
        ("1/1 invalid resource device requests: [a b]", "1/1 invalid resource device requests: [a c]", {}),
        ("0/1 nodes are available: 1 Insufficient gpu devices.", "0/1 nodes are available: 1 Insufficient GPU Devices.", {"gpu": "100"}),
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient gpu devices.",
            "0/3 nodes are available: 2 Insufficient cpu, 1 Insufficient gpu devices.",
            {"gpu": "100", "rdma": "1"},
        ),
    ],
)
def test_another_answer(first: str, second: str, amounts: dict[str, str]) -> None:
    body = pod(**amounts)
    assert comparable(first, body) != comparable(second, body)


def gpu(minor: int, **amounts: str) -> str:
    return json.dumps(
        {"gpu": [{"minor": minor, "resources": {f"koordinator.sh/{key}".replace("_", "-"): each for key, each in amounts.items()}}]}
    )


def test_allocations_differ_by_what_they_mean() -> None:
    assert allocation_differences({ALLOCATED: gpu(0, gpu="1")}, {ALLOCATED: gpu(0, gpu="1").replace(" ", "")}) == []
    assert allocation_differences({}, {}) == []
    (line,) = allocation_differences({ALLOCATED: gpu(0, gpu="1")}, {ALLOCATED: gpu(1, gpu="1")})
    assert line.startswith("device-allocated: the reference ")
    (line,) = allocation_differences({ALLOCATED: gpu(0, gpu="1")}, {})
    assert line.endswith("ours none")


def circumstances(**fields: Any) -> Circumstances:
    nothing = Circumstances(
        {"profiles": [{"pluginConfig": []}]},
        (cards(),),
        pod(),
        Decision("n1", "", "", {}, []),
        Judgement(frozenset({"n1"}), "", "", {}),
        {},
        {},
        ["they differ"],
    )
    return nothing._replace(**fields)


def test_an_error_of_one_node_is_known() -> None:
    said = 'running "DeviceShare" filter plugin: GPUIsolationProviderHAMICore not found on the node'
    assert deliberate(circumstances(theirs=Decision("", said, "", {}, []))) == "one_node_ends_the_cycle"
    assert deliberate(circumstances(theirs=Decision("", "0/1 nodes are available: 1 Insufficient cpu.", "", {}, []))) == ""


def cards(*, topology: bool = True) -> Json:
    """Return a Device of two cards on one PCIe switch, which are empty but for what pods hold."""
    place = {"topology": {"socketID": 0, "nodeID": 0, "pcieID": "p0"}} if topology else {}
    devices = [
        {"type": "gpu", "minor": minor, "health": True, "resources": {CORE: "100", MEMORY: "16Gi", RATIO: "100"}, **place}
        for minor in (0, 1)
    ]
    return {"kind": "Device", "metadata": {"name": "n1"}, "spec": {"devices": devices}}


def holding(minor: int, ratio: int) -> Json:
    body = pod({ALLOCATED: gpu(minor, gpu_memory_ratio=str(ratio), gpu_memory=str(ratio * (1 << 30) * 16 // 100))})
    return {**body, "spec": {**body["spec"], "nodeName": "n1"}}


@pytest.mark.parametrize(
    ("theirs", "ours", "objects", "rule"),
    [
        (0, 1, [cards(), holding(0, 25)], "swapped_score"),  # the emptier card, as LeastAllocated wants
        (1, 0, [cards(), holding(0, 25)], ""),
        (1, 0, [cards()], "swapped_score"),  # both are empty: the lower minor
        (0, 1, [cards()], ""),
        (0, 1, [cards(topology=False), holding(0, 25)], ""),  # without a tree nothing is swapped
    ],
)
def test_a_share_of_a_better_card_is_known(theirs: int, ours: int, objects: list[Json], rule: str) -> None:
    got, given = ({ALLOCATED: gpu(minor, gpu_memory_ratio="50", gpu_memory="8Gi")} for minor in (theirs, ours))
    body = pod(gpu_memory_ratio="50")
    found = ["device-allocated: the reference ..."]
    assert deliberate(circumstances(objects=objects, pod=body, got=got, given=given, differences=found)) == rule
    assert deliberate(circumstances(objects=objects, pod=body, got=got, given=given, differences=[*found, "DeviceShare on n1"])) == ""


def test_what_other_primary_devices_make_possible_is_known() -> None:
    same = pod({JOINT: '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'})
    refused = Decision("", "0/1 nodes are available: 1 node(s) Device Joint-Allocate rules violation.", "", {}, [])
    assert deliberate(circumstances(pod=same, theirs=refused)) == "other_primaries"
    assert deliberate(circumstances(theirs=refused)) == ""
    assert deliberate(circumstances(pod=same)) == ""


def test_a_card_without_a_resource_that_is_asked_for_is_known() -> None:
    assert deliberate(circumstances(pod=pod(gpu="50"))) == ""
    device = cards()
    del device["spec"]["devices"][1]["resources"][CORE]
    assert deliberate(circumstances(pod=pod(gpu="50"), objects=[device])) == "missing_name"
    assert deliberate(circumstances(pod=pod(gpu_memory_ratio="50"), objects=[device])) == ""
    two = Decision("n1", "", "", {"n1": {}, "n2": {}}, [])
    assert deliberate(circumstances(pod=pod(gpu="50"), objects=[device], theirs=two)) == ""  # n2 has no such card
    assert deliberate(circumstances(pod=pod(gpu="250"), objects=[device])) == ""  # asks for nothing that could be given


def test_an_annotation_that_is_taken_away_is_known() -> None:
    before = {ALLOCATED: gpu(0, gpu_core="100")}
    assert deliberate(circumstances(pod=pod(before), got=before)) == "annotation_without_devices"
    assert deliberate(circumstances(pod=pod(before), got=before, given=before)) == ""
    assert deliberate(circumstances(pod=pod(before), got={ALLOCATED: gpu(1, gpu_core="100")})) == ""


def test_a_node_without_a_device_that_only_the_reference_refuses_is_known() -> None:
    refused = Decision("", "0/2 nodes are available: 2 Insufficient gpu devices.", "", {}, [])
    assert deliberate(circumstances(theirs=refused, ours=Judgement(frozenset({"n2"}), "", "", {}))) == "node_without_device"
    assert deliberate(circumstances(theirs=refused, ours=Judgement(frozenset({"n1", "n2"}), "", "", {}))) == ""
    assert deliberate(circumstances(ours=Judgement(frozenset({"n2"}), "", "", {}))) == ""  # the reference chose another node


def test_a_designation_that_the_dry_run_forgets_is_known() -> None:
    hint = json.dumps({"extensions": {"DeviceShare": {}}})
    designating = pod({ALLOCATED: gpu(0, gpu_memory_ratio="100"), SCHEDULING_HINT: hint})
    filtered = "0/1 nodes are available: 1 Insufficient GPU Devices. "
    no_victim = Decision("", filtered + 'preemption: expected at least one victim pod on node "n1"', "", {}, [])
    made_room = Judgement(frozenset(), "", "n1", {}, (7500,))
    assert deliberate(circumstances(pod=designating, theirs=no_victim, ours=made_room)) == "designation_forgotten"
    assert deliberate(circumstances(pod=pod({ALLOCATED: gpu(0)}), theirs=no_victim, ours=made_room)) == ""  # nothing is designated
    assert deliberate(circumstances(pod=designating)) == ""  # it passed Filter


def test_batch_resources_that_the_reference_loses_are_known() -> None:
    older = {"cpu": "8", "koordinator.sh/batch-cpu": "6000"}
    reserving = {"kind": "Node", "metadata": {"name": "n2", "annotations": {NODE_RESERVATION: "{}"}}, "status": {"allocatable": older}}
    plain = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": older}}
    ours = Judgement(frozenset({"n1"}), "", "", {"n1": {}, "n2": {}})
    more = Decision("n1", "", "", {"n1": {}}, [])
    assert deliberate(circumstances(objects=(reserving,), theirs=more, ours=ours)) == "batch_resources_lost"
    assert deliberate(circumstances(objects=(plain,), theirs=more, ours=ours)) == ""
    scored, found = Decision("n1", "", "", {"n1": {}, "n2": {}}, []), ["LoadAwareScheduling on n2: the reference 0, ours 2"]
    assert deliberate(circumstances(objects=(reserving,), theirs=scored, ours=ours, differences=found)) == "batch_resources_lost"
    found.append("LoadAwareScheduling on n1: the reference 0, ours 2")
    assert deliberate(circumstances(objects=(reserving,), theirs=scored, ours=ours, differences=found)) == ""
