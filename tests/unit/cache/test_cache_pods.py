"""The states of a pod in the cache: assumed, added, gone; and what each costs its node."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from support.builders import PodBuilder, node, pod
from support.described import described

from koordsched._core.change import NodeChange
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache, CacheError
from koordsched.cache.plugin_state import PodFollower


def cache_with(*names: str) -> Cache:
    cache = Cache()
    for name in names:
        cache.set_node(node(name).cpu("4").build())
    return cache


def ports_in_use(cache: Cache) -> list[int]:
    return sorted(port.port for used in cache.columns.host_ports.lists() for port in used.ports)


def used(cache: Cache, name: str) -> tuple[int, int]:
    """Return (pods, milli-cores) that are counted on the node."""
    info = cache.nodes_by_name[name]
    return info.requested("pods"), info.requested("cpu")


def bind(cache: Cache, builder: PodBuilder, name: str) -> None:
    """Let the cluster show the pod bound."""
    cache.set_pod(builder.on(name).info(counted_on_node=True), name)


WEB = pod("web").cpu("500m")


def test_an_assumed_pod_counts_at_once_and_stays_assumed_until_it_is_seen() -> None:
    cache = cache_with("n1")
    cache.assume_pod(WEB.info(), "n1")
    assert (used(cache, "n1"), cache.assumed_count, cache.is_assumed("uid-default-web")) == ((1, 500), 1, True)
    bind(cache, WEB, "n1")
    assert (used(cache, "n1"), cache.assumed_count, cache.is_assumed("uid-default-web")) == ((1, 500), 0, False)


def test_a_confirmation_logs_no_change_of_the_node() -> None:
    cache = cache_with("n1")
    cache.assume_pod(WEB.info(), "n1")
    position = cache.table.log_end
    bind(cache, WEB, "n1")
    assert cache.table.log_end == position
    assert cache.nodes_by_name["n1"].pods["uid-default-web"].pod.spec.node_name == "n1"


def test_a_confirmation_with_other_requests_counts_the_new_ones() -> None:
    cache = cache_with("n1")
    cache.assume_pod(WEB.info(), "n1")
    bind(cache, WEB.cpu("700m"), "n1")
    assert (used(cache, "n1"), cache.assumed_count) == ((1, 700), 0)


def test_an_assumed_pod_that_was_bound_elsewhere_follows_the_cluster_without_a_repair() -> None:
    cache = cache_with("n1", "n2")
    cache.assume_pod(WEB.info(), "n1")
    bind(cache, WEB, "n2")
    assert (used(cache, "n1"), used(cache, "n2"), cache.assumed_count, cache.repairs) == ((0, 0), (1, 500), 0, 0)


def test_a_forgotten_pod_gives_everything_back() -> None:
    cache = cache_with("n1")
    builder = WEB.host_port(80)
    cache.assume_pod(builder.info(), "n1")
    cache.forget_pod("uid-default-web")
    assert (used(cache, "n1"), cache.assumed_count, cache.pods, ports_in_use(cache)) == ((0, 0), 0, {}, [])


@pytest.mark.parametrize("seen", [False, True], ids=["assumed", "added"])
def test_a_pod_that_is_counted_cannot_be_assumed(seen: bool) -> None:
    cache = cache_with("n1")
    cache.assume_pod(WEB.info(), "n1")
    if seen:
        bind(cache, WEB, "n1")
    with pytest.raises(CacheError, match=r"pod uid-default-web\(default/web\) is in the cache, so can't be assumed"):
        cache.assume_pod(WEB.info(), "n1")
    assert used(cache, "n1") == (1, 500)


def test_only_an_assumed_pod_can_be_forgotten() -> None:
    cache = cache_with("n1")
    bind(cache, WEB, "n1")
    for uid in ("uid-default-web", "unknown"):
        with pytest.raises(CacheError, match=f"pod {uid} is not assumed, so can't be forgotten"):
            cache.forget_pod(uid)
    assert used(cache, "n1") == (1, 500)


def test_an_update_of_a_bound_pod_replaces_what_it_used() -> None:
    cache = cache_with("n1")
    bind(cache, WEB.host_port(80), "n1")
    bind(cache, WEB.cpu("1").host_port(443), "n1")
    assert used(cache, "n1") == (1, 1000)
    assert ports_in_use(cache) == [443]


def test_what_plugins_may_read_of_a_nodes_pods_is_marked_when_it_changes() -> None:
    cache = cache_with("n1", "n2")
    bind(cache, WEB, "n2")
    for changed, kind in (
        (WEB.annotation("a", "b"), NodeChange.USAGE),
        (WEB.annotation("a", "b").label("c", "d"), NodeChange.USAGE),
        (WEB.annotation("a", "b").label("c", "d").resource_version("9"), 0),
    ):
        position = cache.table.log_end
        bind(cache, changed, "n2")
        changes = cache.table.changes_since(position)
        assert changes is not None
        assert [column.tolist() for column in changes] == ([[1], [kind]] if kind else [[], []])


def test_a_bound_pod_that_moved_is_counted_where_the_cluster_says_and_as_a_repair() -> None:
    cache = cache_with("n1", "n2")
    bind(cache, WEB, "n1")
    with capture_logs() as logs:
        bind(cache, WEB, "n2")
    assert (used(cache, "n1"), used(cache, "n2"), cache.repairs) == ((0, 0), (1, 500), 1)
    assert [(entry["event"], entry["pod"], entry["believed"], entry["node"]) for entry in logs] == [
        ("pod moved to another node", "default/web", "n1", "n2")
    ]
    bind(cache, WEB, "n1")
    assert (used(cache, "n1"), used(cache, "n2"), cache.repairs) == ((1, 500), (0, 0), 2)


def test_a_removed_pod_is_gone_and_removing_it_again_is_nothing() -> None:
    cache = cache_with("n1")
    bind(cache, WEB, "n1")
    cache.remove_pod("uid-default-web")
    cache.remove_pod("uid-default-web")
    assert (used(cache, "n1"), cache.pods) == ((0, 0), {})


def test_removing_an_assumed_pod_ends_the_assumption() -> None:
    cache = cache_with("n1")
    cache.assume_pod(WEB.info(), "n1")
    cache.remove_pod("uid-default-web")
    assert (used(cache, "n1"), cache.assumed_count) == ((0, 0), 0)


def test_what_was_added_is_subtracted_whatever_the_pod_looks_like_later() -> None:
    cache = cache_with("n1")
    info = WEB.on("n1").info(counted_on_node=True)
    cache.set_pod(info, "n1")
    info.resources = pod("other").cpu("3").info().resources
    cache.remove_pod(info.uid)
    assert used(cache, "n1") == (0, 0)


# Ghosts


def test_a_pod_may_come_before_its_node() -> None:
    cache = Cache()
    bind(cache, WEB, "late")
    assert (cache.node("late"), cache.table.live_count, len(cache.nodes())) == (None, 0, 0)
    cache.set_node(node("late").cpu("4").build())
    found = cache.node("late")
    assert found is not None
    assert (used(cache, "late"), found.allocatable("cpu"), list(found.pods)) == ((1, 500), 4000, ["uid-default-web"])


def test_a_node_that_left_its_pods_behind_sees_them_again_when_it_comes_back() -> None:
    cache = cache_with("n1")
    bind(cache, WEB.host_port(80), "n1")
    row = cache.nodes_by_name["n1"].row
    cache.remove_node("n1")
    assert (cache.node("n1"), cache.table.live_count, cache.nodes_by_name["n1"].allocatable("cpu")) == (None, 0, 0)
    cache.set_node(node("n1").cpu("8").build())
    assert (used(cache, "n1"), cache.nodes_by_name["n1"].row) == ((1, 500), row)


def test_a_ghost_goes_with_its_last_pod_and_its_row_starts_afresh() -> None:
    cache = cache_with("n1")
    bind(cache, WEB, "n1")
    row = cache.nodes_by_name["n1"].row
    cache.remove_node("n1")
    cache.remove_pod("uid-default-web")
    assert cache.nodes_by_name == {}
    assert cache.infos[row] is None
    cache.set_node(node("n2").build())
    assert (cache.nodes_by_name["n2"].row, used(cache, "n2"), cache.nodes_by_name["n2"].allocatable("cpu")) == (row, (0, 0), 0)


def test_removing_an_unknown_node_or_a_ghost_is_nothing() -> None:
    cache = Cache()
    cache.remove_node("unknown")
    bind(cache, WEB, "n1")
    cache.remove_node("n1")
    assert used(cache, "n1") == (1, 500)


# What if


def test_a_simulation_counts_the_pods_inside_and_leaves_no_trace() -> None:
    cache = cache_with("n1")
    bind(cache, pod("there").cpu("1").host_port(80), "n1")
    before, info, end = described(cache), cache.nodes_by_name["n1"], cache.table.log_end
    with cache.simulate(info, add=[WEB.host_port(80).info(), pod("db").cpu("1").host_port(5432).info()]):
        assert used(cache, "n1") == (3, 2500)
        assert len(info.pods) == 3
        assert ports_in_use(cache) == [80, 5432]
        assert cache.table.log_end == end
    assert described(cache) == before
    assert cache.table.log_end == end
    assert list(info.pods) == ["uid-default-there"]
    assert ports_in_use(cache) == [80]


def test_a_simulation_leaves_no_trace_when_the_question_fails() -> None:
    cache = cache_with("n1")
    before = described(cache)
    with pytest.raises(ZeroDivisionError), cache.simulate(cache.nodes_by_name["n1"], add=[WEB.host_port(80).info()]):
        raise ZeroDivisionError
    assert described(cache) == before


def test_a_simulation_without_pods_gives_back_what_they_use_and_then_they_are_there_in_their_order() -> None:
    cache = cache_with("n1")
    bind(cache, pod("first").cpu("1").host_port(80), "n1")
    bind(cache, pod("second").cpu("2"), "n1")
    before, info = described(cache), cache.nodes_by_name["n1"]
    with cache.simulate(info, remove=[cache.pods["uid-default-first"].info]):
        assert used(cache, "n1") == (1, 2000)
        assert list(info.pods) == ["uid-default-second"]
        assert ports_in_use(cache) == []
    assert described(cache) == before
    assert list(info.pods) == ["uid-default-first", "uid-default-second"]


def test_a_simulation_removes_each_pod_once_and_none_that_is_not_there() -> None:
    cache = cache_with("n1")
    bind(cache, pod("there").cpu("1"), "n1")
    cache.follow(book := Notebook(cache))
    book.calls.clear()
    before, info, there = described(cache), cache.nodes_by_name["n1"], cache.pods["uid-default-there"].info
    with cache.simulate(info, remove=[pod("gone").cpu("2").info(), there, there]):
        assert used(cache, "n1") == (0, 0)
    assert described(cache) == before
    assert [(what, key) for what, key, _ in book.calls] == [("removed", "default/there"), ("added", "default/there")]


class Notebook(PodFollower):
    """A follower that writes down what is reported to it."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.calls: list[tuple[str, str, bool]] = []

    def pod_added(self, pod: PodInfo, row: int) -> None:
        self.calls.append(("added", pod.key, self.cache.simulating))

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        self.calls.append(("removed", pod.key, self.cache.simulating))

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.calls.append(("moved", pod.key, self.cache.simulating))

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        self.calls.append(("replaced", new.key, self.cache.simulating))


def test_a_follower_hears_of_what_there_is_and_of_each_change_once() -> None:
    cache = cache_with("n1", "n2")
    bind(cache, pod("there").cpu("1"), "n1")
    notebook = Notebook(cache)
    cache.follow(notebook)
    cache.assume_pod(WEB.info(), "n1")
    bind(cache, WEB, "n1")
    cache.remove_pod("uid-default-web")
    assert notebook.calls == [
        (what, f"default/{name}", False)
        for what, name in (
            ("added", "there"),
            ("added", "web"),
            ("replaced", "web"),
            ("removed", "web"),
        )
    ]


def test_a_follower_knows_that_a_simulation_is_one() -> None:
    cache = cache_with("n1")
    bind(cache, pod("there").cpu("1"), "n1")
    notebook = Notebook(cache)
    cache.follow(notebook)
    notebook.calls.clear()
    with cache.simulate(cache.nodes_by_name["n1"], add=[WEB.info()], remove=[cache.pods["uid-default-there"].info]):
        pass
    assert notebook.calls == [
        ("removed", "default/there", True),
        ("added", "default/web", True),
        ("removed", "default/web", True),
        ("added", "default/there", True),
    ]
    assert not cache.simulating
