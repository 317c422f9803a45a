"""QoS and priority classes of pods (nodenumaresource.md §4)."""

import pytest
from support.builders import pod

from koordsched.api.koordinator.priority import PRIORITY_CLASS, PriorityClass, priority_class
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
        (9999, PriorityClass.PROD),
        (9000, PriorityClass.PROD),
        (7500, PriorityClass.MID),
        (5000, PriorityClass.BATCH),
        (3999, PriorityClass.FREE),
        (8000, PriorityClass.NONE),
        (10_000, PriorityClass.NONE),
        (0, PriorityClass.NONE),
    ],
)
def test_the_band_of_the_priority_names_the_class(priority: int, expected: PriorityClass) -> None:
    assert priority_class(pod().priority(priority).build(), QosClass.NONE) is expected


def test_the_label_beats_the_priority_even_if_it_names_no_class() -> None:
    assert priority_class(pod().priority(9500).label(PRIORITY_CLASS, "koord-batch").build(), QosClass.NONE) is PriorityClass.BATCH
    assert priority_class(pod().priority(9500).label(PRIORITY_CLASS, "koord-foo").build(), QosClass.NONE) is PriorityClass.NONE


@pytest.mark.parametrize(
    ("qos", "expected"),
    [
        (QosClass.LSE, PriorityClass.PROD),
        (QosClass.LSR, PriorityClass.PROD),
        (QosClass.LS, PriorityClass.PROD),
        (QosClass.SYSTEM, PriorityClass.PROD),
        (QosClass.BE, PriorityClass.BATCH),
        (QosClass.NONE, PriorityClass.NONE),
    ],
)
def test_a_pod_without_a_class_has_that_of_its_qos(qos: QosClass, expected: PriorityClass) -> None:
    assert priority_class(pod().build(), qos) is expected
    assert priority_class(pod().label(PRIORITY_CLASS, "koord-foo").build(), qos) is expected
