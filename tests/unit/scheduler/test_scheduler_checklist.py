"""Lines of the acceptance checklist (framework.md §13) that no scenario can show: writes, scores to the digit, chances, repairs."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from support.builders import node, pod, requirement
from support.fakes import FakeFilter, pod_manifest
from support.stages import Stage, begin, condition
from support.world import NodeSearch, World

from koordsched.api.kinds import EVENT, POD
from koordsched.cluster.port import Ref
from koordsched.framework.status import error, unschedulable

SERIES_END = 7 * 60.0  # a series has ended when nothing happened for six minutes


def test_preferred_affinity_of_10_and_30_weighs_66_and_200() -> None:
    """Line 23: normalised to 33 and 100, times the plugin's weight of 2; the nodes differ in nothing else."""
    world = World()
    for name in ("n1", "n2"):
        world.cache.set_node(node(name).cpu("4").memory("8Gi").label("name", name).build())
    asked = world.signed(pod().prefers(10, requirement("name", "In", "n1")).prefers(30, requirement("name", "In", "n2")).info())
    shape = world.profile.shapes.pre_filter(asked)
    world.profile.shapes.filter(shape, asked)
    world.profile.shapes.pre_score(shape, asked)
    world.profile.shapes.score(shape, asked)
    (raw, total), (other_raw, other_total) = (shape.evaluation.scores(world.cache.nodes_by_name[name].row) for name in ("n1", "n2"))
    scorer = [plugin.name for plugin, _ in shape.scorers].index("NodeAffinity")
    assert (raw[scorer], other_raw[scorer]) == (10, 30)
    assert other_total - total == 200 - 66


async def test_the_same_failure_twenty_times_is_one_patch_and_one_growing_event(stage: Stage) -> None:
    """Line 37. The first failure has an event of its own: it is about the pod before its condition was written, and the version is part of
    what makes an event the same (§6)."""
    judge = FakeFilter("F", n1=error("boom"))
    async with stage((judge, "filter")) as world:
        await begin(world)
        await asyncio.sleep(200)  # at most ten seconds between two attempts
        assert len(judge.asked) >= 20
        judge.refuse["n1"] = unschedulable("full")  # and no event comes that could help: the series ends
        assert world.cluster.calls["patch status", POD] == 1
        assert condition(world)[1] == 'running "F" filter plugin: boom'
        first, repeated = world.cluster.raws(EVENT)
        assert first["note"] == repeated["note"] == 'running "F" filter plugin: boom'
        assert (first.get("series"), repeated["series"]["count"]) == (None, 2)  # the first repeat is written at once
        await asyncio.sleep(2 * SERIES_END)
        assert world.cluster.raws(EVENT)[1]["series"]["count"] == len(judge.asked) - 1


async def test_a_percent_sign_in_a_message_stays_one(stage: Stage) -> None:
    """Line 38: the reference takes the text for a format."""
    judge = FakeFilter("F", n1=unschedulable("disk is 100% full, %s %d%%"))
    async with stage((judge, "filter")) as world:
        await begin(world)
        await asyncio.sleep(1)
        (event,) = world.cluster.raws(EVENT)
        assert condition(world)[1].startswith("0/1 nodes are available: 1 disk is 100% full, %s %d%%.")
        assert event["note"] == condition(world)[1]


def choice(seed: int) -> str:
    """Return where a fresh scheduler with this seed puts a pod that fits on two equal nodes."""
    world = World()
    world.search = NodeSearch(world.cache, world.nominator, Random(seed))
    for name in ("n1", "n2"):
        world.cache.set_node(node(name).cpu("4").memory("8Gi").build())
    return world.place(pod().cpu("1").memory("1Gi").info())


def test_over_a_hundred_seeds_each_of_two_equal_nodes_is_chosen_about_half_the_time() -> None:
    """Line 39."""
    chosen = [choice(seed) for seed in range(1, 101)]
    counts = Counter(chosen)
    assert counts.keys() == {"n1", "n2"}
    assert all(35 <= count <= 65 for count in counts.values()), counts
    assert [choice(seed) for seed in range(1, 11)] == chosen[:10]


async def test_a_bound_pod_that_the_watch_shows_on_another_node_is_counted_there(stage: Stage) -> None:
    """Line 44: the reference exits."""
    async with stage() as world:
        await begin(world, nodes="n1 n2")
        bound = Ref(POD, "default", "p")
        first = world.cluster.raw(bound)["spec"]["nodeName"]
        second = {"n1": "n2", "n2": "n1"}[first]
        await world.patch(bound, {"spec": {"nodeName": second}})
        await world.settle()
        cache = world.scheduler.cache
        assert {name: cache.nodes_by_name[name].requested("cpu") for name in (first, second)} == {first: 0, second: 1000}
        assert cache.repairs == 1
        comparison = await world.scheduler.debugger.compare()
        assert comparison.report()["ok"] is True
        await world.create(POD, pod_manifest("next", "4"))
        await world.settle()
        assert world.cluster.raw(Ref(POD, "default", "next"))["spec"]["nodeName"] == first
