"""Pods by class: what is kept of classes that have ended. That pods are counted right is tests/property/test_pod_classes.py."""

from __future__ import annotations

import pytest

from koordsched._core.pod_classes import PodClasses


def test_a_class_ends_with_its_last_pod_and_its_facts_with_the_last_class_that_has_them() -> None:
    classes = PodClasses()
    first = classes.add(0, "default", {"app": "web", "index": "0"}, False)
    second = classes.add(3, "default", {"app": "web", "index": "1"}, False)
    first.seen, first.matching = 7, ("query",)
    assert (classes.remove(0, "default", {"index": "0", "app": "web"}, False), len(classes)) == (first, 1)
    assert classes.find("default", {"app": "web", "index": "0"}, False) is None
    assert classes.count([("index", None, False)], 4).tolist() == [0, 0, 0, 1]
    again = classes.add(1, "default", {"app": "web", "index": "0"}, False)
    assert again is not first
    assert (again.seen, again.matching, again.pods, second.pods) == (0, (), 1, 1)
    for row, index in ((1, "0"), (3, "1")):
        classes.remove(row, "default", {"app": "web", "index": index}, False)
    assert len(classes) == 0
    assert classes.count([], 4).tolist() == [0, 0, 0, 0]


def test_numbers_of_facts_and_classes_are_given_again() -> None:
    """However many pods with a name of their own come and go, in whatever order."""
    classes = PodClasses()
    for turn in range(200):
        for index in range(3):
            classes.add(index, "default", {"pod-name": f"{turn}-{index}"}, False)
        for index in (1, 0, 2):
            classes.remove(index, "default", {"pod-name": f"{turn}-{index}"}, False)
    assert classes.largest_numbers() == (3 + 1, 3)  # names and the namespace; classes


def test_a_row_that_cannot_be_changes_nothing() -> None:
    classes = PodClasses()
    with pytest.raises(IndexError, match="row -1"):
        classes.add(-1, "default", {"app": "web"}, False)
    with pytest.raises(LookupError, match=r"row 9 has no pod of namespace default with labels \{'app': 'web'\}"):
        classes.remove(9, "default", {"app": "web"}, False)
    assert (len(classes), classes.on_row(-1), classes.on_row(9)) == (0, [], [])


def test_pods_with_many_labels_are_told_apart_by_any_of_them() -> None:
    classes = PodClasses()
    labels = {f"label-{i}": "x" for i in range(300)}
    classes.add(0, "default", labels, False)
    classes.add(0, "default", {**labels, "label-299": "y"}, False)
    classes.add(0, "default", labels, True)
    assert len(classes) == 3
    assert classes.count([("label-299", ("x",), False)], 1).tolist() == [2]
