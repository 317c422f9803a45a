"""Gangs on whole schedulers: never a part of one, no deadlock between them, and nothing held for those that wait (coscheduling.md §4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.coscheduling import coscheduling_config
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import GROUPS, MODE, NON_STRICT, POD_GROUP_LABEL, STRICT
from koordsched.clock import VirtualClock
from koordsched.cluster.memory.faults import Fault
from koordsched.cluster.port import ServerError
from koordsched.plugins.coscheduling.gangs import Gangs


class Group(NamedTuple):
    sizes: tuple[int, ...]  # members of each of its gangs, all of which are needed
    strict: bool
    cpus: tuple[int, ...]  # of the members, in turn

    @property
    def asked(self) -> list[int]:
        """Return the cpu of every member."""
        return [self.cpus[member % len(self.cpus)] for size in self.sizes for member in range(size)]


sizes = st.lists(st.integers(1, 4), min_size=1, max_size=2).map(tuple)
cpus = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)
groups = st.lists(st.builds(Group, sizes, st.booleans(), cpus), min_size=1, max_size=5)


def fits(asked: tuple[int, ...], left: list[int]) -> bool:
    """Answer whether members that ask for so much can be placed, by trying all there is."""
    if not asked:
        return True
    return any(room >= asked[0] and fits(asked[1:], [*left[:i], room - asked[0], *left[i + 1 :]]) for i, room in enumerate(left))


def pod_groups(number: int, group: Group) -> list[dict[str, Any]]:
    ids = [f"default/g{number}-{i}" for i in range(len(group.sizes))]
    text = "[" + ",".join(f'"{id}"' for id in ids) + "]"  # noqa: A001
    annotations = {GROUPS: text, MODE: STRICT if group.strict else NON_STRICT}
    return [
        {"metadata": {"name": f"g{number}-{i}", "namespace": "default", "annotations": annotations}, "spec": {"minMember": size}}
        for i, size in enumerate(group.sizes)
    ]


def members(number: int, group: Group) -> list[dict[str, Any]]:
    made = []
    for i, size in enumerate(group.sizes):
        for member in range(size):
            manifest = pod_manifest(f"p{number}-{i}-{member}", str(group.cpus[member % len(group.cpus)]))
            manifest["metadata"]["labels"] = {POD_GROUP_LABEL: f"g{number}-{i}"}
            made.append(manifest)
    return made


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(groups, st.randoms(use_true_random=False), st.lists(st.integers(1, 6), min_size=1, max_size=3), st.booleans())
def test_gangs_are_bound_whole_or_not_at_all_and_who_fits_goes(found: list[Group], random: Any, rooms: list[int], faulty: bool) -> None:
    """Members arrive in any order; binds may fail. In the end no group is bound in part, nothing is held for the others, and none of
    those would fit by itself into the room that is left."""

    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
            for i, room in enumerate(rooms):
                await world.create(NODE, node_manifest(f"n{i}", str(room)))
            if faulty:
                world.cluster.faults.rules.append(Fault(verb="bind", probability=0.3, times=6, error=lambda: ServerError("not now")))
            await world.start()
            created = [(POD_GROUP, each) for number, group in enumerate(found) for each in pod_groups(number, group)]
            created += [(POD, each) for number, group in enumerate(found) for each in members(number, group)]
            random.shuffle(created)
            for kind, manifest in created:
                await world.create(kind, manifest)
            await world.settle()
            await asyncio.sleep(900.0)
            placed = nodes_of_pods(world)
            used = Counter[str]()
            for number, group in enumerate(found):
                nodes = [placed[each["metadata"]["name"]] for each in members(number, group)]
                assert all(nodes) or not any(nodes), f"group {number} {group} on {nodes}"
                for node, cpu in zip(nodes, group.asked, strict=True):
                    used[node] += cpu if node else 0
            left = [room - used[f"n{i}"] for i, room in enumerate(rooms)]
            assert min(left) >= 0
            assert not world.scheduler.cache.assumed_count
            gangs = world.scheduler.cache.shared.find(Gangs)
            assert gangs is not None
            assert not any(gang.waiting for gang in gangs.by_id.values())
            for number, group in enumerate(found):
                if not placed[members(number, group)[0]["metadata"]["name"]]:
                    assert not fits(tuple(sorted(group.asked, reverse=True)), left), f"group {number} {group} fits into {left}"

    run_virtual(play)
