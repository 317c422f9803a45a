"""Counts of pods: what a query costs, and how long it lasts. That they are right is tests/property/test_pod_counts.py."""

from __future__ import annotations

import gc

import pytest
from support.builders import pod
from support.counted import cache_of

from koordsched.api.selectors import EVERYTHING, NOTHING, map_matcher
from koordsched.cache.cache import Cache
from koordsched.cache.credits import OwnerView
from koordsched.cache.pod_counts import PodQuery, pod_counts

WEB = PodQuery(frozenset({"default"}), map_matcher({"app": "web"}), terminating=False)


def run(cache: Cache, uid: str, name: str, app: str = "web") -> None:
    cache.set_pod(pod(uid).uid(uid).label("app", app).info(), name)


def test_pods_that_were_there_before_are_counted() -> None:
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


# Several queries, and views


def test_each_of_several_queries_is_counted_in_a_step_of_its_own() -> None:
    cache = cache_of("n1")
    run(cache, "a", "n1")
    steps = pod_counts(cache).count_each([WEB, PodQuery(None, NOTHING), WEB])
    counted = []
    while True:
        try:
            next(steps)
            counted.append(len(pod_counts(cache)))
        except StopIteration as done:
            held = done.value
            break
    assert counted == [1, 2, 2]
    assert [each.total for each in held] == [1, 0, 1]


def test_a_query_that_began_after_the_last_event_of_a_class_hears_of_the_next() -> None:
    cache = cache_of("n1", "n2")
    first = pod_counts(cache).count(WEB)
    run(cache, "a", "n1")
    later = [pod_counts(cache).count(PodQuery(None, map_matcher({"app": "web"}))), pod_counts(cache).count(PodQuery(None, EVERYTHING))]
    run(cache, "b", "n2")
    assert [(each.of(0), each.of(1)) for each in (first, *later)] == [(1, 1)] * 3
    assert len(pod_counts(cache)._classes) == 1


def test_a_query_that_ended_and_begins_anew_is_counted_once_by_classes_that_knew_it() -> None:
    cache = cache_of("n1")
    kept = pod_counts(cache).count(PodQuery(None, map_matcher({"app": "web"})))  # needs the same label
    counts = pod_counts(cache).count(WEB)
    run(cache, "a", "n1")
    del counts
    gc.collect()
    counts = pod_counts(cache).count(WEB)
    run(cache, "b", "n1")
    assert (counts.total, kept.total) == (2, 2)


def test_a_pod_that_is_away_in_a_simulation_while_a_query_begins_comes_back() -> None:
    cache = cache_of("n1")
    counts_of = pod_counts(cache)
    run(cache, "a", "n1")
    target = cache.node("n1")
    assert target is not None
    with cache.simulate(target, remove=[target.pods["a"]]):
        counts = counts_of.count(WEB)
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
