"""QoS and priority classes of pods (nodenumaresource.md §4, frameworkext.md §7)."""

import pytest
from msgspec.structs import replace
from support.builders import pod

from koordsched.api.core import Container, ResourceList, ResourceRequirements
from koordsched.api.koordinator.priority import (
    CLASS_VALUES,
    PRIORITY_CLASS,
    SUB_PRIORITY,
    KoordinatorPriorityClass,
    priority_class,
    priority_class_or_default,
    resource_of_class,
    stated_priority_class,
    sub_priority,
)
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass, qos_class, qos_class_or_default
from koordsched.api.koordinator.reading import Malformed


@pytest.mark.parametrize(
    ("label", "expected"),
    [("LSE", QosClass.LSE), ("LSR", QosClass.LSR), ("SYSTEM", QosClass.SYSTEM), ("lsr", QosClass.NONE), ("", QosClass.NONE)],
)
def test_only_the_exact_names_of_qos_classes_count(label: str, expected: QosClass) -> None:
    assert qos_class({QOS_CLASS: label}) is expected


def test_a_pod_without_the_label_has_no_qos_class() -> None:
    assert qos_class({}) is QosClass.NONE


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        (9999, KoordinatorPriorityClass.PROD),
        (9000, KoordinatorPriorityClass.PROD),
        (7500, KoordinatorPriorityClass.MID),
        (5000, KoordinatorPriorityClass.BATCH),
        (3999, KoordinatorPriorityClass.FREE),
        (8000, KoordinatorPriorityClass.NONE),
        (10_000, KoordinatorPriorityClass.NONE),
        (0, KoordinatorPriorityClass.NONE),
    ],
)
def test_the_band_of_the_priority_names_the_class(priority: int, expected: KoordinatorPriorityClass) -> None:
    assert priority_class(pod().priority(priority).build(), QosClass.NONE) is expected


def test_the_label_beats_the_priority_even_if_it_names_no_class() -> None:
    assert (
        priority_class(pod().priority(9500).label(PRIORITY_CLASS, "koord-batch").build(), QosClass.NONE) is KoordinatorPriorityClass.BATCH
    )
    assert priority_class(pod().priority(9500).label(PRIORITY_CLASS, "koord-foo").build(), QosClass.NONE) is KoordinatorPriorityClass.NONE


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        (QosClass.LSE, KoordinatorPriorityClass.PROD),
        (QosClass.LSR, KoordinatorPriorityClass.PROD),
        (QosClass.LS, KoordinatorPriorityClass.PROD),
        (QosClass.SYSTEM, KoordinatorPriorityClass.PROD),
        (QosClass.BE, KoordinatorPriorityClass.BATCH),
        (QosClass.NONE, KoordinatorPriorityClass.NONE),
    ],
)
def test_a_pod_without_a_class_has_that_of_its_qos(qos: QosClass, expected: KoordinatorPriorityClass) -> None:
    assert priority_class(pod().build(), qos) is expected
    assert priority_class(pod().label(PRIORITY_CLASS, "koord-foo").build(), qos) is expected


@pytest.mark.parametrize(
    ("priority", "cpu", "memory", "other"),
    [
        (KoordinatorPriorityClass.PROD, "cpu", "memory", "x.com/gpu"),
        (KoordinatorPriorityClass.NONE, "cpu", "memory", "x.com/gpu"),
        (KoordinatorPriorityClass.MID, "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory", ""),
        (KoordinatorPriorityClass.BATCH, "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", ""),
        (KoordinatorPriorityClass.FREE, "", "", ""),
    ],
)
def test_pods_of_a_class_request_its_resources(priority: KoordinatorPriorityClass, cpu: str, memory: str, other: str) -> None:
    assert [resource_of_class(priority, name) for name in ("cpu", "memory", "x.com/gpu")] == [cpu, memory, other]


def test_the_value_of_a_priority_class_is_in_its_own_band() -> None:
    assert {band: stated_priority_class(pod().priority(value).build()) for band, value in CLASS_VALUES.items()} == {
        band: band for band in KoordinatorPriorityClass if band
    }


