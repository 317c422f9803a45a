"""Counts of pods equal counting from scratch, after any pod events and inside any simulation; simulations leave versions alone."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.builders import PodBuilder, node, pod, requirement

from koordsched._core.counts import RowCounts
from koordsched.api.selectors import EVERYTHING, NOTHING, map_matcher
from koordsched.api.selectors.labels import matcher_of
from koordsched.cache.cache import Cache
from koordsched.cache.pod_counts import PodQuery, pod_counts

NODES = [f"n{i}" for i in range(4)]
SELECTORS = [
    EVERYTHING,
    NOTHING,
    map_matcher({"app": "a"}),
    map_matcher({"app": "a", "tier": "x"}),
    matcher_of([requirement("app", "NotIn", "a")]),
    matcher_of([requirement("tier", "Exists")]),
]
NAMESPACES = [None, frozenset({"default"}), frozenset({"default", "other"}), frozenset[str]()]
QUERIES = [
    PodQuery(namespaces, selector, terminating=terminating)
    for namespaces in NAMESPACES
    for selector in SELECTORS
    for terminating in (True, False)
]
names = st.sampled_from(NODES)


@st.composite
def pods(draw: st.DrawFn, uid: str) -> PodBuilder:
    made = pod("p", draw(st.sampled_from(["default", "other", "third"]))).uid(uid)
    for key, values in (("app", ["a", "b", ""]), ("tier", ["x", ""])):
        value = draw(st.sampled_from(values))
        made = made.label(key, value) if value else made
    return made.deleted_at("2026-01-01T00:00:00Z") if draw(st.booleans()) else made


class CountsEqualRecounting(RuleBasedStateMachine):
    """Pods come, go and change while queries come and go."""

    @initialize()
    def begin(self) -> None:
        self.cache = Cache()
        for name in NODES:
            self.cache.set_node(node(name).build())
        self.pods: dict[str, tuple[PodBuilder, str]] = {}
        self.held: dict[PodQuery, RowCounts] = {}
        self.serial = 0

    @rule(data=st.data(), query=st.sampled_from(QUERIES), asked_before=st.booleans())
    def look_as_an_owner(self, data: st.DataObject, query: PodQuery, *, asked_before: bool) -> None:
        """Some pods belong to an owner, from whose view they are hidden; a query may begin in there."""
        owned = data.draw(st.lists(st.sampled_from(sorted(self.pods)), unique=True)) if self.pods else []
        self.cache.credits.grant("owner", *owned)
        view = self.cache.credits.of("owner")
        if view is not None:
            if asked_before:
                with view:
                    pass
            with view:
                self.ask(query)
                self._compare({uid: placed for uid, placed in self.pods.items() if uid not in owned})
        self.cache.credits.end("owner")

    @rule(query=st.sampled_from(QUERIES))
    def ask(self, query: PodQuery) -> None:
        self.held[query] = pod_counts(self.cache).count(query)

    @rule(query=st.sampled_from(QUERIES))
    def drop(self, query: PodQuery) -> None:
        self.held.pop(query, None)

    @rule(data=st.data(), name=names)
    def run_pod(self, data: st.DataObject, name: str) -> None:
        self.serial += 1
        uid = f"u{self.serial}"
        self.pods[uid] = (data.draw(pods(uid)), name)
        self.cache.assume_pod(self.pods[uid][0].info(), name)

    @rule(data=st.data())
    def change_pod(self, data: st.DataObject) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            self.pods[uid] = (data.draw(pods(uid)), self.pods[uid][1])
            self.cache.set_pod(self.pods[uid][0].info(), self.pods[uid][1])

    @rule(data=st.data())
    def end_pod(self, data: st.DataObject) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            del self.pods[uid]
            self.cache.remove_pod(uid)

    @rule(data=st.data(), name=names)
    def simulate(self, data: st.DataObject, name: str) -> None:
        target = self.cache.node(name)
        assert target is not None
        there = sorted(uid for uid, (_, place) in self.pods.items() if place == name)
        gone = data.draw(st.lists(st.sampled_from(there), unique=True)) if there else []
        come = data.draw(pods("simulated"))
        versions = {query: counts.version for query, counts in self.held.items()}
        with self.cache.simulate(target, add=[come.info()], remove=[target.pods[uid] for uid in gone]):
            kept = {uid: placed for uid, placed in self.pods.items() if uid not in gone}
            self._compare({**kept, "simulated": (come, name)})
        assert versions == {query: counts.version for query, counts in self.held.items()}

    @invariant()
    def equal_recounting(self) -> None:
        if hasattr(self, "cache"):
            self._compare(self.pods)
            assert len(pod_counts(self.cache)) == len(self.held)
            assert not list(pod_counts(self.cache).differences(NODES[0]))

    def _compare(self, running: dict[str, tuple[PodBuilder, str]]) -> None:
        for query, counts in self.held.items():
            wanted = Counter(name for made, name in running.values() if query.counts(made.info()))
            rows = {name: self.cache.nodes_by_name[name].row for name in NODES}
            assert {name: counts.of(row) for name, row in rows.items()} == {name: wanted[name] for name in NODES}
            assert counts.total == sum(wanted.values())


CountsEqualRecounting.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCountsEqualRecounting = CountsEqualRecounting.TestCase
