"""A world to which events are played and in which the plugin under test places pods itself, beside what there is for one that begins anew.

For property tests that hold what kept columns say against what those of a new world say (tests/property/test_numa_shapes.py,
tests/property/test_device_shapes.py).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from koordsched.api.kinds import NODE
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.framework.cycle_state import noted_changes
from koordsched.framework.shape import Shape
from support.builders import NodeBuilder, PodBuilder
from support.world import Setup, World


class PlacingCluster(ABC):
    """Nodes, what describes them, and pods. Events: "node" (name, index of a kind), "no node" (name), "place" (number, index of a pod),
    "gone" (number), "undone turn" (indexes of pods), and those of the class that derives from it."""

    setup: Setup
    kinds: Sequence[NodeBuilder]
    sorts: Sequence[PodBuilder]

    def __init__(self) -> None:
        self.world = World(self.setup)
        self.nodes: dict[str, Any] = {}
        self.pods: dict[int, tuple[PodBuilder, str]] = {}  # by number: with its annotations, and its node
        self._versions = 0

    @abstractmethod
    def play_own(self, kind: str, details: list[Any]) -> None:
        """Play an event that is about what describes nodes."""

    @abstractmethod
    def describe(self, world: World) -> None:
        """Let a new world know what describes the nodes, before these come."""

    @abstractmethod
    def facts(self, world: World) -> object:
        """Return what the plugin under test keeps of all nodes."""

    def play(self, kind: str, details: list[Any]) -> None:
        match kind, details:
            case "node", [name, which]:
                made = self.kinds[which].build()
                self.nodes[name] = replace(made, metadata=replace(made.metadata, name=name, uid=name, resource_version=self.next()))
                apply_node(self.world, self.nodes[name])
            case "no node", [name] if name in self.nodes:
                self.world.informer(NODE)._objects.apply(WatchEvent(DELETED, self.nodes.pop(name)))
                self.world.cache.remove_node(name)
            case "place", [number, which] if number not in self.pods:
                self.place(number, self._named(which, f"{number}"))
            case "undone turn", [kinds]:
                self.undone_turn(kinds)
            case "gone", [number] if self.pods.pop(number, None):
                self.world.cache.remove_pod(f"{number}")
            case _:
                self.play_own(kind, details)

    def next(self) -> str:
        """Return a new resourceVersion."""
        self._versions += 1
        return str(self._versions)

    def place(self, number: int, builder: PodBuilder) -> None:
        """Schedule and bind a pod, if it fits."""
        info, profile = self.world.signed(builder.info()), self.world.profile
        state, found = self.world.search.find(profile, info)
        if not isinstance(found, str):
            return
        self.world.cache.assume_pod(info, found)
        refusal = profile.run_reserve(state, info, found)
        assert refusal is None, f"Filter let {found} pass, and Reserve said {refusal}"
        work, _ = profile.pre_bind_work(state, info, found)
        for plugin in work:
            asyncio.run(plugin.pre_bind(state, info, found))
        for key, text in (item for changes in noted_changes(state, info.pod) for item in changes.annotations.items()):
            assert text is not None
            builder = builder.annotation(key, text)
        self.pods[number] = (builder, found)
        self.world.cache.set_pod(info.with_pod(builder.on(found).build()), found)

    def undone_turn(self, kinds: list[int]) -> None:
        """Place pods in one turn and undo them: every allocation is what it was."""
        world, table = self.world, self.world.cache.table
        before, end, placed = self.facts(world), table.log_end, []
        table.begin_turn()
        for index, which in enumerate(kinds):
            info = world.signed(self._named(which, f"member-{index}").info())
            state, found = world.search.find(world.profile, info)
            if isinstance(found, str):
                world.cache.assume_pod(info, found)
                assert world.profile.run_reserve(state, info, found) is None
                placed.append((state, info, found))
        for state, info, found in reversed(placed):
            world.profile.run_unreserve(state, info, found)
            world.cache.forget_pod(info.uid)
        assert table.rewind_turn()
        assert table.log_end == end
        assert self.facts(world) == before

    def begun_anew(self, without: str = "") -> World:
        """Return a world of all there is, but for the pods of one node."""
        world = World(self.setup)
        self.describe(world)
        for made in self.nodes.values():
            apply_node(world, made)
        for builder, where in self.pods.values():
            if where != without:
                world.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
        return world

    def said(self, world: World) -> list[dict[str, Any] | str]:
        """Return what is said of each sort of pod."""
        return [said(world, builder) for builder in self.sorts]

    def check_simulation(self, name: str) -> None:
        """Hold that a simulation without the pods of a node says what a world without them says, and leaves nothing behind."""
        target = self.world.cache.node(name)
        if target is None:
            return
        before = self.facts(self.world)
        without, shapes = self.begun_anew(without=name), self.world.profile.shapes
        for builder in self.sorts:
            info = self.world.signed(builder.info())
            refusal = shapes.simulation(shapes.pre_filter(info)).simulate_on_node(info, target, remove=list(target.pods.values()))
            answer = said(without, builder)
            expected = answer if isinstance(answer, str) else answer[name]
            assert (refusal.message if refusal is not None else "") == (expected if isinstance(expected, str) else "")
        assert self.facts(self.world) == before

    def _named(self, which: int, uid: str) -> PodBuilder:
        made = self.sorts[which].build()
        return PodBuilder(replace(made, metadata=replace(made.metadata, uid=uid)))


def apply_node(world: World, made: Any) -> None:
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
    world.cache.set_node(made)


def said(world: World, builder: PodBuilder) -> dict[str, Any] | str:
    """Return for each node the refusal or the scores of a pod; or why the pod is refused as a whole."""
    info = world.signed(builder.info())
    shapes = world.profile.shapes
    shape = shapes.pre_filter(info)
    shapes.filter(shape, info)
    if shape.pre_filtered.refusal is not None:
        return shape.pre_filtered.refusal.message
    shapes.pre_score(shape, info)
    shapes.score(shape, info)
    answers: dict[str, Any] = {}
    for row in world.cache.table.live_rows().tolist():
        name = world.cache.nodes().info(row).name
        f, code = shape.evaluation.verdict(row)
        feasible = shape.evaluation.is_feasible(row)
        answers[name] = scores(shape, row) if feasible else shape.filters[f].explain(shape.state, info, code).message
    return answers


def scores(shape: Shape, row: int) -> list[int]:
    """Return the raw scores of those who take part, and the total."""
    raw, total = shape.evaluation.scores(row)
    return [score for s, score in enumerate(raw) if shape.evaluation.is_enabled(s)] + [total]
