"""What is changed of objects before scheduling sees them (frameworkext.md §3, §7), each transformer by itself and all in their order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod

from koordsched.api.core import Container, Node, Pod, ResourceRequirements
from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NAMESPACE, NODE, POD, Kind
from koordsched.api.koordinator.devices import Device
from koordsched.api.koordinator.quotas import ElasticQuota
from koordsched.api.meta import Object
from koordsched.config.features import parse_feature_gates
from koordsched.scheduler.transformers import standard_transformers
from koordsched.scheduler.transformers.pods import (
    DEVICE_ALLOCATED,
    ORIGINAL_SCHEDULER_NAME,
    PREEMPTION_POLICY,
    REPLACE_RESOURCES,
    SCHEDULER_NAME,
)

RESERVATION = "node.koordinator.sh/reservation"


class Reports:
    """Takes down what is reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, obj: Object, problem: str) -> None:
        self.lines.append(f"{obj.metadata.name}: {problem}")


def transformed(kind: Kind, obj: Any, gates: str = "", reports: Reports | None = None) -> Any:
    transform = standard_transformers(parse_feature_gates([gates]), reports or Reports()).of(kind)
    assert transform is not None
    return transform(obj)


def of_pod(builder: PodBuilder, gates: str = "") -> Pod:
    found: Pod = transformed(POD, builder.build(), gates)
    return found


def requests(pod: Pod) -> dict[str, Any]:
    return pod.spec.containers[0].resources.requests


# Lists


def test_each_kind_has_its_transformers_in_their_order() -> None:
    every = "ReplaceResourcesTransformer=true,PriorityTransformer=true,PreemptionPolicyTransformer=true"
    listed = [(each.kind, each.name) for each in standard_transformers(parse_feature_gates([every]), Reports())]
    assert [name for kind, name in listed if kind == POD] == [
        "batch resources",
        "device resources",
        "allocated devices",
        "replaced resources",
        "default priority",
        "preemption policy",
        "scheduler name",
    ]
    assert [name for kind, name in listed if kind == NODE] == ["batch amounts", "device amounts", "node reservation"]
    assert [name for kind, name in listed if kind not in {POD, NODE}] == ["devices", "quotas"]


def test_gates_are_off_unless_they_are_turned_on() -> None:
    listed = [each.name for each in standard_transformers(parse_feature_gates([]), Reports())]
    assert not {"replaced resources", "default priority", "preemption policy"} & set(listed)


def test_other_kinds_have_none() -> None:
    assert standard_transformers(parse_feature_gates([]), Reports()).of(NAMESPACE) is None


@pytest.mark.parametrize("builder", [pod().cpu("1").memory("1Gi").label("app", "web").overhead({"cpu": "1m"}), pod()])
def test_an_ordinary_pod_passes_as_it_is(builder: PodBuilder) -> None:
    made = builder.build()
    assert transformed(POD, made) is made


def test_an_ordinary_node_passes_as_it_is() -> None:
    made = node("n").cpu("4").memory("8Gi").build()
    assert transformed(NODE, made) is made


# Renamed resources of pods


def test_batch_and_device_resources_are_renamed_wherever_a_pod_asks_for_them() -> None:
    asked = ResourceRequirements(requests={"koordinator.sh/batch-cpu": "500"}, limits={"kubernetes.io/gpu-core": "50", "cpu": "1"})
    made = pod().container({"koordinator.sh/batch-memory": "1Gi"}).init_container({"kubernetes.io/rdma": 1}).build()
    made = msgspec.structs.replace(
        made,
        spec=msgspec.structs.replace(
            made.spec,
            containers=(Container(name="main", resources=asked), *made.spec.containers[1:]),
            overhead={"koordinator.sh/batch-cpu": "10"},
        ),
    )
    found: Pod = transformed(POD, made)
    assert [each.resources.requests for each in found.spec.containers] == [
        {"kubernetes.io/batch-cpu": "500"},
        {"kubernetes.io/batch-memory": "1Gi"},
    ]
    assert found.spec.containers[0].resources.limits == {"cpu": "1", "koordinator.sh/gpu-core": "50"}
    assert found.spec.init_containers[0].resources.requests == {"koordinator.sh/rdma": 1}
    assert found.spec.overhead == {"kubernetes.io/batch-cpu": "10"}
    assert made.spec.containers[0].resources.requests == {"koordinator.sh/batch-cpu": "500"}, "the object of the watch is left as it was"


