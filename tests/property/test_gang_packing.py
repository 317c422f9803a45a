"""A gang that exhaustive search can place on a small cluster is placed, whatever its members are; else nothing is held for it."""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import Any, NamedTuple

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.fakes import SCHEDULER, embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import MODE, NON_STRICT, POD_GROUP_LABEL, STRICT
from koordsched.clock import VirtualClock
from koordsched.config import Environment, load_config_object

POINTS = ("preEnqueue", "preFilter", "reserve", "permit", "preBind", "postBind")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "plugins": {point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS}
            | {"preBind": {"enabled": [{"name": "Coscheduling"}, {"name": "DefaultPreBind"}]}},
        }
    ],
}


class Member(NamedTuple):
    cpu: int
    memory: int  # Gi
    zone: str  # which it has to be in; "": any
    port: bool  # of such members a node takes one


class Machine(NamedTuple):
    cpu: int
    memory: int
    zone: str


kinds = st.builds(Member, st.integers(1, 4), st.integers(1, 4), st.sampled_from(("", "", "", "x")), st.booleans())
members = st.lists(kinds, min_size=1, max_size=3).flatmap(lambda known: st.lists(st.sampled_from(known), min_size=1, max_size=6))
machines = st.lists(st.builds(Machine, st.integers(1, 8), st.integers(1, 8), st.sampled_from("xy")), min_size=1, max_size=4)


def fits(gang: tuple[Member, ...], nodes: list[Machine]) -> bool:
    """Answer whether there is a node for every member, by trying all there are."""

    def place(number: int, free: list[tuple[int, int, bool]]) -> bool:
        if number == len(gang):
            return True
        member = gang[number]
        for i, (cpu, memory, port) in enumerate(free):
            if member.cpu > cpu or member.memory > memory or (member.port and port) or member.zone not in {"", nodes[i].zone}:
                continue
            after = (cpu - member.cpu, memory - member.memory, port or member.port)
            if place(number + 1, [*free[:i], after, *free[i + 1 :]]):
                return True
        return False

    return place(0, [(node.cpu, node.memory, False) for node in nodes])


def manifest(number: int, member: Member) -> dict[str, Any]:
    made = pod_manifest(f"p{number}", str(member.cpu))
    made["metadata"]["labels"] = {POD_GROUP_LABEL: "g"}
    container = made["spec"]["containers"][0]
    container["resources"]["requests"]["memory"] = f"{member.memory}Gi"
    if member.port:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if member.zone:
        made["spec"]["nodeSelector"] = {"zone": member.zone}
    return made


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=80)
@given(members, machines, st.integers(0, 2), st.booleans())
@example([Member(2, 1, "", False)] * 2 + [Member(3, 1, "", False)], [Machine(4, 8, "x"), Machine(3, 8, "x")], 0, True)
@example([Member(1, 3, "", False), Member(3, 1, "", False)] * 2, [Machine(4, 4, "x")] * 2, 0, True)
@example([Member(1, 1, "", True), Member(1, 1, "", False), Member(1, 1, "", True)], [Machine(1, 1, "x"), Machine(2, 2, "x")], 0, True)
def test_a_gang_is_placed_where_exhaustive_search_places_it(gang: list[Member], nodes: list[Machine], spare: int, strict: bool) -> None:
    """Of some gangs not all members are needed: then as many as are needed are bound together where any choice of them fits."""
    needed = max(1, len(gang) - spare)

    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG, Environment())) as world:
            for i, node in enumerate(nodes):
                made = node_manifest(f"n{i}", str(node.cpu), zone=node.zone)
                made["status"]["allocatable"]["memory"] = f"{node.memory}Gi"
                await world.create(NODE, made)
            await world.start()
            metadata = {"name": "g", "namespace": "default", "annotations": {MODE: STRICT if strict else NON_STRICT}}
            await world.create(POD_GROUP, {"metadata": metadata, "spec": {"minMember": needed}})
            for number, member in enumerate(gang):
                await world.create(POD, manifest(number, member))
            await world.settle()
            placed = {name: node for name, node in nodes_of_pods(world).items() if node}
            possible = any(fits(chosen, nodes) for chosen in combinations(gang, needed))
            if not possible:
                assert not placed
                assert not world.scheduler.cache.pods
                return
            assert len(placed) >= needed, f"{gang} on {nodes}: {placed}"
            for i, node in enumerate(nodes):
                there = tuple(member for number, member in enumerate(gang) if placed.get(f"p{number}") == f"n{i}")
                assert fits(there, [node])

    run_virtual(play)
