"""What the cache counts beside its columns: found when it is wrong, counted anew, and gone with the last that needs it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import node, pod
from support.described import described

from koordsched._core.counts import RowCounts
from koordsched.api.core import Taint
from koordsched.api.selectors import map_matcher
from koordsched.cache.cache import NO_ROW, Cache
from koordsched.cache.pod_counts import PodQuery, pod_counts

ALL = PodQuery(None, map_matcher({}))
WEB = PodQuery(frozenset({"default"}), map_matcher({"app": "web"}))
STAYING = PodQuery(frozenset({"default", "other"}), map_matcher({"app": "web", "tier": "a"}), terminating=False)
QUERIES = (ALL, WEB, STAYING)
CLASSES = {
    "web": ("default", {"app": "web"}, False),
    "tier": ("default", {"app": "web", "tier": "a"}, False),
    "going": ("default", {"app": "web", "tier": "a"}, True),
    "other": ("other", {"app": "db"}, False),
}
GONE = ("default", {"app": "gone"}, False)


def counted() -> tuple[Cache, list[RowCounts]]:
    """Return a cache with pods of four classes on two nodes, and the counts of QUERIES."""
    cache = Cache()
    for name in ("n1", "n2"):
        cache.set_node(node(name).build())
    counts = [pod_counts(cache).count(query) for query in QUERIES]
    web, tier = pod("web").label("app", "web"), pod("tier").label("app", "web").label("tier", "a")
    going = pod("going").label("app", "web").label("tier", "a").deleted_at("2026-01-01T00:00:00Z")
    other = pod("other", namespace="other").label("app", "db")
    for number, (made, name) in enumerate(
        [(web, "n1"), (web, "n1"), (web, "n2"), (tier, "n1"), (going, "n1"), (other, "n2"), (other, "n1")]
    ):
        cache.set_pod(made.uid(f"u{number}").info(), name)
    return cache, counts


def classes(cache: Cache) -> dict[str, tuple[list[int], list[int]]]:
    """Return how many pods of each class each row has, and the numbers of the queries that the class is known to match."""
    number = {id(pod_counts(cache).count(query)): index for index, query in enumerate(QUERIES)}
    kept, found = pod_counts(cache)._classes, {}
    for name, facts in CLASSES.items():
        known = kept.find(*facts)
        assert known is not None
        found[name] = ([kept.of_class(row, known) for row in (0, 1)], sorted(number[id(each())] for each in known.matching))
    assert len(kept) == len(found)
    return found


def values(counts: Iterable[RowCounts]) -> list[list[int]]:
    return [[each.of(0), each.of(1), each.total] for each in counts]


RIGHT = {"web": ([2, 1], [0, 1]), "tier": ([1, 0], [0, 1, 2]), "going": ([1, 0], [0, 1]), "other": ([1, 1], [0])}
COUNTS = [[5, 2, 7], [4, 1, 5], [1, 0, 1]]


def test_classes_and_queries_are_counted() -> None:
    cache, counts = counted()
    assert (classes(cache), values(counts)) == (RIGHT, COUNTS)
    assert list(pod_counts(cache).differences("n1")) == list(pod_counts(cache).differences("n2")) == []
    assert list(pod_counts(cache).differences("unknown")) == []


def _lose_class(cache: Cache) -> None:
    pod_counts(cache)._classes.remove(0, *CLASSES["tier"])


def _lose_pod(cache: Cache) -> None:
    pod_counts(cache)._classes.remove(0, *CLASSES["web"])


def _miscount_class(cache: Cache) -> None:
    for _ in range(7):
        pod_counts(cache)._classes.add(0, *CLASSES["web"])


def _miscount_query(cache: Cache) -> None:
    pod_counts(cache).count(WEB).add(0, 3)


def _invent_class(cache: Cache) -> None:
    pod_counts(cache)._classes.add(0, *GONE)


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (_lose_class, [("pods of namespace default with labels {'app': 'web', 'tier': 'a'}", 0, 1)]),
        (_lose_pod, [("pods of namespace default with labels {'app': 'web'}", 1, 2)]),
        (_miscount_class, [("pods of namespace default with labels {'app': 'web'}", 9, 2)]),
        (_miscount_query, [(f"pods that match {WEB.selector}", 7, 4)]),
        (_invent_class, []),  # of what the cache does not have nothing is asked
    ],
)
def test_what_is_wrong_is_reported_and_counted_anew(damage: Callable[[Cache], None], reported: list[tuple[str, int, int]]) -> None:
    cache, counts = counted()
    damage(cache)
    assert [tuple(each) for each in pod_counts(cache).differences("n1")] == reported
    pod_counts(cache).rebuild("n1")
    assert {name: rows for name, (rows, _) in classes(cache).items()} == {name: rows for name, (rows, _) in RIGHT.items()}
    assert values(counts) == COUNTS
    pod_counts(cache).rebuild("unknown")
    assert list(pod_counts(cache).differences("n1")) == []
    for number in range(7):
        cache.remove_pod(f"u{number}")
    assert (len(pod_counts(cache)._classes), values(counts)) == (0, [[0, 0, 0]] * 3)


def test_a_query_that_is_over_is_counted_nowhere() -> None:
    cache, counts = counted()
    index = pod_counts(cache)._queries
    assert {need: len(queries) for need, queries in index.by_need.items()} == {
        (None, None): 1,
        ("default", ("app", "web")): 2,
        ("other", ("app", "web")): 1,
    }
    del counts[1]
    gc.collect()
    cache.set_pod(pod("again").uid("u9").label("app", "web").info(), "n2")
    web = pod_counts(cache)._classes.find(*CLASSES["web"])
    assert web is not None
    assert len(web.matching) == 1
    assert values(counts) == [[5, 3, 8], [1, 0, 1]]
    again = pod_counts(cache).count(WEB)
    assert [again.of(0), again.of(1)] == [4, 2]
    del counts, again
    gc.collect()
    assert (index.by_need, len(pod_counts(cache))) == ({}, 0)


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (PodQuery(frozenset({"default"}), map_matcher({"app": "web"})), True),
        (PodQuery(frozenset({"default"}), map_matcher({"app": "web"}), terminating=False), False),
        (PodQuery(frozenset({"other"}), map_matcher({"app": "web"})), False),
        (PodQuery(None, map_matcher({"app": "web"})), False),
        (PodQuery(frozenset({"default"}), map_matcher({"app": "db"})), False),
    ],
)
def test_queries_are_equal_in_all_their_parts(other: PodQuery, equal: bool) -> None:
    other._hash = WEB._hash  # as if the hashes met
    assert (other == WEB) is equal
    assert WEB != "app=web"


# Rows


def test_nodes_that_only_pods_name_give_their_row_back_with_the_last_pod() -> None:
    cache = Cache()
    for turn in range(3):
        for name in ("x1", "x2", "x3"):
            cache.set_pod(pod(name).uid(f"{name}-{turn}").on(name).info(), name)
        assert (cache._unknown, cache._unknown_row) == (3, 0)
        cache.remove_pod(f"x1-{turn}")
        cache.remove_pod(f"x3-{turn}")
        assert (cache._unknown, cache._unknown_row) == (1, 0)
        cache.remove_pod(f"x2-{turn}")
        assert (cache._unknown, cache._unknown_row, cache.nodes_by_name) == (0, NO_ROW, {})


def test_a_row_that_is_written_anew_has_the_pods_of_its_node_and_no_others() -> None:
    cache = Cache()
    for name in ("n1", "n2"):
        cache.set_node(node(name).cpu("8").build())
    cache.assume_pod(pod("assumed").uid("a").cpu("1").info(), "n1")
    cache.set_pod(pod("bound").uid("b").cpu("2").info(), "n1")
    cache.set_pod(pod("elsewhere").uid("e").cpu("3").info(), "n2")
    before = described(cache)
    n1 = cache.nodes_by_name["n1"]
    lost = n1.pods.pop("b")
    n1.pods["e"] = cache.pods["e"].info
    n1.pods["new"] = new = pod("new").uid("new").cpu("1").info()
    cache.rewrite("n1")
    assert ({uid: (state.node.name, state.assumed) for uid, state in cache.pods.items()}, cache.assumed_count) == (
        {"a": ("n1", True), "e": ("n2", False), "new": ("n1", False)},
        1,
    )
    assert (sorted(n1.pods), n1.requested("cpu"), cache.nodes_by_name["n2"].requested("cpu")) == (["a", "new"], 2000, 3000)
    cache.remove_pod(new.uid)
    cache.set_pod(lost, "n1")
    assert described(cache) == before


def test_what_is_described_of_a_node_that_is_not_known_is_its_pods() -> None:
    cache = Cache()
    cache.set_pod(pod("p").uid("u").request("example.com/gpu", 1).cpu("1").host_port(80).on("x").info(), "x")
    [facts] = described(cache).values()
    assert [(port.protocol, port.port) for port in facts.pop("ports")] == [("TCP", 80)]
    nothing = dict.fromkeys(["pods", "cpu", "memory", "ephemeral-storage"], (0, 0))
    resources = facts.pop("resources")
    assert {name: allocatable for name, (allocatable, _) in resources.items()} == dict.fromkeys(resources, 0)
    assert nothing.keys() <= resources.keys()
    assert facts == {"live": False, "labels": {}, "taints": [], "cordoned": False, "images": [], "pods": ["u"]}


# Names


def test_each_name_that_comes_or_goes_begins_a_generation() -> None:
    cache = Cache()
    columns, seen = cache.columns, []

    def step(change: Callable[[], None]) -> None:
        before = columns.generation, columns.meanings
        change()
        seen.append((columns.generation - before[0], columns.meanings - before[1]))

    def named(resource: str) -> None:
        columns.resource(resource)

    step(lambda: cache.set_node(_node().build()))
    step(lambda: cache.set_node(_node().label("zone", "a").build()))
    step(lambda: cache.set_node(_node().label("zone", "a").allocatable("example.com/gpu", 1).build()))
    step(lambda: cache.set_node(_node().label("zone", "b").allocatable("example.com/gpu", 2).build()))
    step(lambda: cache.set_node(_node().build()))
    step(columns.forget_unused)
    step(lambda: named("example.com/other"))
    step(lambda: named("example.com/other"))
    generations, meanings = zip(*seen, strict=True)
    assert generations == (1, 1, 1, 0, 0, 1, 1, 0)
    assert all(meaning >= generation for generation, meaning in zip(generations, meanings, strict=True))


def _node() -> Any:
    return node("n1").cpu("1")


def test_too_many_names_that_no_node_has_are_forgotten_and_few_are_kept() -> None:
    cache = Cache()
    cache.set_node(_node().build())
    for count in (8, 20):
        labelled = _node()
        for number in range(count):
            labelled = labelled.label(f"key-{number}", "v").allocatable(f"example.com/r{number}", 1)
        cache.set_node(labelled.build())
        cache.set_node(_node().build())
        kept = [key for key in cache.columns.labels if key.startswith("key-")], [n for n in cache.columns.resources if "/" in n]
        assert [len(names) for names in kept] == ([8, 8] if count == 8 else [0, 0])


def test_a_taint_is_the_same_whenever_it_was_added() -> None:
    cache = Cache()
    for name, added in (("n1", None), ("n2", "2026-01-01T00:00:00Z"), ("n3", "2026-02-01T00:00:00Z")):
        made = node(name).build()
        taint = Taint(key="k", value="v", effect="NoSchedule", time_added=added)
        cache.set_node(replace(made, spec=replace(made.spec, taints=(taint,))))
    taints = [each["taints"] for each in described(cache).values()]
    assert taints == [[("k", "v", "NoSchedule")]] * 3
    assert [taint for taint in cache.columns.taints.ids if taint.key == "k"] == [Taint(key="k", value="v", effect="NoSchedule")]


def test_images_are_counted_by_their_changes() -> None:
    cache, versions = Cache(), []
    for image in ("a:1", "a:1", "b:1"):
        cache.set_node(_node().image(10, image).build())
        versions.append(cache.columns.images_version)
    assert versions[0] == versions[1] < versions[2]


def test_a_resource_that_is_named_before_nodes_offer_it_is_offered_like_any_and_stays() -> None:
    cache = Cache()
    found = cache.columns.resource("example.com/gpu")
    for amount in (2, 0, 3, 0):
        cache.set_node(_node().allocatable("example.com/gpu", amount).build())
        assert cache.nodes_by_name["n1"].allocatable("example.com/gpu") == amount
    cache.columns.forget_unused()
    assert cache.columns.resource_id("example.com/gpu") == found


def test_a_name_of_a_node_that_takes_the_place_of_a_forgotten_one_is_a_new_meaning() -> None:
    cache = Cache()
    for name in ("n1", "n2"):
        cache.set_node(node(name).build())
    cache.remove_node("n1")
    cache.columns.forget_unused()
    before = cache.columns.meanings
    cache.set_node(node("n3").build())
    ids = cache.columns.name_column.values.ids
    assert (ids, cache.columns.meanings > before) == ({"n2": 2, "n3": 1}, True)


def test_rows_that_are_written_anew_count_as_changes_of_images() -> None:
    cache, seen = Cache(), []
    cache.set_node(_node().image(10, "a:1").build())
    for _ in range(3):
        seen.append(cache.columns.images_version)
        cache.rewrite("n1")
    assert seen == sorted(set(seen))
