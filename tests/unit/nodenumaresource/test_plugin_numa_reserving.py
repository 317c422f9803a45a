"""What a pod is given of its node, and what is written of it: nodenumaresource.md §11, §13 and lines of §17."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.builders import PodBuilder, node, pod
from support.numa import NumaBench, holding, lsr, topology

from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.pods import RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.config.koordinator_args import NodeNUMAResourceArgs
from koordsched.framework.cycle_state import CycleState, noted_changes
from koordsched.framework.status import SKIP, Status, error, unschedulable
from koordsched.framework.topologymanager import share_topology_manager
from koordsched.plugins.nodenumaresource.plugin import NodeNUMAResource

POLICY = "node.koordinator.sh/numa-topology-policy"
BIND = "node.koordinator.sh/cpu-bind-policy"
MACHINE = node("n1").cpu("16").memory("64Gi")
FULL = NodeNUMAResourceArgs()


class Machine:
    """The plugin on one node."""

    def __init__(self, args: NodeNUMAResourceArgs = FULL, builder: Any = MACHINE, **nrt: Any) -> None:
        self.bench = NumaBench()
        self.plugin = NodeNUMAResource(args, self.bench)
        share_topology_manager([self.plugin])
        self.bench.set(builder)
        if nrt:
            self.bench.describe(topology("n1", **nrt))

    async def give(self, builder: PodBuilder) -> tuple[dict[str, Any], Status | None]:
        """Return what would be written to the pod, parsed, and Reserve's answer. What is given stays given."""
        state, info = CycleState(), builder.info()
        refused = self.plugin.pre_filter(state, info, self.bench.cache.nodes())
        assert refused is None or refused == SKIP
        self.bench.cache.assume_pod(info, "n1")
        status = self.plugin.reserve(state, info, "n1")
        if status is not None or self.plugin.pre_bind_pre_flight(state, info, "n1") == SKIP:
            return {}, status
        assert await self.plugin.pre_bind(state, info, "n1") is None
        written = {key: value for changes in noted_changes(state, info.pod) for key, value in changes.annotations.items()}
        return {key: value if value is None else json.loads(value) for key, value in written.items()}, None

    @property
    def free(self) -> str:
        cpus = self.plugin._numa.node("n1").cpus
        assert cpus is not None
        return format_cpus(cpus.free())


async def test_an_lsr_pod_gets_whole_cores_and_its_policy_is_written_back() -> None:
    written, _ = await Machine(layout="2x1x4x2").give(lsr(cpus=4))
    assert written == {RESOURCE_STATUS: {"cpuset": "0-3"}, RESOURCE_SPEC: {"preferredCPUBindPolicy": "FullPCPUs"}}


async def test_default_is_replaced_by_what_it_stood_for_and_other_fields_are_kept() -> None:
    """§17 line 26."""
    spec = {"preferredCPUBindPolicy": "Default", "preferredCPUExclusivePolicy": "PCPULevel"}
    written, _ = await Machine(layout="2x1x4x2").give(lsr(cpus=2).annotation(RESOURCE_SPEC, json.dumps(spec)))
    assert written[RESOURCE_SPEC] == {"preferredCPUBindPolicy": "FullPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"}


async def test_the_nodes_policy_binds_any_pod_and_becomes_its_required_one() -> None:
    """§17 line 14."""
    machine = Machine(builder=MACHINE.label(BIND, "FullPCPUsOnly"), layout="2x1x4x2")
    spread = json.dumps({"preferredCPUBindPolicy": "SpreadByPCPUs"})
    written, _ = await machine.give(lsr("a").annotation(RESOURCE_SPEC, spread))
    assert written[RESOURCE_STATUS] == {"cpuset": "0-3"}
    assert written[RESOURCE_SPEC] == {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "SpreadByPCPUs"}
    written, _ = await machine.give(pod("b").cpu("2"))
    assert written[RESOURCE_STATUS] == {"cpuset": "8-9"}  # LeastAllocated: the emptier NUMA node


async def test_a_pod_that_asks_for_nothing_gets_nothing_and_nothing_is_written() -> None:
    assert await Machine(layout="2x1x4x2").give(pod("ls").cpu("2")) == ({}, None)
    assert await Machine().give(pod("ls")) == ({}, None)


async def test_without_a_topology_reserve_fails_with_an_error() -> None:
    assert await Machine().give(lsr()) == ({}, error("node(s) invalid CPU Topology"))


async def test_amounts_are_recorded_by_numa_node_in_the_formats_of_the_request() -> None:
    machine = Machine(builder=MACHINE.label(POLICY, "Restricted"), layout="2x1x4x2", memory=32 << 30)
    written, _ = await machine.give(pod("ls").cpu("9500m").memory("3G"))
    first = {"node": 0, "resources": {"cpu": "4750m", "memory": "1500M"}}
    assert written == {RESOURCE_STATUS: {"numaNodeResources": [first, {"node": 1, "resources": {"cpu": "4750m", "memory": "1500M"}}]}}


async def test_a_zone_that_a_pod_empties_gives_its_own_format() -> None:
    resources = [{"name": "cpu", "allocatable": "8"}, {"name": "memory", "allocatable": "1Gi"}]
    zones = [{"name": f"node-{numa}", "type": "Node", "resources": resources} for numa in (0, 1)]
    machine = Machine(builder=MACHINE.label(POLICY, "SingleNUMANode"), layout="2x1x4x2", zones=zones)
    written, _ = await machine.give(pod("ls").cpu("1").memory("1073741824"))
    assert written[RESOURCE_STATUS]["numaNodeResources"][0]["resources"] == {"cpu": "1", "memory": "1Gi"}


