"""Pods by class equal their plain-Python twin: a list of pods on each row, and a selector that looks at each label."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.builders import requirement

from koordsched._core.pod_classes import PodClasses
from koordsched.api.selectors.labels import LabelSelectorMatcher, matcher_of
from koordsched.cache.pod_counts import PodQuery, _requirements

ROWS = 5
KEYS, VALUES = ["app", "tier", "index"], ["a", "b", "c"]
Facts = tuple[str, dict[str, str], bool]
facts = st.tuples(st.sampled_from(["default", "other"]), st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)), st.booleans())
some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
requirements: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from([*KEYS, "unknown"]), st.sampled_from(["In", "NotIn"]), some_values),
    st.tuples(st.sampled_from([*KEYS, "unknown"]), st.sampled_from(["Exists", "DoesNotExist"]), st.just(list[str]())),
)
selectors = st.lists(requirements, max_size=4).map(lambda each: matcher_of([requirement(key, how, *of) for key, how, of in each]))
namespaces = st.none() | st.frozensets(st.sampled_from(["default", "other", "third"]))
queries = st.builds(PodQuery, namespaces, selectors, terminating=st.booleans())


def matches(query: PodQuery, pod: Facts) -> bool:
    namespace, labels, terminating = pod
    return (query.terminating or not terminating) and query.matches(namespace, labels)


class ClassesEqualTheirTwin(RuleBasedStateMachine):
    """Pods come and go on rows."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = PodClasses()
        self.pods: list[tuple[int, Facts]] = []

    @rule(row=st.integers(0, ROWS - 1), pod=facts)
    def add(self, row: int, pod: Facts) -> None:
        known = self.classes.add(row, *pod)
        self.pods.append((row, pod))
        assert known is self.classes.find(*pod)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        row, (namespace, labels, terminating) = self.pods.pop(data.draw(st.integers(0, len(self.pods) - 1)))
        reordered = dict(reversed(labels.items()))
        known = self.classes.remove(row, namespace, reordered, terminating)
        assert known.pods == sum(pod == (namespace, labels, terminating) for _, pod in self.pods)

    @rule(row=st.integers(0, ROWS), pod=facts)
    def refuse_what_is_not_there(self, row: int, pod: Facts) -> None:
        if (row, pod) not in self.pods:
            with pytest.raises(LookupError):
                self.classes.remove(row, *pod)

    @rule(query=queries)
    def count(self, query: PodQuery) -> None:
        counted = self.classes.count(_requirements(query), ROWS + 2).tolist()
        assert counted == [sum(matches(query, pod) for row, pod in self.pods if row == number) for number in range(ROWS + 2)]

    @invariant()
    def each_row_has_its_pods(self) -> None:
        distinct = {(namespace, frozenset(labels.items()), terminating) for _, (namespace, labels, terminating) in self.pods}
        assert len(self.classes) == len(distinct)
        for number in range(ROWS):
            wanted = [pod for row, pod in self.pods if row == number]
            assert sorted(map(repr_of, self.classes.on_row(number))) == sorted(map(repr_of, wanted))
            for pod, amount in Counter(map(repr_of, wanted)).items():
                known = self.classes.find(*next(each for each in wanted if repr_of(each) == pod))
                assert known is not None
                assert self.classes.of_class(number, known) == amount


def repr_of(pod: Facts) -> str:
    namespace, labels, terminating = pod
    return repr((namespace, sorted(labels.items()), terminating))


ClassesEqualTheirTwin.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestClassesEqualTheirTwin = ClassesEqualTheirTwin.TestCase


@given(st.lists(facts, max_size=8), st.integers(60, 140), st.integers(0, 200))
def test_any_number_of_requirements_is_asked(pods: list[Facts], many: int, which: int) -> None:
    """More than one mask has bits: those that hold for every pod, and one that does not."""
    classes = PodClasses()
    for pod in pods:
        classes.add(0, *pod)
    held = [requirement(f"none-{i}", "DoesNotExist") for i in range(many)]
    held.insert(which % many, requirement("app", "In", "a", "b"))
    query = PodQuery(None, LabelSelectorMatcher((), tuple(held)))
    assert classes.count(_requirements(query), 1).tolist() == [sum(matches(query, pod) for pod in pods)]
