"""What an API server's admission demands or adds, and how scenarios make up for it."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.api.kinds import NAMESPACE, NODE, POD
from koordsched.scenario.live.admission import KOORDINATOR_CLASSES, corrections, needs, with_needs

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
OWN = {"key": "own", "value": "x", "effect": "NoExecute"}


def test_koordinators_classes_are_the_four_that_always_exist() -> None:
    assert KOORDINATOR_CLASSES == {"koord-prod": 9000, "koord-mid": 7000, "koord-batch": 5000, "koord-free": 3000}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"preemptionPolicy": "PreemptLowerPriority"}, None),
        ({"priorityClassName": "koord-prod", "priority": 9000}, None),
        ({"priority": "high"}, None),
        ({"priority": 10}, ("scenario-10", 10, "PreemptLowerPriority")),
        ({"priority": 0}, ("scenario-0", 0, "PreemptLowerPriority")),
        ({"priority": -5}, ("scenario-minus-5", -5, "PreemptLowerPriority")),
        ({"priority": 100, "preemptionPolicy": "Never"}, ("scenario-100-never", 100, "Never")),
        ({"preemptionPolicy": "Never"}, ("scenario-0-never", 0, "Never")),
        ({"priority": 2_000_000_000}, ("system-cluster-critical", 2_000_000_000, "PreemptLowerPriority")),
    ],
)
def test_a_pod_that_states_its_priority_needs_a_class_of_that_number(spec: dict[str, Any], expected: tuple[str, int, str] | None) -> None:
    found = [need.manifest for need in needs({"metadata": {"name": "a"}, "spec": spec})]
    if expected is None:
        assert found == []
    else:
        name, value, policy = expected
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        assert found == [{**kind, "metadata": {"name": name}, "value": value, "preemptionPolicy": policy}]


def test_a_pod_that_states_its_overhead_needs_a_class_of_that_overhead() -> None:
    (need,) = needs({"metadata": {"name": "a"}, "spec": {"overhead": {"cpu": "250m"}}})
    assert (need.manifest["kind"], need.manifest["handler"]) == ("RuntimeClass", "scenario")
    assert need.manifest["overhead"] == {"podFixed": {"cpu": "250m"}}
    (other,) = needs({"spec": {"overhead": {"cpu": "251m"}}})
    assert other.name != need.name
    assert list(needs({"spec": {"overhead": {"cpu": "250m"}, "runtimeClassName": "kata"}})) == []


def test_the_pod_then_names_its_classes() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"priority": 7, "overhead": {"cpu": 1}}}
    found = list(needs(pod))
    assert with_needs(pod, found) == {
        "metadata": {"name": "a"},
        "spec": {"priority": 7, "overhead": {"cpu": 1}, "priorityClassName": "scenario-7", "runtimeClassName": found[1].name},
    }
    assert with_needs({"metadata": {}}, []) == {"metadata": {}, "spec": {}}


def test_what_was_added_to_an_object_is_taken_back() -> None:
    node = {"metadata": {"name": "n"}, "spec": {"taints": [OWN]}}
    assert corrections(NODE, node, {"metadata": {"name": "n"}, "spec": {"taints": [OWN, NOT_READY]}}) == {"spec": {"taints": [OWN]}}
    assert corrections(NODE, {"metadata": {}}, {"metadata": {}, "spec": {"taints": [NOT_READY]}}) == {"spec": {"taints": None}}
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    added = {"metadata": {"finalizers": ["example.com/hold", "kubernetes.io/pvc-protection"]}}
    assert corrections(POD, held, added) == {"metadata": {"finalizers": ["example.com/hold"]}}
    assert corrections(POD, {"metadata": {}}, added) == {"metadata": {"finalizers": None}}


def test_nothing_is_taken_back_of_what_is_as_it_was_said() -> None:
    node = {"metadata": {"name": "n", "finalizers": ["a"]}, "spec": {"taints": [OWN]}}
    assert corrections(NODE, node, {**node, "status": {"phase": "x"}}) == {}
    assert corrections(NAMESPACE, {"metadata": {}}, {"metadata": {"finalizers": ["x"]}}) == {}
