"""kill -9 with gangs half bound: after the restart each gang completes, nothing waits for ever, nothing is sold twice.

Gangs that are tied to the network complete in the block in which they were begun.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.kills import killing
from support.live import PODS, reason, until
from support.recount import recount

from koordsched.api.koordinator.gang_membership import GANG_NAME, MIN_AVAILABLE, POD_GROUP_LABEL
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC

NODES, ROOM = 60, 4
SIZE = 5  # members of a gang
GANGS = NODES * ROOM // SIZE
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
TOPOLOGIES = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"
BLOCKS, NODES_OF_A_BLOCK = 12, 5
MUST_GATHER = '{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}'
LARGE = 8  # members of a gang for which there is no room
COSCHEDULING = {"enabled": [{"name": "Coscheduling"}]}
PROFILE = {
    "plugins": dict.fromkeys(("preEnqueue", "preFilter", "reserve", "permit", "postBind"), COSCHEDULING)
    | {"preBind": {"enabled": [{"name": "Coscheduling"}, {"name": "DefaultPreBind"}]}},
}


def create_member(rest: Rest, gang: str, number: int, *, by_annotation: bool) -> None:
    labels = {} if by_annotation else {POD_GROUP_LABEL: gang}
    annotations = {GANG_NAME: gang, MIN_AVAILABLE: str(SIZE)} if by_annotation else {}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{gang}-{number}", "labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "default-scheduler", "containers": [container]},
    }
    rest.create(PODS, body)


def create_pod_group(rest: Rest, name: str, size: int, topology: str = "") -> None:
    metadata = {"name": name, "annotations": {TOPOLOGY_SPEC: topology} if topology else {}}
    body = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": size}}
    rest.create(POD_GROUPS, body)


def create_node(rest: Rest, name: str, cpus: int, **labels: str) -> None:
    room = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})


def fill(rest: Rest) -> None:
    """Make room for all gangs but the large one, exactly. Half of them are of PodGroups, the others of annotations."""
    for number in range(NODES):
        create_node(rest, f"n-{number}", ROOM)
    for number in range(GANGS):
        by_annotation = bool(number % 2)
        if not by_annotation:
            create_pod_group(rest, f"g{number}", SIZE)
        for member in range(SIZE):
            create_member(rest, f"g{number}", member, by_annotation=by_annotation)
    create_pod_group(rest, "large", LARGE * NODES)
    for member in range(LARGE):
        create_member(rest, "large", member, by_annotation=False)


def fill_blocks(rest: Rest) -> None:
    """Make blocks that take five gangs each, and four gangs a block, which all have to be in one block."""
    layers = [{"topologyLayer": "Block", "labelKey": ["block"]}, {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"}]
    topology = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "ClusterNetworkTopology", "metadata": {"name": "default"}}
    rest.create(TOPOLOGIES, {**topology, "spec": {"networkTopologySpec": layers}})
    for number in range(BLOCKS * NODES_OF_A_BLOCK):
        create_node(rest, f"n-{number}", SIZE, block=f"b{number // NODES_OF_A_BLOCK}")
    for number in range(GANGS):
        create_pod_group(rest, f"g{number}", SIZE, MUST_GATHER)
        for member in range(SIZE):
            create_member(rest, f"g{number}", member, by_annotation=False)


def blocks_of_gangs(rest: Rest) -> dict[str, set[int]]:
    """Return in which blocks members of each gang are."""
    found: dict[str, set[int]] = {}
    for pod in rest.get(PODS)["items"]:
        if node := pod["spec"].get("nodeName"):
            found.setdefault(pod["metadata"]["name"].rsplit("-", 1)[0], set()).add(int(node[2:]) // NODES_OF_A_BLOCK)
    return found


def bound_members(rest: Rest) -> Counter[str]:
    pods: list[dict[str, Any]] = rest.get(PODS)["items"]
    return Counter(pod["metadata"]["name"].rsplit("-", 1)[0] for pod in pods if pod["spec"].get("nodeName"))


def half_bound(rest: Rest) -> bool:
    """Return whether some members of a gang are bound and others are not."""
    return any(0 < bound < SIZE for bound in bound_members(rest).values())


def phases(rest: Rest) -> set[str]:
    """Return the phases of the PodGroups whose gangs are complete."""
    groups: list[dict[str, Any]] = rest.get(POD_GROUPS)["items"]
    return {group.get("status", {}).get("phase", "") for group in groups if group["metadata"]["name"] != "large"}


def test_each_gang_completes_however_often_the_scheduler_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    with killing(plane, tmp_path, PROFILE, qps=40, burst=1, seed=5) as kills:
        kills.again_and_again(GANGS * SIZE, a_few=2 * SIZE, worth_it=lambda: half_bound(rest))
        running = kills.start_quick(GANGS * SIZE)
        until(lambda: reason(rest, "large-0") == "SchedulingGated")
        status, text = running.served.get("/apis/v1/plugins/Coscheduling/gangs")
        assert status == 200, text
        gangs = json.loads(text)
        assert {id: len(gang["boundChildren"]) for id, gang in gangs.items()} == {  # noqa: A001
            "default/large": 0,
            **{f"default/g{number}": SIZE for number in range(GANGS)},
        }
        assert not any(gang["waitingForBindChildren"] for gang in gangs.values())
        until(lambda: phases(rest) == {"Scheduled"})
        kills.end(running)
    assert recount(rest).overcommitted() == {}


def test_each_gang_completes_in_the_block_in_which_it_was_begun_however_often_the_scheduler_is_killed(
    plane: ControlPlane, tmp_path: Path
) -> None:
    rest = plane.rest()
    fill_blocks(rest)

    def look() -> None:
        assert all(len(blocks) == 1 for blocks in blocks_of_gangs(rest).values())

    profile = {**PROFILE, "pluginConfig": [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}]}
    flags = ("--enable-network-topology-manager=true",)
    with killing(plane, tmp_path, profile, qps=40, burst=1, seed=6, flags=flags) as kills:
        kills.again_and_again(GANGS * SIZE, look, a_few=2 * SIZE, worth_it=lambda: half_bound(rest))
        running = kills.start_quick(GANGS * SIZE)
        until(lambda: phases(rest) == {"Scheduled"})
        kills.end(running)
    blocks = blocks_of_gangs(rest)
    assert len(blocks) == GANGS
    assert all(len(each) == 1 for each in blocks.values())
    assert recount(rest).overcommitted() == {}
