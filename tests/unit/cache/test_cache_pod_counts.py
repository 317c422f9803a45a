"""Counts of pods: what a query costs, and how long it lasts. That they are right is tests/property/test_pod_counts.py."""

from __future__ import annotations

import gc
from collections.abc import Generator
from unittest.mock import patch

import pytest
from support.builders import node, pod
from support.counted import cache_of

from koordsched._core.counts import RowCounts
from koordsched.api.selectors import NOTHING, map_matcher
from koordsched.cache import pod_counts as pod_counts_module
from koordsched.cache.cache import Cache
from koordsched.cache.credits import OwnerView
from koordsched.cache.pod_counts import PodCounts, PodQuery, pod_counts

WEB = PodQuery(frozenset({"default"}), map_matcher({"app": "web"}), terminating=False)


def run(cache: Cache, uid: str, name: str, app: str = "web") -> None:
    cache.set_pod(pod(uid).uid(uid).label("app", app).info(), name)


def test_nothing_follows_the_pods_until_they_are_asked_for() -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    assert cache._followers == []
    counts = pod_counts(cache).count(WEB)
    assert (counts.of(0), cache._followers) == (1, [pod_counts(cache)])


def test_equal_queries_share_their_counts() -> None:
    cache = cache_of("n1")
    counts = pod_counts(cache).count(WEB)
    assert pod_counts(cache).count(PodQuery(frozenset({"default"}), map_matcher({"app": "web"}), terminating=False)) is counts
    assert pod_counts(cache).count(PodQuery(frozenset({"default"}), map_matcher({"app": "web"}))) is not counts


def test_a_query_that_is_held_no_more_is_forgotten_and_may_come_back() -> None:
    cache = cache_of("n1", "n2")
    counts = pod_counts(cache).count(WEB)
    run(cache, "a", "n1")
    assert counts.total == 1
    del counts
    gc.collect()
    assert len(pod_counts(cache)) == 0
    run(cache, "b", "n2")
    again = pod_counts(cache).count(WEB)
    run(cache, "c", "n2")
    assert [again.of(0), again.of(1)] == [1, 2]


def test_pods_that_do_not_match_change_no_version() -> None:
    cache = cache_of("n1")
    counts = pod_counts(cache).count(WEB)
    version = counts.version
    run(cache, "a", "n1", app="db")
    assert (counts.total, counts.version) == (0, version)
    run(cache, "b", "n1")
    assert counts.version != version


def test_pods_that_are_gone_leave_no_class_behind() -> None:
    cache = cache_of("n1")
    counts = pod_counts(cache).count(WEB)
    for i in range(50):
        cache.set_pod(pod(f"p{i}").uid(f"p{i}").label("app", "web").label("index", str(i)).info(), "n1")
    assert (counts.total, len(pod_counts(cache)._classes)) == (50, 50)
    for i in range(50):
        cache.remove_pod(f"p{i}")
    assert (counts.total, len(pod_counts(cache)._classes)) == (0, 0)


# In steps


def one_by_one(counts: PodCounts, query: PodQuery = WEB) -> Generator[None, None, RowCounts]:
    """Prepare a query; each step takes in the pods of one node, or asks one class."""
    steps = counts.prepare(query)
    while True:
        with patch.multiple(pod_counts_module, PODS_A_STEP=1, CLASSES_A_STEP=1):
            try:
                next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
        yield


def finished(steps: Generator[None, None, RowCounts]) -> RowCounts:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def test_a_query_is_prepared_in_steps_of_few_pods_and_classes() -> None:
    cache = cache_of("n1", "n2", "n3")
    for i in range(6):
        run(cache, f"a{i}", f"n{1 + i % 2}", "web" if i < 3 else f"db{i}")
    assert sum(1 for _ in one_by_one(pod_counts(cache))) == 2 + 4  # nodes with pods, then classes
    assert sum(1 for _ in one_by_one(pod_counts(cache), PodQuery(None, NOTHING))) == 4  # no pod is left to take in


