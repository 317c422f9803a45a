"""Gangs with topology specs on whole schedulers: each inside one domain of its layer or not bound at all (coscheduling.md §7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fakes import SCHEDULER, embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, EVENT, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.clock import VirtualClock
from koordsched.cluster.port import Ref
from koordsched.config import Environment, load_config_object
from koordsched.config.flag_table import Flags

POINTS = ("preEnqueue", "preFilter", "preScore", "score", "reserve", "permit", "preBind", "postBind")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "plugins": {point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS}
            | {"preBind": {"enabled": [{"name": "Coscheduling"}, {"name": "DefaultPreBind"}]}},
            "pluginConfig": [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}],
        }
    ],
}
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
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG, Environment()), flags=FLAGS) as world:
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


def test_every_refusal_of_a_topology_and_of_a_spec_is_reported_where_its_author_looks() -> None:
    async def play(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG, Environment()), flags=FLAGS) as world:
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
