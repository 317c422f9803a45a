"""The queue finds the pods that are to be signed again by what they have, without a look at the others."""

from __future__ import annotations

from collections.abc import Hashable

from support.builders import pod
from support.queueing import Bench, name_of

from koordsched.cache.plugin_state import NAME, OWNER_NAME, OWNER_UID, UID, Need
from koordsched.queue.queued_pod import QueuedPodInfo
from koordsched.queue.waiting_index import MOST_FACETS


def looked_at(bench: Bench, *needs: Need) -> list[str]:
    """Return the pods that are asked for their shape when those of which one need holds have to be."""
    found: list[str] = []

    def shape_of(info: QueuedPodInfo) -> Hashable | None:
        found.append(name_of(info.key))
        return info.pod_info.shape

    bench.queue.reshape(shape_of, needs)
    return sorted(found)


def test_pods_are_found_by_labels_names_and_owners_as_they_come_and_go() -> None:
    bench = Bench({"Fit": []})
    bench.add(pod("a").label("app", "x").uid("u-a"), pod("b").label("app", "y"), pod("c"), shape="s")
    assert looked_at(bench, ("app", "x")) == ["a"]
    assert looked_at(bench, ("app", "x"), ("app", "y")) == ["a", "b"]
    assert looked_at(bench, ("", NAME, "c")) == ["c"]
    assert looked_at(bench, ("", UID, "u-a")) == ["a"]
    assert looked_at(bench, ("", OWNER_NAME, "rs"), ("", OWNER_UID, "rs")) == []
    bench.add(pod("d").label("app", "x"), shape="s")
    assert looked_at(bench, ("app", "x")) == ["a", "d"]
    bench.queue.delete(bench.queue.get("default/a").pod_info)  # type: ignore[union-attr]  # it is there
    assert looked_at(bench, ("app", "x")) == ["d"]


def test_a_pod_is_found_by_its_new_labels_when_they_change_and_in_flight_always() -> None:
    bench = Bench({"Fit": []})
    (before,) = bench.add(pod("a").label("app", "x").uid("u-a"), shape="s")
    assert looked_at(bench, ("app", "y")) == []
    after = pod("a").label("app", "y").uid("u-a").info()
    after.shape = "s"
    bench.queue.update(before, after)
    assert looked_at(bench, ("app", "y")) == ["a"]
    assert looked_at(bench, ("app", "x")) == []
    bench.pop()
    assert looked_at(bench, ("app", "x")) == ["a"]


def test_so_many_label_keys_are_indexed_and_with_more_of_them_all_pods_are_looked_at() -> None:
    bench = Bench({"Fit": []})
    bench.add(pod("a"), pod("b"), shape="s")
    for number in range(MOST_FACETS):
        assert looked_at(bench, (f"key-{number}", "x")) == []
    assert looked_at(bench, ("another", "x")) == ["a", "b"]