def test_a_step_is_of_so_many_pods_whatever_the_nodes_have() -> None:
    names = [f"n{i}" for i in range(600)]
    cache = cache_of(*names)
    for i, name in enumerate(names):
        run(cache, f"a{i}", name)
    assert sum(1 for _ in pod_counts(cache).prepare(WEB)) == -(-600 // pod_counts_module.PODS_A_STEP) + 1


def test_pods_that_come_and_go_between_steps_are_counted_once() -> None:
    cache = cache_of("n1", "n2")
    for uid, name in (("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2")):
        run(cache, uid, name)
    steps = one_by_one(pod_counts(cache))
    next(steps)  # one of the nodes is taken in
    for uid in ("a", "c"):
        cache.remove_pod(uid)
    for uid, name in (("b", "n1"), ("d", "n2")):
        cache.set_pod(pod(uid).uid(uid).label("app", "db").info(), name)
        run(cache, f"{uid}2", name)
    counts = finished(steps)
    assert [counts.of(0), counts.of(1)] == [1, 1]


def test_a_node_that_becomes_known_between_steps_has_its_pods_counted_once() -> None:
    cache = cache_of("n1", "n2")
    run(cache, "a", "n1")
    run(cache, "b", "unknown")
    run(cache, "c", "unknown as well")
    steps = one_by_one(pod_counts(cache))
    cache.set_node(node("unknown").build())
    next(steps)
    cache.set_node(node("unknown as well").build())
    counts = finished(steps)
    assert [counts.of(cache.nodes_by_name[name].row) for name in ("n1", "n2", "unknown", "unknown as well")] == [1, 0, 1, 1]
    assert counts.total == 3


def test_a_class_that_ends_and_comes_back_between_steps_is_counted_once() -> None:
    cache = cache_of("n1", "n2")
    run(cache, "a", "n1", "db")
    run(cache, "b", "n1")
    steps = one_by_one(pod_counts(cache))
    for _ in range(2):
        next(steps)  # both pods, then the class of a
    cache.remove_pod("a")
    cache.remove_pod("b")
    run(cache, "b", "n2")  # in the place of the class that was not asked
    run(cache, "a", "n2", "db")
    counts = finished(steps)
    assert [counts.of(0), counts.of(1)] == [0, 1]


def test_who_needs_the_counts_between_steps_gets_them_complete() -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    run(cache, "b", "n1", "db")
    steps = one_by_one(pod_counts(cache))
    next(steps)
    assert pod_counts(cache).count(WEB).total == 1
    assert finished(steps).total == 1


def test_a_pod_that_is_away_in_a_simulation_while_pods_are_taken_in_comes_back() -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    target = cache.node("n1")
    assert target is not None
    with cache.simulate(target, remove=[target.pods["a"]]):
        counts = pod_counts(cache).count(WEB)
        assert counts.total == 0
    assert counts.total == 1


def owned(cache: Cache, uid: str) -> OwnerView:
    cache.credits.grant("owner", uid)
    found = cache.credits.of("owner")
    assert found is not None
    return found


@pytest.mark.parametrize("seen_before", [False, True], ids=["first view", "later view"])
def test_the_first_query_of_all_may_begin_within_a_view(*, seen_before: bool) -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    run(cache, "b", "n1")
    view = owned(cache, "a")
    if seen_before:
        with view:
            pass
    with view:
        counts = pod_counts(cache).count(WEB)
        assert counts.total == 1
    assert counts.total == 2
    with view:
        assert counts.total == 1
    assert counts.total == 2


def test_a_query_that_was_begun_outside_of_a_view_may_be_finished_within() -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    cache.set_pod(pod("b").uid("b").label("app", "web").label("track", "next").info(), "n1")
    cache.credits.grant("owner", "a")
    view = owned(cache, "b")
    steps = one_by_one(pod_counts(cache))
    for _ in range(2):
        next(steps)  # both pods, then the class of a
    with view:
        counts = pod_counts(cache).count(WEB)
        assert counts.total == 0
    assert counts.total == 2
