"""Gangs with topology specs on whole schedulers: each inside one domain of its layer or not bound at all (coscheduling.md §7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.coscheduling import coscheduling_config, coscheduling_profile
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, EVENT, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.clock import VirtualClock
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags

CONFIG = coscheduling_config(coscheduling_profile(awareNetworkTopology=True))
PREEMPTING = coscheduling_config(coscheduling_profile(awareNetworkTopology=True, enablePreemption=True))
TOPOLOGY = {
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "Spine", "labelKey": ["spine"]},
            {"topologyLayer": "Block", "parentTopologyLayer": "Spine", "labelKey": ["block"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"},
        ]
    },
}
FLAGS = Flags(enable_network_topology_manager=True)


class TopologyGang(NamedTuple):
    cpus: tuple[int, ...]  # of each member
    layer: str
    port: bool  # whether a node takes one member only


gangs = st.lists(
    st.builds(
        TopologyGang,
        st.lists(st.sampled_from((1, 1, 1, 2, 3)), min_size=1, max_size=5).map(tuple),
        st.sampled_from(("Spine", "Block")),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
machines = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), st.integers(1, 6)), min_size=1, max_size=8)


def manifests(number: int, gang: TopologyGang) -> list[tuple[Any, dict[str, Any]]]:
    spec = msgspec.json.encode({"gatherStrategy": [{"layer": gang.layer, "strategy": "MustGather"}]}).decode()
    metadata = {"name": f"g{number}", "namespace": "default", "annotations": {TOPOLOGY_SPEC: spec}}
    made: list[tuple[Any, dict[str, Any]]] = [(POD_GROUP, {"metadata": metadata, "spec": {"minMember": len(gang.cpus)}})]
    for member, cpu in enumerate(gang.cpus):
        manifest = pod_manifest(f"p{number}-{member}", str(cpu))
        manifest["metadata"]["labels"] = {POD_GROUP_LABEL: f"g{number}"}
        if gang.port:
            manifest["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
        made.append((POD, manifest))
    return made


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(gangs, machines, st.randoms(use_true_random=False))
def test_a_mustgather_gang_is_in_one_domain_of_its_layer_or_waits(
    found: list[TopologyGang], nodes: list[tuple[str, str, int]], random: Any
) -> None:
    """In the end no gang of equal members waits that fits into what is left of a domain of its layer."""

    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), CONFIG, flags=FLAGS) as world:
            await world.create(CLUSTER_NETWORK_TOPOLOGY, TOPOLOGY)
            for i, (spine, block, cpu) in enumerate(nodes):
                await world.create(NODE, node_manifest(f"n{i}", str(cpu), spine=spine, block=block))
            await world.start()
            created = [each for number, gang in enumerate(found) for each in manifests(number, gang)]
            random.shuffle(created)
            for kind, manifest in created:
                await world.create(kind, manifest)
            await world.settle()
            await asyncio.sleep(120.0)
            placed = nodes_of_pods(world)
            used, ports = Counter[str](), Counter[str]()
            for number, gang in enumerate(found):
                where = [placed[f"p{number}-{member}"] for member in range(len(gang.cpus))]
                assert all(where) or not any(where)
                domains = {nodes[int(name[1:])][: 1 if gang.layer == "Spine" else 2] for name in where if name}
                assert len(domains) <= 1, f"{gang} is in {domains}"
                for name, cpu in zip(where, gang.cpus, strict=True):
                    used[name] += cpu if name else 0
                    ports[name] += gang.port if name else 0
            assert all(used[f"n{i}"] <= cpu and ports[f"n{i}"] <= 1 for i, (_, _, cpu) in enumerate(nodes))
            for number, gang in enumerate(found):
                if placed[f"p{number}-0"] or len(set(gang.cpus)) > 1:
                    continue
                slots = Counter[Any]()
                for i, (spine, block, cpu) in enumerate(nodes):
                    room = (cpu - used[f"n{i}"]) // gang.cpus[0]
                    slots[spine if gang.layer == "Spine" else (spine, block)] += min(room, 1 - ports[f"n{i}"]) if gang.port else room
                assert max(slots.values()) < len(gang.cpus), f"{gang} fits: {slots}"

    run_virtual(play)


gang_alone = st.builds(
    TopologyGang,
    st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=5).map(tuple),
    st.sampled_from(("Spine", "Block")),
    st.booleans(),
)
pods_of_low_priority = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.booleans()), max_size=10)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(gang_alone, machines, pods_of_low_priority)
def test_no_pod_is_evicted_for_a_gang_that_is_not_bound_then(gang: TopologyGang, nodes: list[tuple[str, str, int]], others: Any) -> None:
    """Whatever decides about its members: what the victims leave is a place for all of them, in one domain."""

    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), PREEMPTING, flags=FLAGS) as world:
            await world.create(CLUSTER_NETWORK_TOPOLOGY, TOPOLOGY)
            for i, (spine, block, cpu) in enumerate(nodes):
                await world.create(NODE, node_manifest(f"n{i}", str(cpu), spine=spine, block=block))
            used, ports, there = Counter[int](), set[int](), 0
            for number, (index, cpu, port) in enumerate(others):
                i = index % len(nodes)
                if used[i] + cpu > nodes[i][2] or (port and i in ports):
                    continue
                used[i] += cpu
                there += 1
                manifest = pod_manifest(f"low-{number}", str(cpu))
                manifest["spec"] |= {"nodeName": f"n{i}", "priority": 1}
                if port:
                    ports.add(i)
                    manifest["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
                await world.create(POD, manifest)
            await world.start()
            for kind, manifest in manifests(0, gang):
                if kind is POD:
                    manifest["spec"]["priority"] = 100
                await world.create(kind, manifest)
            await world.settle()
            await asyncio.sleep(300.0)
            placed = nodes_of_pods(world)
            where = [placed[f"p0-{member}"] for member in range(len(gang.cpus))]
            left = sum(name.startswith("low-") for name in placed)
            assert all(where) or not any(where)
            assert all(where) or left == there, f"{there - left} of {there} were evicted for nothing"
            domains = {nodes[int(name[1:])][: 1 if gang.layer == "Spine" else 2] for name in where if name}
            assert len(domains) <= 1

    run_virtual(play)


def test_every_refusal_of_a_topology_and_of_a_spec_is_reported_where_its_author_looks() -> None:
    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), CONFIG, flags=FLAGS) as world:
            await world.create(CLUSTER_NETWORK_TOPOLOGY, TOPOLOGY)
            await world.create(NODE, node_manifest("n0", "4", spine="x", block="a"))
            await world.start()
            await asyncio.sleep(2.0)
            layers = [{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Rack"}]
            await world.patch(Ref(CLUSTER_NETWORK_TOPOLOGY, "", "default"), {"spec": {"networkTopologySpec": layers}})
            metadata = {
                "name": "g",
                "namespace": "default",
                "annotations": {TOPOLOGY_SPEC: '{"gatherStrategy":[{"layer":"Block","strategy":"Must"}]}'},
            }
            await world.create(POD_GROUP, {"metadata": metadata, "spec": {"minMember": 1}})
            await asyncio.sleep(10.0)
            events = {(event["reason"], event["regarding"]["kind"]): event["note"] for event in world.cluster.raws(EVENT)}
            assert "there is no layer 'Rack'" in events["InvalidTopology", "ClusterNetworkTopology"]
            assert "the tree before stays" in events["InvalidTopology", "ClusterNetworkTopology"]
            assert "strategy 'Must' is neither MustGather nor PreferGather" in events["InvalidGang", "PodGroup"]

    run_virtual(play)
