"""Pods by class: what is kept of classes that have ended. That pods are counted right is tests/property/test_pod_classes.py."""

from __future__ import annotations

import pytest

from koordsched._core.pod_classes import PodClasses

MANY = 300  # more than are kept without pods


def pass_by(classes: PodClasses, pods: int, turn: int = 0) -> None:
    """Add and remove so many pods, each with a name of its own."""
    for index in range(pods):
        classes.add(index % 3, "default", {"pod-name": f"{turn}-{index}"}, False)
    for index in reversed(range(pods)):
        classes.remove(index % 3, "default", {"pod-name": f"{turn}-{index}"}, False)


def test_a_class_whose_last_pod_comes_back_at_once_is_the_same() -> None:
    classes = PodClasses()
    known = classes.add(0, "default", {"app": "web"}, False)
    known.seen, known.matching = 7, ("query",)
    assert (classes.remove(0, "default", {"app": "web"}, False), len(classes), known.pods) == (known, 0, 0)
    assert (classes.add(1, "default", {"app": "web"}, False), len(classes), known.pods) == (known, 1, 1)
    assert (known.seen, known.matching) == (7, ("query",))
    pass_by(classes, MANY)  # it has pods again: that it had none is forgotten
    assert classes.find("default", {"app": "web"}, False) is known
    assert classes.count([("app", ("web",), False)], 3).tolist() == [0, 1, 0]


def test_a_class_ends_when_many_others_have_lost_their_pods() -> None:
    classes = PodClasses()
    first = classes.add(0, "default", {"app": "web", "index": "0"}, True)
    other = classes.add(3, "default", {"app": "web", "index": "1"}, False)
    first.seen, first.matching = 7, ("query",)
    classes.remove(0, "default", {"index": "0", "app": "web"}, True)
    pass_by(classes, MANY)
    assert classes.find("default", {"app": "web", "index": "0"}, True) is None
    assert classes.count([("index", None, False)], 4).tolist() == [0, 0, 0, 1]
    again = classes.add(1, "default", {"app": "web", "index": "0"}, True)
    assert (again.seen, again.matching, again.pods, other.pods, first.pods) == (0, (), 1, 1, 0)
    assert classes.count([("app", ("web",), False), ("terminating-or-not", None, True)], 4).tolist() == [0, 1, 0, 1]


def test_numbers_of_facts_and_classes_are_given_again() -> None:
    """However many pods with a name of their own come and go."""
    classes = PodClasses()
    for turn in range(1_000):
        pass_by(classes, 3, turn)
    assert max(classes.largest_numbers()) < MANY


def test_a_row_that_cannot_be_changes_nothing() -> None:
    classes = PodClasses()
    with pytest.raises(IndexError, match="row -1"):
        classes.add(-1, "default", {"app": "web"}, False)
    with pytest.raises(LookupError, match=r"row 9 has no pod of namespace default with labels \{'app': 'web'\}"):
        classes.remove(9, "default", {"app": "web"}, False)
    assert (len(classes), classes.on_row(-1), classes.on_row(9)) == (0, [], [])


def test_pods_with_many_labels_are_distinguished_by_any_of_them() -> None:
    classes = PodClasses()
    labels = {f"label-{i}": "x" for i in range(300)}
    classes.add(0, "default", labels, False)
    classes.add(0, "default", {**labels, "label-299": "y"}, False)
    classes.add(0, "default", labels, True)
    assert len(classes) == 3
    assert classes.count([("label-299", ("x",), False)], 1).tolist() == [2]
