"""Counts of pods: what a query costs, and how long it lasts. That they are right is tests/property/test_pod_counts.py."""

from __future__ import annotations

import gc

from support.builders import pod
from support.counted import cache_of

from koordsched.api.selectors import map_matcher
from koordsched.cache.cache import Cache
from koordsched.cache.pod_counts import PodQuery, pod_counts

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
