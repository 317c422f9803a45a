"""QoS and priority classes of pods (nodenumaresource.md §4)."""

import pytest
from support.builders import pod

from koordsched.api.koordinator.priority import PRIORITY_CLASS, KoordinatorPriorityClass, priority_class
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass, qos_class


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
