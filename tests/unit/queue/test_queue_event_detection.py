"""Changes of nodes and pods as events (framework.md §3.4)."""

from __future__ import annotations

from msgspec.structs import replace
from support.builders import node, pod

from koordsched.api.core import NodeCondition, NodeSpec, NodeStatus, PodCondition, PodResourceClaimStatus, PodStatus, Quantity, Taint
from koordsched.api.meta import OwnerReference
from koordsched.api.podinfo import PodInfo
from koordsched.queue.event_detection import node_events, pod_update_events
from koordsched.queue.events import ClusterEvent

BASE = node("n").build()


def labels(events: list[ClusterEvent]) -> list[str]:
    return [event.label for event in events]


def test_uncordoning_is_a_taint_change_and_cordoning_is_none() -> None:
    cordoned = replace(BASE, spec=NodeSpec(unschedulable=True))
    assert labels(node_events(cordoned, BASE)) == ["NodeUpdateNodeTaint"]
    assert node_events(BASE, cordoned) == []


def test_each_kind_of_node_change_is_an_event_of_its_own_in_fixed_order() -> None:
    old = replace(BASE, spec=NodeSpec(unschedulable=True))
    new = replace(
        BASE,
        metadata=replace(BASE.metadata, labels={"zone": "a"}, annotations={"note": "x"}),
        spec=NodeSpec(taints=(Taint("k", "NoSchedule"),)),
        status=NodeStatus(allocatable={"cpu": "4"}, conditions=(NodeCondition("Ready", "True"),)),
    )
    assert labels(node_events(old, new)) == [
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeCondition",
        "NodeUpdateNodeAnnotation",
    ]


def test_a_node_change_that_no_plugin_reads_is_no_event() -> None:
    new = replace(BASE, metadata=replace(BASE.metadata, resource_version="9"), status=replace(BASE.status, capacity={"cpu": "64"}))
    assert node_events(BASE, new) == []


def test_conditions_are_compared_by_type_and_status_whatever_their_order() -> None:
    ready, pressure = NodeCondition("Ready", "True"), NodeCondition("MemoryPressure", "False")
    old = replace(BASE, status=replace(BASE.status, conditions=(ready, pressure)))
    swapped = replace(BASE, status=replace(BASE.status, conditions=(pressure, ready)))
    broken = replace(BASE, status=replace(BASE.status, conditions=(NodeCondition("Ready", "False"), pressure)))
    assert node_events(old, swapped) == []
    assert labels(node_events(old, broken)) == ["NodeUpdateNodeCondition"]


def test_allocatable_is_compared_by_value() -> None:
    def offering(**amounts: Quantity) -> NodeStatus:
        return NodeStatus(allocatable=amounts)

    one = replace(BASE, status=offering(cpu="1"))
    assert node_events(one, replace(BASE, status=offering(cpu="1000m"))) == []
    assert labels(node_events(one, replace(BASE, status=offering(cpu="1001m")))) == ["NodeUpdateNodeAllocatable"]
    assert labels(node_events(one, replace(BASE, status=offering(cpu="1", memory="1")))) == ["NodeUpdateNodeAllocatable"]
    assert labels(node_events(one, replace(BASE, status=offering(cpu="one")))) == ["NodeUpdateNodeAllocatable"]


def test_a_pod_change_of_no_special_kind_is_a_plain_update() -> None:
    old, new = pod("p").info(), pod("p").annotation("note", "x").info()
    assert labels(pod_update_events(old, new)) == ["UnschedulablePodUpdate"]


def test_what_is_said_of_a_pending_pod_in_its_status_is_no_event() -> None:
    old = pod("p").info()
    condition = PodCondition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes are available.")
    said = PodInfo(replace(old.pod, metadata=replace(old.pod.metadata, resource_version="2"), status=PodStatus(conditions=(condition,))))
    assert pod_update_events(old, said) == []
    owned = PodInfo(
        replace(said.pod, metadata=replace(said.pod.metadata, owner_references=(OwnerReference(kind="Job", name="j", uid="u"),)))
    )
    assert labels(pod_update_events(old, owned)) == ["UnschedulablePodUpdate"]
    bound = pod("p").on("n").info(counted_on_node=True)
    running = PodInfo(replace(bound.pod, status=PodStatus(phase="Running")), counted_on_node=True)
    assert labels(pod_update_events(bound, running)) == ["AssignedPodUpdate"]


def test_special_pod_changes_are_events_of_their_own() -> None:
    old = pod("p").cpu("2").gate("wait").info()
    new = pod("p").cpu("1").label("app", "x").tolerates("k").info()
    assert labels(pod_update_events(old, new)) == [
        "UnschedulablePodUpdatePodLabel",
        "UnschedulablePodUpdatePodScaleDown",
        "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        "UnschedulablePodUpdatePodToleration",
    ]


def test_scaling_down_is_any_request_that_shrank_or_went() -> None:
    old = pod("p").cpu("1").memory("1Gi").info()
    assert labels(pod_update_events(old, pod("p").cpu("2").memory("1Gi").info())) == ["UnschedulablePodUpdate"]
    assert labels(pod_update_events(old, pod("p").cpu("2").memory("1Mi").info())) == ["UnschedulablePodUpdatePodScaleDown"]
    assert labels(pod_update_events(old, pod("p").cpu("2").info())) == ["UnschedulablePodUpdatePodScaleDown"]


def test_removing_one_of_two_gates_eliminates_nothing() -> None:
    old, new = pod("p").gate("a").gate("b").info(), pod("p").gate("b").info()
    assert labels(pod_update_events(old, new)) == ["UnschedulablePodUpdate"]


def test_a_bound_pod_changes_as_an_assigned_one() -> None:
    old, new = pod("p").on("n").info(), pod("p").on("n").label("app", "x").info()
    assert labels(pod_update_events(old, new)) == ["AssignedPodUpdatePodLabel"]
    assert labels(pod_update_events(old, pod("p").on("n").annotation("note", "x").info())) == ["AssignedPodUpdate"]


def test_a_generated_resource_claim_is_an_event() -> None:
    made = pod("p").build()
    claimed = replace(made, status=replace(made.status, resource_claim_statuses=(PodResourceClaimStatus("gpu", "p-gpu-1"),)))
    old, new = pod("p").info(), type(pod("p"))(claimed).info()
    assert labels(pod_update_events(old, new)) == ["UnschedulablePodUpdatePodGeneratedResourceClaim"]
