"""Grouping and explaining why pods are pending."""

from __future__ import annotations

from koordsched.simulate.result import Pending
from koordsched.simulate.summary import group, meaning, reasons_of

FIT = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are available: 3 x."


def test_a_failure_text_is_taken_apart_into_reasons_without_counts() -> None:
    assert reasons_of(FIT) == ("Insufficient cpu", "node(s) had untolerated taint {a: b}")


def test_a_failure_text_of_the_prefilter_is_one_reason() -> None:
    text = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not eligible due to preemptionPolicy=Never."
    assert reasons_of(text) == ("pod has unbound immediate PersistentVolumeClaims",)


def test_any_other_text_is_its_own_reason() -> None:
    assert reasons_of("no nodes available to schedule pods") == ("no nodes available to schedule pods",)


def test_rejected_and_preempted_pods_are_one_group_each() -> None:
    assert reasons_of('rejected: spec.x: Invalid value: "y"') == ("rejected",)
    assert reasons_of("preempted: by a pod on node n1") == ("preempted",)


def test_groups_come_largest_first_with_their_first_pod() -> None:
    pods = [("a", "one"), ("b", "two"), ("c", "0/9 nodes are available: 9 two."), ("d", "0/8 nodes are available: 8 two.")]
    groups = group([Pending(pod=pod, reason=reason) for pod, reason in pods])
    assert [(found.reasons, found.count, found.example) for found in groups] == [(("two",), 3, "b"), (("one",), 1, "a")]


def test_what_a_reason_means_is_explained() -> None:
    assert meaning("Insufficient nvidia.com/gpu") == "these nodes have less free nvidia.com/gpu than the pod requests"
    assert meaning("node(s) had untolerated taint(s)") == "these nodes have a taint that the pod does not tolerate"
    assert meaning("Insufficient amplified cpu") == "a pod's own CPUs count as often as these nodes are amplified, and that is too much"
    assert meaning("Insufficient NUMA cpu") == "no choice of NUMA nodes there has enough cpu"
    assert not meaning("something that a plugin of yours says")