@pytest.mark.parametrize("name", ["rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio"])
def test_every_device_resource_has_its_new_name(name: str) -> None:
    assert requests(of_pod(pod().request(f"kubernetes.io/{name}", 1))) == {f"koordinator.sh/{name}": 1}


def test_a_name_that_is_there_already_is_not_overwritten() -> None:
    asked = pod().request("koordinator.sh/batch-cpu", "1").request("kubernetes.io/batch-cpu", "2")
    assert requests(of_pod(asked)) == {"koordinator.sh/batch-cpu": "1", "kubernetes.io/batch-cpu": "2"}


def test_allocated_devices_are_renamed_in_their_annotation() -> None:
    allocated = {"gpu": [{"minor": 0, "resources": {"kubernetes.io/gpu-core": "100", "koordinator.sh/gpu-memory": "1Gi"}, "id": "x"}]}
    found = of_pod(pod().annotation(DEVICE_ALLOCATED, msgspec.json.encode(allocated).decode()))
    assert msgspec.json.decode(found.metadata.annotations[DEVICE_ALLOCATED]) == {
        "gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-memory": "1Gi", "koordinator.sh/gpu-core": "100"}, "id": "x"}]
    }


@pytest.mark.parametrize("text", ['{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}', "", "{", "null"])
def test_an_annotation_about_devices_that_names_none_by_an_older_name_stays_as_it_is(text: str) -> None:
    made = pod().annotation(DEVICE_ALLOCATED, text).build()
    assert transformed(POD, made) is made


@pytest.mark.parametrize(
    "text", ['["kubernetes.io/gpu"]', '{"gpu":["kubernetes.io/gpu"]}', '{"kubernetes.io/', '{"gpu":"kubernetes.io/gpu"}']
)
def test_an_unreadable_annotation_about_devices_is_reported_and_stays(text: str) -> None:
    made, reports = pod("p").annotation(DEVICE_ALLOCATED, text).build(), Reports()
    assert transformed(POD, made, "", reports) is made
    (line,) = reports.lines
    assert line.startswith(f"p: {DEVICE_ALLOCATED}: expected lists of devices by type (")


# Replaced resources


REPLACES = "ReplaceResourcesTransformer=true"


def replaced(text: str, **amounts: Any) -> dict[str, Any]:
    builder = pod().annotation(REPLACE_RESOURCES, text)
    for name, amount in amounts.items():
        builder = builder.request(name, amount)
    return requests(of_pod(builder, REPLACES))


def test_resources_are_replaced_and_dropped_as_the_annotation_says() -> None:
    assert replaced("a:b, c : d ,e:", a="1", c="2", e="3", f="4") == {"b": "1", "d": "2", "f": "4"}


def test_cpu_becomes_a_number_of_milli_cpus() -> None:
    assert replaced("cpu:x/y", cpu="4") == {"x/y": 4000}
    assert replaced("cpu:x/y", cpu="1500m") == {"x/y": 1500}
    assert replaced("cpu:x/y", cpu="no") == {"x/y": "no"}, "who reads it says what is wrong"


def test_items_without_exactly_one_colon_say_nothing() -> None:
    assert replaced("a,b:c:d,:,a:z", a="1", b="2") == {"z": "1", "b": "2"}


def test_what_is_dropped_is_dropped_first_and_the_rest_renamed_in_the_order_written() -> None:
    assert replaced("a:b,b:c", a="1") == {"c": "1"}
    assert replaced("b:c,a:b", a="1", b="2") == {"c": "2", "b": "1"}
    assert replaced("a:b,b:", a="1", b="2") == {"b": "1"}


def test_nothing_is_replaced_without_the_gate() -> None:
    made = pod().annotation(REPLACE_RESOURCES, "cpu:x/y").cpu("4").build()
    assert transformed(POD, made) is made


def test_replacing_comes_after_renaming() -> None:
    builder = pod().annotation(REPLACE_RESOURCES, "kubernetes.io/batch-cpu:x").request("koordinator.sh/batch-cpu", "7")
    assert requests(of_pod(builder, REPLACES)) == {"x": "7"}


