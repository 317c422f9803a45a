"""No pod that InterPodAffinity refused goes on waiting when an attempt would succeed, whatever happens (framework.md §14)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from support import affinity_model
from support.affinity_strategies import NAMES, NAMESPACES, labels, names, nodes, pods, spaces
from support.builders import PodBuilder

from koordsched.api.core import Namespace, Node, Pod
from koordsched.api.kinds import NAMESPACE, NODE, POD
from koordsched.cluster.port import Ref
from koordsched.config import Environment, load_config_text
from koordsched.config.flags import Flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: InterPodAffinity}, {name: DefaultBinder}]
"""

STEPS = 8  # with the pauses between them less than the five minutes after which all pods are tried again
PAUSE = 30.0  # longer than any backoff

Event = Callable[["Story"], Awaitable[None]]


class Story:
    """A world with a scheduler, and the pods that were created in it."""

    def __init__(self, world: EmbeddedCluster) -> None:
        self.world = world
        self.created: list[Ref] = []
        self._count = 0

    async def create(self, builder: PodBuilder, place: str | None) -> None:
        made = builder.on(place) if place else builder
        raw = msgspec.to_builtins(made.build())
        self._count += 1
        raw["metadata"]["name"] = name = f"p{self._count}"
        del raw["metadata"]["uid"]
        await self.world.create(POD, raw)
        self.created.append(Ref(POD, raw["metadata"]["namespace"], name))

    async def delete(self, index: int) -> None:
        if self.created:
            await self.world.delete(self.created.pop(index % len(self.created)))

    async def relabel(self, index: int, of: dict[str, str]) -> None:
        if self.created:
            merge = {key: of.get(key) for key in ("app", "tier")}
            await self.world.patch(self.created[index % len(self.created)], {"metadata": {"labels": merge}})

    async def set_node(self, made: Node) -> None:
        ref = Ref(NODE, "", made.metadata.name)
        if await self.world.get(ref) is None:
            raw = msgspec.to_builtins(made)
            await self.world.create(NODE, raw)
        else:
            merge = {key: made.metadata.labels.get(key) for key in ("zone", "rack")}
            await self.world.patch(ref, {"metadata": {"labels": merge}})

    async def remove_node(self, name: str) -> None:
        ref = Ref(NODE, "", name)
        if await self.world.get(ref) is not None:
            await self.world.delete(ref)

    async def set_namespace(self, name: str, env: str | None) -> None:
        await self.world.patch(Ref(NAMESPACE, "", name), {"metadata": {"labels": {"env": env}}})

    def check(self) -> None:
        """Hold that every pending pod is refused by every node."""
        objects = {kind: [msgspec.convert(raw, of) for raw in self.world.cluster.raws(kind)] for kind, of in _TYPES.items()}
        there = [(each, each.spec.node_name) for each in objects[POD]]
        cluster = affinity_model.Cluster(
            {each.metadata.name: each.metadata.labels for each in objects[NODE]},
            [(each, place) for each, place in there if place],
            {each.metadata.name: each.metadata.labels for each in objects[NAMESPACE]},
        )
        for each, place in there:
            if not place:
                passing = cluster.nodes.keys() - affinity_model.filter(cluster, each).keys()
                assert not passing, (each.metadata, passing)


_TYPES: dict[Any, Any] = {POD: Pod, NODE: Node, NAMESPACE: Namespace}

events: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda made, place: lambda story: story.create(made, place), pods(), st.one_of(st.none(), st.none(), names)),
    st.builds(lambda index: lambda story: story.delete(index), st.integers(0, 9)),
    st.builds(lambda index, of: lambda story: story.relabel(index, of), st.integers(0, 9), labels),
    names.flatmap(nodes).map(lambda made: lambda story: story.set_node(made.build())),
    names.map(lambda name: lambda story: story.remove_node(name)),
    st.builds(lambda name, env: lambda story: story.set_namespace(name, env), spaces, st.sampled_from([None, "prod", "test"])),
)


@settings(max_examples=25, deadline=None)
@given(begin=st.lists(st.tuples(pods(), st.one_of(st.none(), names)), max_size=6), then=st.lists(events, max_size=STEPS))
def test_no_pod_waits_that_would_pass(begin: list[tuple[PodBuilder, str | None]], then: list[Event]) -> None:
    async def script(world: EmbeddedCluster) -> None:
        story = Story(world)
        for name in NAMESPACES:
            await world.create(NAMESPACE, {"metadata": {"name": name}})
        for name in NAMES[:2]:
            await world.create(NODE, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "1"}}})
        await world.start()
        for builder, place in begin:
            await story.create(builder, place)
        for event in [None, *then]:
            if event is not None:
                await event(story)
            await asyncio.sleep(PAUSE)
            story.check()

    run_embedded(EmbeddedOptions(config=load_config_text(CONFIG, Environment()), flags=Flags()), script)