def test_what_a_pod_states_comes_before_its_qos_class() -> None:
    assert priority_class_or_default(pod().priority(7500).label(QOS_CLASS, "BE").build()) is KoordinatorPriorityClass.MID
    assert priority_class_or_default(pod().label(QOS_CLASS, "BE").cpu("1").build()) is KoordinatorPriorityClass.BATCH
    assert priority_class_or_default(pod().cpu("1").build()) is KoordinatorPriorityClass.PROD
    assert priority_class_or_default(pod().build()) is KoordinatorPriorityClass.BATCH


GUARANTEED: ResourceList = {"cpu": "1", "memory": "1Gi"}


def with_limits(requests: ResourceList, limits: ResourceList) -> Container:
    return Container(resources=ResourceRequirements(requests=requests, limits=limits))


@pytest.mark.parametrize(
    ("containers", "init_containers", "expected"),
    [
        ((with_limits(GUARANTEED, {"cpu": "1000m", "memory": "1Gi"}),), (), QosClass.LSR),
        ((with_limits(GUARANTEED, GUARANTEED), with_limits(GUARANTEED, GUARANTEED)), (), QosClass.LSR),
        ((with_limits(GUARANTEED, GUARANTEED), with_limits({}, {})), (), QosClass.LS),
        ((with_limits(GUARANTEED, GUARANTEED),), (with_limits({"cpu": "1"}, {}),), QosClass.LS),
        ((with_limits(GUARANTEED, {"cpu": "2", "memory": "1Gi"}),), (), QosClass.LS),
        ((with_limits({"cpu": "1"}, {"cpu": "1"}),), (), QosClass.LS),
        ((with_limits({}, {"memory": "1Gi"}),), (), QosClass.LS),
        ((with_limits({}, {}),), (), QosClass.BE),
        ((with_limits({"cpu": "0"}, {"memory": 0}),), (), QosClass.BE),
        ((with_limits({"kubernetes.io/batch-cpu": "1"}, {"kubernetes.io/batch-cpu": "1"}),), (), QosClass.BE),
    ],
)
def test_without_the_label_the_kubernetes_qos_decides(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], expected: QosClass
) -> None:
    made = pod().build()
    made = replace(made, spec=replace(made.spec, containers=containers, init_containers=init_containers))
    assert qos_class_or_default(made) is expected
    foreign = replace(made, metadata=replace(made.metadata, labels={QOS_CLASS: "foo"}))
    assert qos_class_or_default(foreign) is expected
    labelled = replace(made, metadata=replace(made.metadata, labels={QOS_CLASS: "SYSTEM"}))
    assert qos_class_or_default(labelled) is QosClass.SYSTEM


def test_resources_of_the_whole_pod_decide_alone() -> None:
    made = pod().build()
    spec = replace(made.spec, containers=(with_limits({}, {}),), resources=ResourceRequirements(requests=GUARANTEED, limits=GUARANTEED))
    assert qos_class_or_default(replace(made, spec=spec)) is QosClass.LSR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("5", 5),
        ("-7", -7),
        ("+7", 7),
        ("0x1F", 31),
        ("017", 15),
        ("0o17", 15),
        ("0b11", 3),
        ("1_000", 1000),
        ("2147483647", 2**31 - 1),
    ],
)
def test_a_sub_priority_may_name_its_base(text: str, expected: int) -> None:
    assert sub_priority({SUB_PRIORITY: text} if text else {}) == expected


@pytest.mark.parametrize("text", ["much", "1.5", " 1", "08", "2147483648", "-2147483649", "0x", "\u0661"])
def test_a_sub_priority_that_is_none_is_reported_with_key_and_value(text: str) -> None:
    with pytest.raises(Malformed) as refused:
        sub_priority({SUB_PRIORITY: text})
    assert str(refused.value).startswith(f"{SUB_PRIORITY}: expected a whole number")