# Priority and preemption policy


@pytest.mark.parametrize(
    ("builder", "expected"),
    [
        (pod().priority(7), 7),
        (pod().priority(-1), -1),
        (pod().priority(0).label("koordinator.sh/priority-class", "koord-mid"), 7500),
        (pod().label("koordinator.sh/priority-class", "koord-batch"), 5500),
        (pod().label("koordinator.sh/priority-class", "koord-free"), 3500),
        (pod().label("koordinator.sh/qosClass", "LS"), 9500),
        (pod(), 5500),  # BestEffort, so BE, so batch
        (pod().cpu("1"), 9500),  # Burstable, so LS, so prod
        (pod().label("koordinator.sh/priority-class", "koord-none").label("koordinator.sh/qosClass", "LSR"), 9500),
    ],
)
def test_a_pod_without_a_priority_gets_the_one_of_its_class(builder: PodBuilder, expected: int) -> None:
    assert of_pod(builder, "PriorityTransformer=true").spec.priority == expected
    assert of_pod(builder).spec.priority == builder.build().spec.priority


def test_a_pod_whose_class_cannot_be_found_out_has_priority_0_and_is_reported() -> None:
    reports = Reports()
    found = transformed(POD, pod("p").cpu("much").build(), "PriorityTransformer=true", reports)
    assert found.spec.priority == 0
    (line,) = reports.lines
    assert "its priority class cannot be found out" in line
    assert '"much"' in line


@pytest.mark.parametrize(
    ("label", "expected"), [("Never", "Never"), ("PreemptLowerPriority", "PreemptLowerPriority"), ("Always", "Never"), (None, "Never")]
)
def test_the_preemption_policy_is_the_labels_else_never(label: str | None, expected: str) -> None:
    builder = pod() if label is None else pod().label(PREEMPTION_POLICY, label)
    assert of_pod(builder, "PreemptionPolicyTransformer=true").spec.preemption_policy == expected
    assert of_pod(builder).spec.preemption_policy is None


# Scheduler name


def test_the_label_names_the_scheduler_and_the_name_in_the_spec_is_kept() -> None:
    found = of_pod(pod().label(SCHEDULER_NAME, "other"))
    assert found.spec.scheduler_name == "other"
    assert found.metadata.annotations == {ORIGINAL_SCHEDULER_NAME: "default-scheduler"}


def test_even_an_empty_label_names_a_scheduler() -> None:
    assert of_pod(pod().label(SCHEDULER_NAME, "")).spec.scheduler_name == ""


def test_a_label_with_the_same_name_changes_nothing() -> None:
    made = pod().label(SCHEDULER_NAME, "default-scheduler").build()
    assert transformed(POD, made) is made


# Nodes


def of_node(builder: NodeBuilder, reservation: str | None = None, reports: Reports | None = None) -> Node:
    made = builder.build()
    if reservation is not None:
        made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations={RESERVATION: reservation}))
    found: Node = transformed(NODE, made, "", reports)
    return found


NODE16 = node("n").cpu("16").memory("32Gi")


@pytest.mark.parametrize(
    ("reservation", "cpu", "memory"),
    [
        ('{"resources":{"cpu":"1500m"}}', "14500m", "32Gi"),
        ('{"resources":{"cpu":"1500m"},"applyPolicy":"Default"}', "14500m", "32Gi"),
        ('{"resources":{"cpu":"1500m"},"applyPolicy":"ReservedCPUsOnly"}', "16", "32Gi"),
        ('{"reservedCPUs":"0-1,8","resources":{"cpu":"1"}}', "13", "32Gi"),
        ('{"reservedCPUs":"0-1","resources":{"memory":"1Gi"}}', "14", "31Gi"),
        ('{"resources":{"cpu":"17","memory":"2Gi"}}', "0", "30Gi"),
        ('{"resources":{"cpu":"0"}}', "16", "32Gi"),
        ("{}", "16", "32Gi"),
        ("null", "16", "32Gi"),
        ("", "16", "32Gi"),
    ],
)
def test_what_a_node_reserves_is_taken_off_its_allocatable(reservation: str, cpu: str, memory: str) -> None:
    reports = Reports()
    found = of_node(NODE16, reservation, reports)
    assert (found.status.allocatable["cpu"], found.status.allocatable["memory"]) == (cpu, memory)
    assert found.status.allocatable["pods"] == "110"
    assert reports.lines == []


