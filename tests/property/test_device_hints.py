"""Hints of devices are what trying every set of NUMA nodes with the allocator comes to; so are those that are found by counting."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.device_tables import GPU, RDMA, DeviceNodes, gpu, gpu_demand, nic, nic_demand, request

from koordsched._core.device_allocation import allocate
from koordsched._core.device_facts import DEVICE_TYPE_NAMES, DevicePartition, DeviceReason, DeviceType, NodeDevices
from koordsched._core.device_hints import DeviceHints
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.hint_source import HintTable
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import HintAnswer, NumaNode, NumaPolicies, TopologyState
from koordsched._core.numa_filter import filter_numa
from koordsched._core.numa_joint import joint_masks
from koordsched.api.koordinator.policies import AllocateStrategy, NumaTopologyPolicy

CPU = 1


class Case:
    """A node with devices, some of them in use, and a request."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        count, numas = chance.randint(1, 8), chance.randint(1, 3)
        size = -(-count // numas)
        gpus = [gpu(minor, minor // size, f"p{minor // 2}") for minor in range(count)]
        if chance.random() < 0.3:
            gpus = [one._replace(numa=chance.choice([None, -1, 0, 1, 2])) for one in gpus]
        if chance.random() < 0.2:
            gpus = [one._replace(healthy=chance.random() < 0.8) for one in gpus]
        nics = [nic(minor, minor % numas, f"p{minor}") for minor in range(chance.choice([0, 1, 2, 4]))]
        partitions = {2: [DevicePartition([0, 1], 1), DevicePartition([2, 3], 1)]} if chance.random() < 0.15 else None
        described = NodeDevices({GPU: gpus, RDMA: nics}, partitions, chance.random() < 0.5)
        self.listed = {GPU: gpus, RDMA: nics}
        self.nodes = DeviceNodes()
        self.nodes.describe((GPU, gpus), (RDMA, nics), partitions=described.partitions, honor=described.honor)
        for minor in range(count):
            if chance.random() < 0.4:
                self.nodes.use(minor, percent=chance.choice([25, 50, 100]))
        for minor in range(len(nics)):
            if chance.random() < 0.2:
                self.nodes.use(minor, of=RDMA)
        self.request = self.wanted()
        preferred = [minor for minor in range(count) if chance.random() < 0.5]
        self.adjustment = DeviceAdjustment(preferred={GPU: preferred}) if chance.random() < 0.2 else None

    def wanted(self) -> DeviceRequest:
        chance, percent = self.chance, self.chance.choice([25, 50, 100, 100])
        wanted = {GPU: gpu_demand(chance.choice([1, 1, 2, 2, 3, 4]) if percent == 100 else 1, percent=percent)}
        if chance.random() < 0.2:
            wanted = {**wanted, RDMA: nic_demand(chance.randint(1, 2))}
            joint = (GPU, RDMA) if chance.random() < 0.7 else ()
            return request(wanted, shared=percent < 100, joint=joint, same_pcie=bool(joint) and chance.random() < 0.5)
        return request(wanted, shared=percent < 100)

    def expected(self) -> HintAnswer:
        """Try every set of NUMA nodes."""
        ids = sorted({one.numa for of_type in self.listed.values() for one in of_type if one.numa is not None and one.numa >= 0})
        if not ids:
            return HintAnswer()
        subsets = [sum(1 << numa for numa in chosen) for size in range(1, len(ids) + 1) for chosen in combinations(ids, size)]
        best = self.trial(subsets[-1])
        if isinstance(best, int):
            return HintAnswer(code=best)
        hints = []
        for mask in subsets:
            found = self.trial(mask)
            if not isinstance(found, int):
                hints.append((mask, 500 if found[1] == best[1] else 0))
        return HintAnswer(best[0], hints)

    def trial(self, mask: int) -> tuple[frozenset[str], frozenset[int]] | int:
        table, row = self.nodes.table, self.nodes.row
        whole = allocate(table, self.request, row, adjustment=self.adjustment)
        counts = self.counts()
        if not isinstance(whole, int) or whole & 63 not in {DeviceReason.NO_DEVICES, DeviceReason.NO_VFS}:
            for device_type, count in counts.items():
                within = sum(one.numa is not None and one.numa >= 0 and mask >> one.numa & 1 for one in self.listed[device_type])
                if 0 < within < count:
                    return int(DeviceReason.INSUFFICIENT_NUMA)
        found = allocate(table, self.request, row, adjustment=self.adjustment, mask=mask)
        if isinstance(found, int):
            return found
        gpus = frozenset(one.minor for one in found if one.type is GPU)
        return frozenset(DEVICE_TYPE_NAMES[device_type] for device_type in counts), gpus

    def counts(self) -> dict[DeviceType, int]:
        empty = DeviceNodes()
        everything = [gpu(minor, 0, "p") for minor in range(16)], [nic(minor, 0, "p") for minor in range(16)]
        empty.describe((GPU, everything[0]), (RDMA, everything[1]))
        found = allocate(empty.table, self.request, empty.row)
        assert not isinstance(found, int)
        return {device_type: sum(one.type is device_type for one in found) for device_type in {one.type for one in found}}


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_hints_are_what_trying_every_set_comes_to(seed: int) -> None:
    case = Case(seed)
    source, expected = DeviceHints(case.nodes.table, case.request, case.adjustment), case.expected()
    event("refused" if expected.code else f"{len(expected.hints)} sets")
    assert source.answer(case.nodes.row) == expected
    narrowest = source.answer(case.nodes.row, narrowest=True)
    smallest = min((mask.bit_count() for mask, _ in expected.hints), default=0)
    wanted = [(mask, score) for mask, score in expected.hints if mask.bit_count() == smallest]
    assert (narrowest.code, narrowest.named) == (expected.code, expected.named)
    found = [(mask, score) for mask, score in narrowest.hints if mask.bit_count() == smallest]
    assert [mask for mask, _ in found] == [mask for mask, _ in wanted]
    if len(found) > 1:
        assert found == wanted


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([NumaTopologyPolicy.SINGLE_NUMA_NODE, NumaTopologyPolicy.RESTRICTED]))
def test_cpus_agree_with_devices_as_they_do_with_a_table_of_all_sets(seed: int, policy: NumaTopologyPolicy) -> None:
    case = Case(seed)
    nodes = case.nodes.nodes
    nodes.ensure_resources(2)
    numa = NumaTable(nodes, case.nodes.table.index_attribute)
    zones = {zone: {CPU: 1000 * case.chance.randint(0, 8)} for zone in range(case.chance.randint(1, 3))}
    numa.set_node(case.nodes.row + 1, NumaNode(TopologyState.VALID, 1, zones, numa_policy=policy))
    wanted = NumaRequest({CPU: 1000 * case.chance.randint(1, 8)}, ("pods", "cpu"), NumaPolicies())
    scoring = NumaScoring({CPU: 1}, AllocateStrategy.LEAST, AllocateStrategy.LEAST)
    rows = np.array([case.nodes.row], np.int32)
    devices = DeviceHints(case.nodes.table, case.request, case.adjustment)
    answer = case.expected()
    refused = {} if answer.code else refusals(case)
    table = HintTable(DEVICE_TYPE_NAMES, {case.nodes.row: answer._replace(refused=refused)})
    codes = [filter_numa(numa, wanted, rows, source, scoring).tolist() for source in (devices, table)]
    masks = [joint_masks(numa, wanted, scoring, rows, source) for source in (devices, table)]
    assert codes[0] == codes[1]
    assert (masks[0] is None) == (masks[1] is None)
    assert masks[0] is None or masks[1] is None or masks[0].tolist() == masks[1].tolist()


def refusals(case: Case) -> dict[int, int]:
    table, row = case.nodes.table, case.nodes.row
    found = {mask: allocate(table, case.request, row, adjustment=case.adjustment, mask=mask or None) for mask in range(8)}
    return {mask: code for mask, code in found.items() if isinstance(code, int)}
