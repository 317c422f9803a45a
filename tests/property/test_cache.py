"""The cache after any sequence of events equals one built anew from what is there; assume and forget leave no trace."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.described import described

from koordsched.cache.cache import Cache

NAMES = [f"n{i}" for i in range(4)]
names = st.sampled_from(NAMES)
PODS = [
    pod("a").cpu("500m").memory("1Gi"),
    pod("b").host_port(80).host_port(443),
    pod("c").host_port(80),
    pod("d").request("example.com/gpu", 2).cpu("1"),
    pod("e"),
]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    made = node(name).cpu(draw(st.sampled_from(["1", "4"])))
    for key in draw(st.sets(st.sampled_from(["zone", "disk", "gen"]))):
        made = made.label(key, draw(st.sampled_from(["x", "y"])))
    for key in draw(st.sets(st.sampled_from(["t1", "t2"]))):
        made = made.taint(key, "NoSchedule")
    for image in draw(st.sets(st.sampled_from(["i1", "i2", "i3"]))):
        made = made.image(1000, image)
    made = made.allocatable("example.com/gpu", 8) if draw(st.booleans()) else made
    return made.cordoned() if draw(st.booleans()) else made


class CacheEqualsList(RuleBasedStateMachine):
    """What the cluster has, as a list, beside the cache that followed every change."""

    @initialize()
    def begin(self) -> None:
        self.cache = Cache()
        self.nodes: dict[str, NodeBuilder] = {}
        self.pods: dict[str, tuple[PodBuilder, str]] = {}
        self.count = 0

    @rule(data=st.data(), name=names)
    def set_node(self, data: st.DataObject, name: str) -> None:
        self.nodes[name] = data.draw(nodes(name))
        self.cache.set_node(self.nodes[name].build())

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    @rule(template=st.sampled_from(PODS), name=names)
    def see_bound_pod(self, template: PodBuilder, name: str) -> None:
        self.count += 1
        made = template.uid(f"u{self.count}").on(name)
        self.pods[f"u{self.count}"] = (made, name)
        self.cache.set_pod(made.info(counted_on_node=True), name)

    @rule(template=st.sampled_from(PODS), name=names, bound=st.booleans())
    def assume_and_decide(self, template: PodBuilder, name: str, bound: bool) -> None:
        self.count += 1
        uid = f"u{self.count}"
        before = columns(self.cache) if name in self.nodes else None
        self.cache.assume_pod(template.uid(uid).info(), name)
        if bound:
            self.pods[uid] = (template.uid(uid).on(name), name)
            self.cache.set_pod(self.pods[uid][0].info(counted_on_node=True), name)
            return
        self.cache.forget_pod(uid)
        if before is not None:
            after = columns(self.cache)
            assert all(same(after[key], column) for key, column in before.items())

    @rule(data=st.data(), template=st.sampled_from(PODS), name=names)
    def change_or_move_pod(self, data: st.DataObject, template: PodBuilder, name: str) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            self.pods[uid] = (template.uid(uid).on(name), name)
            self.cache.set_pod(self.pods[uid][0].info(counted_on_node=True), name)

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            del self.pods[uid]
            self.cache.remove_pod(uid)

    @invariant()
    def equals_a_cache_built_from_the_list(self) -> None:
        if not hasattr(self, "cache"):
            return
        anew = Cache()
        for made, name in self.pods.values():
            anew.set_pod(made.info(counted_on_node=True), name)
        for builder in self.nodes.values():
            anew.set_node(builder.build())
        assert described(self.cache) == described(anew)
        assert self.cache.table.live_count == len(self.nodes)
        assert sorted(self.cache.order.rows().tolist()) == self.cache.table.live_rows().tolist()
        assert self.cache.assumed_count == 0


def columns(cache: Cache) -> dict[str, np.ndarray]:
    return cache.table.columns()


def same(after: np.ndarray, before: np.ndarray) -> bool:
    """Compare what existed before; columns made meanwhile must be empty."""
    cut = after[tuple(slice(0, size) for size in before.shape)]
    grown = after.copy()
    grown[tuple(slice(0, size) for size in before.shape)] = 0
    return bool((cut == before).all()) and not grown.any()


CacheEqualsList.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestCacheEqualsList = CacheEqualsList.TestCase