@pytest.mark.parametrize(
    ("reservation", "problem"),
    [
        ("{", "Input data was truncated"),
        ('{"reservedCPUs":"3-1"}', "reservedCPUs: '3-1' is not an ascending range of CPUs up to 4096"),
        ('{"reservedCPUs":"0-1,x"}', "reservedCPUs: 'x' is not a CPU or a range of CPUs"),
        ('{"resources":{"cpu":"much"}}', 'resources[cpu]: "much" is not a quantity'),
        ('{"resources":{"cpu":"-1"}}', "resources[cpu]: '-1' is less than 0"),
        ('{"resources":{"cpu":"1"},"applyPolicy":"Trim"}', "applyPolicy: expected Default or ReservedCPUsOnly"),
        ('{"resources":[]}', "$.resources"),
    ],
)
def test_a_reservation_that_cannot_be_read_takes_nothing_off_and_is_reported(reservation: str, problem: str) -> None:
    reports = Reports()
    assert of_node(NODE16, reservation, reports).status.allocatable["cpu"] == "16"
    (line,) = reports.lines
    assert line.startswith(f"n: nothing is taken off its allocatable: {RESERVATION}: ")
    assert problem in line
    assert msgspec.json.encode(reservation).decode() in line


def test_batch_amounts_are_renamed_before_the_reservation_is_taken_off_and_stay() -> None:
    builder = NODE16.allocatable("koordinator.sh/batch-cpu", "8000").allocatable("kubernetes.io/gpu-core", "100")
    found = of_node(builder, '{"resources":{"cpu":"2","kubernetes.io/batch-cpu":"10","kubernetes.io/gpu-core":"40"}}')
    assert found.status.allocatable == {
        "pods": "110",
        "cpu": "14",
        "memory": "32Gi",
        "kubernetes.io/batch-cpu": "8000",
        "koordinator.sh/gpu-core": "60",
    }


def test_capacity_is_renamed_too_and_nothing_is_taken_off_it() -> None:
    made = NODE16.build()
    made = msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, annotations={RESERVATION: '{"resources":{"cpu":"1"}}'}),
        status=msgspec.structs.replace(made.status, capacity={"cpu": "16", "koordinator.sh/batch-memory": "1Gi"}),
    )
    assert transformed(NODE, made).status.capacity == {"cpu": "16", "kubernetes.io/batch-memory": "1Gi"}


def test_a_reserved_resource_that_the_node_does_not_offer_is_0() -> None:
    assert of_node(NODE16, '{"resources":{"x/y":"1"}}').status.allocatable["x/y"] == "0"


def test_an_unreadable_amount_of_the_node_itself_stays_for_whoever_takes_in_the_node() -> None:
    assert of_node(node("n").cpu("lots").memory("2Gi"), '{"resources":{"cpu":"1","memory":"1Gi"}}').status.allocatable == {
        "pods": "110",
        "cpu": "lots",
        "memory": "1Gi",
    }


# Devices and quotas


def test_devices_and_quotas_are_renamed() -> None:
    device = msgspec.convert({"spec": {"devices": [{"resources": {"kubernetes.io/gpu-core": 100}}, {"type": "rdma"}]}}, Device)
    assert [info.resources for info in transformed(DEVICE, device).spec.devices] == [{"koordinator.sh/gpu-core": 100}, {}]
    quota = msgspec.convert({"spec": {"min": {"koordinator.sh/batch-cpu": 1}, "max": {"cpu": 2}}}, ElasticQuota)
    spec = transformed(ELASTIC_QUOTA, quota).spec
    assert (spec.min, spec.max) == ({"kubernetes.io/batch-cpu": 1}, {"cpu": 2})


def test_devices_and_quotas_without_older_names_pass_as_they_are() -> None:
    device = msgspec.convert({"spec": {"devices": [{"type": "gpu", "resources": {"koordinator.sh/gpu-core": 100}}]}}, Device)
    assert transformed(DEVICE, device) is device
    quota = msgspec.convert({"spec": {"min": {"cpu": 1}}}, ElasticQuota)
    assert transformed(ELASTIC_QUOTA, quota) is quota
