"""Random nodes with devices: their Device objects, what they offer as allocatable, and for some of them NUMA nodes (deviceshare.md §2)."""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from support.differential.choosing import Json
from support.differential.koordinator.vocabulary import GIB

API_VERSION = "scheduling.koordinator.sh/v1alpha1"
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
PARTITION_POLICY = "node.koordinator.sh/gpu-partition-policy"
WELL_PLANNED = "node.koordinator.sh/secondary-device-well-planned"
VENDOR = "node.koordinator.sh/gpu-vendor"
MODEL = "node.koordinator.sh/gpu-model"
ISOLATION = "koordinator.sh/gpu-isolation-provider"
NUMA_POLICY = "node.koordinator.sh/numa-topology-policy"

MEMORIES = (80 * GIB, 80 * GIB, 24 * GIB, 16 * GIB, 81559 << 20, 17_179_869_191, 1_000_000_007)
"""Bytes on a card; some are no whole number of anything."""
MODELS = (("nvidia", "H100"), ("nvidia", "H20"), ("", "H800"), ("nvidia", "A100-SXM4-80GB"), ("nvidia", "T4"), ("", ""))
NPU = ("huawei", "Ascend-910B")
NPU_RESOURCES = {"huawei.com/npu-core": 20, "huawei.com/npu-cpu": 14, "huawei.com/npu-dvpp": 100}
PLENTY = 1600
"""More than devices have of anything that is counted or in percent, so that DeviceShare and not NodeResourcesFit decides."""


class Machine(NamedTuple):
    """How the devices of a node lie: so many NUMA nodes (0: no device has a topology), each with so many PCIe switches."""

    numa_nodes: int
    switches: int

    def topology(self, i: int, count: int) -> Json | None:
        """Return where the i-th of so many equally distributed devices is."""
        if not self.numa_nodes:
            return None
        places = self.numa_nodes * self.switches
        place = i * places // max(count, 1)
        numa = place // self.switches
        return {"socketID": numa, "nodeID": numa, "pcieID": f"p{place}", "busID": f"0000:{place:02x}:{i:02x}.0"}


class Hardware(NamedTuple):
    """A node with what describes it. `device` is None where no koordlet reports devices."""

    node: Json
    device: Json | None
    numa: Json | None


def hardware(random: Random, name: str, *, numa: bool) -> Hardware:
    """Make a node of 1 to 8 GPUs or NPUs, with or without RDMA interfaces and FPGAs; with NUMA nodes of CPUs if asked for."""
    machine = Machine(random.choice([1, 2, 2, 2, 4, 0]), random.choice([1, 2, 2]))
    npu = random.random() < 0.12
    vendor, model = NPU if npu else random.choice(MODELS)
    labels = {"kubernetes.io/hostname": name, **{key: value for key, value in ((VENDOR, vendor), (MODEL, model)) if value}}
    if random.random() < 0.12:
        labels[PARTITION_POLICY] = random.choice(["Honor", "Honor", "Prefer"])
    if random.random() < 0.3:
        labels[ISOLATION] = "HAMi-core"
    policy = random.choice(["SingleNUMANode", "SingleNUMANode", "Restricted", "BestEffort", ""]) if numa else ""
    if policy:
        labels[NUMA_POLICY] = policy
    device = device_of(random, name, machine, npu=npu) if random.random() < 0.95 else None
    amounts = {"cpu": "16", "memory": "128Gi", "pods": "110"}
    amounts |= offered(device, plenty=random.random() < 0.75) if device else offered(device_of(random, name, machine, npu=npu), plenty=True)
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    zones = topology_manifest(name, CpuLayout.parse(f"1x{machine.numa_nodes or 2}x{8 // (machine.numa_nodes or 2)}x2"), 128 * GIB)
    return Hardware(node, device, zones if policy else None)


def device_of(random: Random, name: str, machine: Machine, *, npu: bool) -> Json:
    gpus, interfaces, fpgas = random.choice([1, 2, 3, 4, 4, 8, 8, 8]), random.choice([0, 1, 2, 2, 4, 4, 5]), random.choice([0, 0, 0, 1, 2])
    devices = cards(random, name, machine, gpus, npu=npu) if random.random() < 0.95 else []
    devices += [interface(random, machine, i, interfaces) for i in range(interfaces)]
    devices += [accelerator(random, machine, i, fpgas) for i in range(fpgas)]
    if random.random() < 0.15:
        random.shuffle(devices)
    metadata: Json = {"name": name}
    if random.random() < 0.2:
        metadata["annotations"] = {PARTITIONS: partitions(random, gpus)}
    labels = {PARTITION_POLICY: random.choice(["Honor", "Prefer"])} if random.random() < 0.2 else {}
    if random.random() < 0.08:
        labels[WELL_PLANNED] = random.choice(["true", "true", "false"])
    return {"apiVersion": API_VERSION, "kind": "Device", "metadata": {**metadata, "labels": labels}, "spec": {"devices": devices}}


