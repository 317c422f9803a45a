"""Counts of attached volumes after any sequence of events equal those of counting everything anew."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node
from support.volumes import VolumeBench, attachment, claim, csi_node, pod_with, storage_class, volume

from koordsched.plugins.nodevolumelimits.plugin import NodeVolumeLimits

NODES = ("n0", "n1")
CLAIMS = ("c0", "c1", "c2")
VOLUMES = ("v0", "v1")
PODS = ("p0", "p1", "p2")
DRIVERS = ("d", "e")

pods = st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(NODES), st.sets(st.sampled_from(CLAIMS), min_size=1))
gone = st.tuples(st.just("no pod"), st.sampled_from(PODS))
claims = st.tuples(st.just("claim"), st.sampled_from(CLAIMS), st.sampled_from(["", *VOLUMES]), st.sampled_from(["", "fast"]))
no_claims = st.tuples(st.just("no claim"), st.sampled_from(CLAIMS))
volumes = st.tuples(st.just("volume"), st.sampled_from(VOLUMES), st.sampled_from(DRIVERS), st.sampled_from(["h0", "h1"]))
no_volumes = st.tuples(st.just("no volume"), st.sampled_from(VOLUMES))
classes = st.tuples(st.just("class"), st.sampled_from(DRIVERS))
attachments = st.tuples(st.just("attachment"), st.sampled_from(NODES), st.sampled_from(VOLUMES))
detachments = st.tuples(st.just("no attachment"), st.sampled_from(NODES), st.sampled_from(VOLUMES))
events = st.lists(st.one_of(pods, gone, claims, no_claims, volumes, no_volumes, classes, attachments, detachments), min_size=1, max_size=40)


class Everything:
    """What there is, kept in dictionaries, and counted anew when asked."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[str, set[str]]] = {}
        self.claims: dict[str, tuple[str, str]] = {}
        self.volumes: dict[str, tuple[str, str]] = {}
        self.driver = ""
        self.attachments: set[tuple[str, str]] = set()

    def count(self, name: str) -> dict[str, int]:
        found: set[tuple[str, str]] = {self.volumes[v] for n, v in self.attachments if n == name and v in self.volumes}
        attached = {("d", handle) for _, handle in found}  # as the attachment's attacher calls them
        for where, used in self.pods.values():
            if where == name:
                attached |= {identity for each in used if (identity := self.identity(each)) is not None}
        return {driver: n for driver in DRIVERS if (n := sum(1 for each, _ in attached if each == driver))}

    def identity(self, name: str) -> tuple[str, str] | None:
        to, storage = self.claims.get(name, ("", ""))
        if to in self.volumes:
            return self.volumes[to]
        return (self.driver, f"to be made for {name}") if storage and self.driver else None


@given(events)
@settings(max_examples=80)
def test_counts_follow_every_event(sequence: list[tuple[Any, ...]]) -> None:
    bench = VolumeBench(*(node(name) for name in NODES))
    plugin = NodeVolumeLimits(bench)
    there = Everything()
    for kind, *details in sequence:
        play(bench, there, kind, details)
        assert {name: plugin._state.counts.attached(name) for name in NODES} == {name: there.count(name) for name in NODES}
    late = NodeVolumeLimits(bench)
    assert {name: late._state.counts.attached(name) for name in NODES} == {name: there.count(name) for name in NODES}
    empty(bench, there)
    assert not plugin._state._sources
    assert not plugin._state._dependents
    assert not plugin._state.counts._nodes


def play(bench: VolumeBench, there: Everything, kind: str, details: list[Any]) -> None:
    """Let one event happen on both sides."""
    match kind, details:
        case "pod", [name, where, used]:
            if name not in there.pods:
                there.pods[name] = (where, used)
                bench.put(pod_with(*sorted(used), name=name), where)
        case "no pod", [name]:
            there.pods.pop(name, None)
            bench.cache.remove_pod(f"uid-default-{name}")
        case "attachment", [where, name]:
            if (where, name) not in there.attachments:
                there.attachments.add((where, name))
                bench.put_object(attachment(f"{where}-{name}", where, name))
        case "no attachment", [where, name]:
            if (where, name) in there.attachments:
                there.attachments.remove((where, name))
                bench.drop_object(attachment(f"{where}-{name}", where, name))
        case _:
            change(bench, there, kind, details)


def change(bench: VolumeBench, there: Everything, kind: str, details: list[Any]) -> None:
    """Let a claim, a volume or the class come, change or go."""
    match kind, details:
        case "claim", [name, to, storage]:
            there.claims[name] = (to, storage)
            bench.put_object(claim(name, volume=to, storage_class=storage or None))
        case "no claim", [name]:
            if there.claims.pop(name, None) is not None:
                bench.drop_object(claim(name))
        case "volume", [name, driver, handle]:
            there.volumes[name] = (driver, handle)
            bench.put_object(volume(name, csi={"driver": driver, "volumeHandle": handle}))
        case "no volume", [name]:
            if there.volumes.pop(name, None) is not None:
                bench.drop_object(volume(name))
        case "class", [driver]:
            there.driver = driver
            bench.put_object(storage_class("fast", driver))


def empty(bench: VolumeBench, there: Everything) -> None:
    """Take away what is counted."""
    for name in list(there.pods):
        play(bench, there, "no pod", [name])
    for where, name in list(there.attachments):
        play(bench, there, "no attachment", [where, name])


@given(st.dictionaries(st.sampled_from(NODES), st.one_of(st.none(), st.integers(0, 3))), events)
@settings(max_examples=60)
def test_a_node_is_refused_exactly_when_the_union_of_volumes_exceeds_its_limit(
    limits: dict[str, int | None], sequence: list[tuple[Any, ...]]
) -> None:
    bench = VolumeBench(*(node(name) for name in NODES))
    plugin = NodeVolumeLimits(bench)
    there = Everything()
    bench.put_object(*(csi_node(name, d=limit) for name, limit in limits.items()))
    for kind, *details in sequence:
        play(bench, there, kind, details)
    wanted = {name for name in CLAIMS if name in there.claims}
    before = {name: there.count(name).get("d", 0) for name in NODES}
    for name in NODES:
        there.pods["new"] = (name, wanted)
        after = there.count(name).get("d", 0)
        del there.pods["new"]
        limit = limits.get(name)
        refused = limit is not None and after > before[name] and after > limit
        assert (name not in bench.passing(plugin, pod_with(*sorted(wanted), name="new"))) is refused