async def test_on_a_machine_of_one_zone_single_numa_node_records_nothing() -> None:
    """§17 line 22."""
    machine = Machine(builder=MACHINE.label(POLICY, "SingleNUMANode"), layout="1x1x8x2")
    assert await machine.give(pod("ls").cpu("2")) == ({RESOURCE_STATUS: {}}, None)


async def test_best_effort_that_cannot_be_aligned_takes_all_zones() -> None:
    machine = Machine(builder=MACHINE.label(POLICY, "BestEffort"), layout="2x1x4x2")
    written, _ = await machine.give(lsr(cpus=10))
    nodes = written[RESOURCE_STATUS]["numaNodeResources"]
    assert [(of["node"], of["resources"]["cpu"]) for of in nodes] == [(0, "5"), (1, "5")]
    assert written[RESOURCE_STATUS]["cpuset"] == "0-4,8-12"


async def test_reserve_and_unreserve_leave_everything_as_it_was() -> None:
    machine = Machine(builder=MACHINE.label(POLICY, "Restricted"), layout="2x1x4x2")
    machine.bench.put(holding(lsr("other", 2), "0-1", {0: {"cpu": "2"}}), "n1")
    before = machine.plugin._table.usage_of(machine.plugin._numa.node("n1").index)
    state, info = CycleState(), lsr("mine", 4).info()
    machine.plugin.pre_filter(state, info, machine.bench.cache.nodes())
    assert machine.plugin.reserve(state, info, "n1") is None
    assert machine.free != "2-15"
    machine.plugin.unreserve(state, info, "n1")
    assert machine.free == "2-15"
    assert machine.plugin._table.usage_of(machine.plugin._numa.node("n1").index) == before


async def test_unreserve_leaves_alone_what_reserve_did_not_give() -> None:
    machine = Machine(layout="2x1x4x2")
    machine.bench.put(holding(lsr("p", 2), "0-1"), "n1")
    machine.plugin.unreserve(CycleState(), lsr("p", 2).info(), "n1")
    assert machine.free == "2-15"


async def test_what_an_attempt_left_whose_binding_failed_is_not_counted_and_is_taken_away() -> None:
    left = pod("ls").cpu("2").annotation(RESOURCE_STATUS, '{"cpuset":"0-1"}')
    machine = Machine(layout="2x1x4x2")
    assert await machine.give(left) == ({RESOURCE_STATUS: None}, None)
    assert machine.free == "0-15"


async def test_what_was_left_gives_way_to_what_is_given_now() -> None:
    machine = Machine(layout="2x1x4x2")
    machine.bench.put(holding(lsr("other", 2), "0-1"), "n1")
    written, _ = await machine.give(lsr("again", 2).annotation(RESOURCE_STATUS, '{"cpuset":"0-1"}'))
    assert written[RESOURCE_STATUS] == {"cpuset": "8-9"}


async def test_shortage_in_reserve_is_a_refusal_with_its_text() -> None:
    machine = Machine(layout="1x1x2x2")
    machine.bench.put(holding(lsr("other", 2), "0-1"), "n1")
    assert await machine.give(lsr("mine", 4)) == ({}, unschedulable("not enough cpus available to satisfy request"))


async def test_an_empty_default_policy_binds_only_who_names_one() -> None:
    """§17 line 13."""
    machine = Machine(NodeNUMAResourceArgs(default_cpu_bind_policy=""), layout="2x1x4x2")
    assert await machine.give(lsr("a")) == ({}, None)
    written, _ = await machine.give(lsr("b").annotation(RESOURCE_SPEC, '{"preferredCPUBindPolicy":"SpreadByPCPUs"}'))
    assert written[RESOURCE_STATUS] == {"cpuset": "0,2,4,6"}


@pytest.mark.parametrize(("args", "cpuset"), [(FULL, "0-3"), (NodeNUMAResourceArgs(honor_distribute_evenly=True), "0-1,8-9")])
async def test_cpus_are_distributed_evenly_only_where_that_is_honoured(args: NodeNUMAResourceArgs, cpuset: str) -> None:
    """D12."""
    labelled = MACHINE.label("node.koordinator.sh/numa-allocate-strategy", "DistributeEvenly")
    written, _ = await Machine(args, labelled, layout="2x1x4x2").give(lsr(cpus=4))
    assert written[RESOURCE_STATUS] == {"cpuset": cpuset}


async def test_pod_level_policies_count_only_where_they_are_honoured() -> None:
    """D11."""
    nrt: dict[str, Any] = {"layout": "2x1x4x2", "topologyPolicies": ["RestrictedPodLevel"]}
    written, _ = await Machine(**nrt).give(lsr("a", 4))
    assert "numaNodeResources" not in written[RESOURCE_STATUS]
    written, _ = await Machine(NodeNUMAResourceArgs(honor_pod_level_policies=True), **nrt).give(lsr("a", 4))
    assert written[RESOURCE_STATUS]["numaNodeResources"] == [{"node": 0, "resources": {"cpu": "4"}}]


async def test_the_plugins_of_two_profiles_give_out_the_cpus_of_one_node_and_each_has_its_own_arguments() -> None:
    """frameworkext.md §2.3."""
    machine = Machine(layout="2x1x4x2")
    first, second = machine.plugin, NodeNUMAResource(NodeNUMAResourceArgs(default_cpu_bind_policy="SpreadByPCPUs"), machine.bench)
    share_topology_manager([second])
    written, _ = await machine.give(lsr("a", 4))
    assert written[RESOURCE_STATUS] == {"cpuset": "0-3"}
    machine.plugin = second
    written, _ = await machine.give(lsr("b", 4))
    assert written[RESOURCE_STATUS] == {"cpuset": "8,10,12,14"}
    (route,) = first.routes()
    assert [pod["name"] for pod in route.answer({"nodeName": "n1"}).body["allocatedPods"]] == ["a", "b"]