def cards(random: Random, name: str, machine: Machine, count: int, *, npu: bool) -> list[Json]:
    """Return GPUs or NPUs, mostly alike: some have no topology although others have, some are of another pool, or of another size."""
    memory, without = random.choice(MEMORIES), random.random() < 0.08
    pools = random.choice([("",), ("",), ("a", "b")])
    minors = list(range(count)) if random.random() < 0.9 else sorted(random.sample(range(20), count))
    made = []
    for i, minor in enumerate(minors):
        own = random.choice(MEMORIES) if random.random() < 0.04 else memory
        resources: Json = {"koordinator.sh/gpu-memory": str(own), "koordinator.sh/gpu-memory-ratio": "100"}
        if npu:
            resources |= {key: str(amount) for key, amount in NPU_RESOURCES.items()}
        if not npu and random.random() < 0.99:
            resources["koordinator.sh/gpu-core"] = "100"
        topology = None if without and random.random() < 0.4 else machine.topology(i, count)
        made.append(info(random, "gpu", minor, resources, topology, id=f"GPU-{name}-{minor}", pool=random.choice(pools)))
    return made


def interface(random: Random, machine: Machine, i: int, count: int) -> Json:
    """Return an RDMA interface, of which some have virtual functions."""
    made = info(random, "rdma", i, {"koordinator.sh/rdma": "100"}, machine.topology(i, count), id=f"0000:{i + 16:02x}:00.0")
    if random.random() < 0.5:
        groups: list[Json] = [{"vfs": functions(random, i, 0)}]
        if random.random() < 0.5:
            groups = [{"labels": {"type": kind}, "vfs": functions(random, i, g)} for g, kind in enumerate(("fast", "slow"))]
        made["vfGroups"] = groups
    return made


def functions(random: Random, i: int, group: int) -> list[Json]:
    """Return virtual functions; their bus ids are not in the order of their minors, and count in hexadecimal."""
    ids = [f"0000:{i + 16:02x}:{group * 4 + slot:02x}.{number}" for slot in (1, 0) for number in (2, 7)]
    chosen = random.sample(ids, random.randint(1, 3))
    numbered = random.random() < 0.5
    return [{"minor": n if numbered else -1, "busID": bus} for n, bus in enumerate(chosen)]


def accelerator(random: Random, machine: Machine, i: int, count: int) -> Json:
    return info(random, "fpga", i, {"koordinator.sh/fpga": "100"}, machine.topology(i, count), id=f"fpga-{i}")


def info(random: Random, kind: str, minor: int, resources: Json, topology: Json | None, *, id: str, pool: str = "") -> Json:  # noqa: A002
    made: Json = {"type": kind, "minor": minor, "id": id, "health": random.random() < 0.94, "resources": resources}
    if pool:
        made["labels"] = {"pool": pool}
    if topology is not None:
        made["topology"] = topology
    return made


def partitions(random: Random, count: int) -> str:
    """Return a partition table: complete, with several scores, for only some counts, or none that can be read."""
    if random.random() < 0.08:
        return random.choice(["{", "null", "[]", "{}"])
    sizes = [size for size in (1, 2, 4, 8) if size <= count and random.random() < 0.85]
    scores = random.choice([(1,), (1,), (1, 2), (3, 1, 2)])
    table = {}
    for size in sizes:
        groups = [list(range(first, first + size)) for first in range(0, count - size + 1, random.choice([size, size, max(1, size // 2)]))]
        entries: list[Json] = [{"minors": each, "gpuLinkType": "NVLink", "allocationScore": random.choice(scores)} for each in groups]
        for entry in entries if random.random() < 0.4 else ():
            if random.random() < 0.7:
                entry["ringBusBandwidth"] = random.choice(["100Gi", "200Gi"])
        table[str(size)] = entries
    return json.dumps(table)


def offered(device: Json, *, plenty: bool) -> Json:
    """Return what a node of this Device offers: sums of its healthy devices, or more of the same resources."""
    sums: dict[str, int] = {}
    listed = [each for each in device["spec"]["devices"] if each["health"] or plenty]
    for each in listed:
        for name, amount in each["resources"].items():
            sums[name] = sums.get(name, 0) + int(amount)
    gpus = sum(each["type"] == "gpu" for each in listed)
    if gpus:
        sums["koordinator.sh/gpu.shared"] = 100 * gpus
    if "koordinator.sh/gpu-core" in sums:
        sums |= {"nvidia.com/gpu": gpus, "amd.com/gpu": gpus, "dcu.com/gpu": gpus, "koordinator.sh/gpu": 100 * gpus}
    return {name: str(max(50 * amount, PLENTY) if plenty else amount) for name, amount in sums.items()}
