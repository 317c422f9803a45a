"""Nominations (framework.md §3.4)."""

from __future__ import annotations

from support.builders import pod

from koordsched.queue.nominator import Nominator


def test_a_pod_is_nominated_for_one_node_at_a_time() -> None:
    nominator = Nominator()
    p = pod("p").info()
    nominator.set(p, "n1")
    nominator.set(p, "n2")
    assert nominator.node_of(p.uid) == "n2"
    assert nominator.pods_on("n1") == []
    assert nominator.pods_on("n2") == [p]
    assert dict(nominator.nodes) == {"n2": {p.uid: p}}


def test_an_empty_node_withdraws() -> None:
    nominator = Nominator()
    p = pod("p").info()
    nominator.set(p, "n1")
    nominator.set(p, "")
    assert p.uid not in nominator
    assert len(nominator) == 0
    assert dict(nominator.nodes) == {}


def test_only_other_pods_of_at_least_the_same_priority_are_in_the_way() -> None:
    nominator = Nominator()
    low, same, high, me = (pod(name).priority(p).info() for name, p in (("low", 1), ("same", 5), ("high", 9), ("me", 5)))
    for other, node in ((low, "n1"), (same, "n1"), (high, "n2"), (me, "n3")):
        nominator.set(other, node)
    assert [nominator.ahead(me, node) for node in ("n1", "n2", "n3")] == [[same], [high], []]


def test_the_version_changes_with_every_change_and_only_then() -> None:
    nominator = Nominator()
    p = pod("p").info()
    versions = [nominator.version]
    nominator.set(p, "n1")
    versions.append(nominator.version)
    nominator.remove(p.uid)
    versions.append(nominator.version)
    nominator.remove(p.uid)
    nominator.set(p, "")
    assert versions == sorted(set(versions))
    assert nominator.version == versions[-1]


def test_an_update_that_names_no_node_keeps_the_nomination_in_memory() -> None:
    nominator = Nominator()
    old, new = pod("p").info(), pod("p").label("a", "b").info()
    nominator.set(old, "n1")
    nominator.update(old, new)
    assert nominator.pods_on("n1") == [new]


def test_an_update_sets_moves_and_clears_the_nomination_of_the_api_server() -> None:
    nominator = Nominator()
    none, first, second = pod("p").info(), pod("p").nominated("n1").info(), pod("p").nominated("n2").info()
    nominator.update(none, first)
    assert nominator.node_of(first.uid) == "n1"
    nominator.update(first, second)
    assert nominator.node_of(first.uid) == "n2"
    nominator.update(second, none)
    assert nominator.node_of(first.uid) == ""
