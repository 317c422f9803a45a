"""Random pods that ask for devices in all the ways there are, some of them wrong, and pods that hold devices already."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from support.differential.choosing import Json, merged, some
from support.differential.koordinator.devices import ISOLATION, NPU_RESOURCES
from support.differential.koordinator.generated import SCHEDULER_NAME

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION_SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
SCHEDULING_HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
CORE = "koordinator.sh/gpu-core"
SHARED = "koordinator.sh/gpu.shared"
GPU = "koordinator.sh/gpu"
RDMA = "koordinator.sh/rdma"
FPGA = "koordinator.sh/fpga"

Amounts = dict[str, str]
SIZES = ("1Gi", "7Gi", "7Gi", "12345678901", "24Gi", "40Gi", "80Gi")
WHOLE = ("1", "1", "1", "2", "2", "2", "3", "4", "4", "8")
RATIOS = ("17", "25", "41", "50", "50", "75", "99", "100", "200", "400", "800")


def whole(random: Random) -> Amounts:
    count = int(random.choice(WHOLE))
    return random.choice(
        [
            {"nvidia.com/gpu": str(count)},
            {"nvidia.com/gpu": str(count)},
            {random.choice(["amd.com/gpu", "dcu.com/gpu"]): str(count)},
            {GPU: str(100 * count)},
            {CORE: str(100 * count), RATIO: str(100 * count)},
            {RATIO: str(100 * count)},
        ]
    )


def shared(random: Random) -> Amounts:
    """Return a share of one card: by ratio, by memory, with or without a share of its cores."""
    core = {CORE: random.choice(["10", "30", "50", "50", "100"])} if random.random() < 0.6 else {}
    size = {MEMORY: random.choice(SIZES)} if random.random() < 0.4 else {RATIO: random.choice(RATIOS[:8])}
    return random.choice([core | size, core | size, {GPU: random.choice(["10", "50", "99"])}])


def shares_of_several(random: Random) -> Amounts:
    """Return shares of one or more cards; what each gets is mostly a whole number."""
    count = random.choice([1, 1, 2, 2, 3])
    size = {MEMORY: random.choice(SIZES)} if random.random() < 0.4 else {RATIO: str(count * random.choice([20, 50, 80, 100]))}
    core = {CORE: str(count * random.choice([10, 50, 100]) + (random.random() < 0.08))} if random.random() < 0.6 else {}
    return {SHARED: str(count), **size, **core}


def npu(random: Random) -> Amounts:
    core, cpu, dvpp = NPU_RESOURCES
    if random.random() < 0.4:
        return {core: random.choice(["5", "10", "20"]), RATIO: random.choice(["25", "50", "100"])}
    amounts = {SHARED: "1", core: random.choice(["5", "10"]), cpu: random.choice(["2", "7"]), MEMORY: random.choice(["4Gi", "12Gi"])}
    return amounts | ({dvpp: random.choice(["25", "50", "100", "150"])} if random.random() < 0.4 else {})


def wrong(random: Random) -> Amounts:
    """Return a set of names, or an amount, that cannot be meant."""
    return random.choice(
        [
            {GPU: "250"},
            {RDMA: "150"},
            {FPGA: "101"},
            {CORE: "50"},
            {MEMORY: "1Gi", RATIO: "50"},
            {"nvidia.com/gpu": "1", CORE: "50"},
            {"nvidia.com/gpu": "1", "amd.com/gpu": "1"},
            {SHARED: "2", RATIO: "101"},
            {SHARED: "2", RATIO: "300"},
            {SHARED: "2", CORE: "5", MEMORY: "1Gi"},
            {SHARED: "2", "huawei.com/npu-core": "10", "huawei.com/npu-cpu": "2", MEMORY: "1Gi"},
            {"huawei.com/npu-core": "10"},
            {CORE: "150", RATIO: "150"},
            {RATIO: "150"},
            {SHARED: "1"},
        ]
    )


def rdma(random: Random) -> Amounts:
    return {RDMA: random.choice(["1", "1", "1", "2", "10", "50", "50", "100", "100", "200", "400"])}


def fpga(random: Random) -> Amounts:
    return {FPGA: random.choice(["25", "60", "100", "100", "200"])}


def whole_with_rdma(random: Random) -> Amounts:
    return whole(random) | rdma(random)


def shared_with_rdma(random: Random) -> Amounts:
    return shared(random) | rdma(random)


def all_types(random: Random) -> Amounts:
    return whole(random) | rdma(random) | fpga(random)


def rdma_with_fpga(random: Random) -> Amounts:
    return rdma(random) | fpga(random)


def older_names(random: Random) -> Amounts:
    """Return what Koordinator still takes under its older names."""
    return random.choice(
        [
            {"kubernetes.io/gpu-core": "50", "kubernetes.io/gpu-memory-ratio": "50"},
            {"kubernetes.io/gpu": "100"},
            {"kubernetes.io/rdma": "100"},
            {"kubernetes.io/fpga": "50"},
        ]
    )


def nothing(_random: Random) -> Amounts:
    return {}


Kinds = tuple[tuple[int, Callable[[Random], Amounts]], ...]
"""With how often each is asked for."""
ALL_KINDS: Kinds = (
    (24, whole),
    (22, shared),
    (7, shares_of_several),
    (5, npu),
    (4, wrong),
    (12, rdma),
    (4, fpga),
    (14, whole_with_rdma),
    (3, shared_with_rdma),
    (2, all_types),
    (2, rdma_with_fpga),
    (2, older_names),
    (2, nothing),
)


SHARING: Kinds = ((6, shared), (1, shares_of_several), (1, whole), (1, npu))
JOINT_DEVICES: Kinds = ((5, whole_with_rdma), (1, shared_with_rdma), (1, all_types), (1, rdma), (1, whole))


def pending_pod(random: Random, name: str, kinds: Kinds) -> Json:
    (choose,) = random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    body = asking(random, name, choose(random))
    annotations = {key: value for key, value in ((HINT, hints(random, choose)), (JOINT, joint(random, choose))) if value}
    if random.random() < 0.1:
        annotations[PARTITION_SPEC] = partition_spec(random)
    return merged([body, {"metadata": {"annotations": annotations}}])


def asking(random: Random, name: str, amounts: Amounts) -> Json:
    """Return a pod that asks for these amounts in one container, or some of them in a second or an init container."""
    usual = {"cpu": random.choice(["100m", "500m", "1"]), "memory": "1Gi"} if random.random() < 0.9 else {}
    spread = len(amounts) > 1 and random.random() < 0.1
    second = dict([random.choice(list(amounts.items()))]) if spread else {}
    containers = [container("main", {**usual, **{key: value for key, value in amounts.items() if key not in second}})]
    spec: Json = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": containers}
    if second:
        containers.append(container("second", second))
    if amounts and random.random() < 0.05:
        spec["initContainers"] = [container("init", dict([random.choice(list(amounts.items()))]))]
    labels = {ISOLATION: "HAMi-core"} if random.random() < 0.02 else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}


def asked(pod: Json) -> Amounts:
    """Return what the pod's containers ask for, one amount of each name."""
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    return {name: amount for each in containers for name, amount in each.get("resources", {}).get("requests", {}).items()}


def container(name: str, amounts: Amounts) -> Json:
    found = {"name": name, "image": "registry.example/app:1"}
    return found | ({"resources": {"requests": amounts, "limits": amounts}} if amounts else {})


def hints(random: Random, kind: Callable[[Random], Amounts]) -> str:
    """Return a hint for some of the types, mostly for those that the pod asks for; some cannot be read."""
    if random.random() < 0.55:
        return ""
    if random.random() < 0.03:
        return random.choice(["{", "[]", '{"gpu": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}'])
    found: Json = {}
    if kind in (whole, shared, shares_of_several, whole_with_rdma, shared_with_rdma, all_types) and random.random() < 0.7:
        found["gpu"] = gpu_hint(random)
    if kind in (rdma, whole_with_rdma, shared_with_rdma, all_types, rdma_with_fpga) and random.random() < 0.8:
        found["rdma"] = rdma_hint(random)
    if kind in (fpga, rdma_with_fpga) or random.random() < 0.02:
        found["fpga"] = {"allocateStrategy": random.choice(["ApplyForAll", "RequestsAsCount"])}
    return json.dumps(found) if found else ""


def gpu_hint(random: Random) -> Json:
    found: Json = {}
    if random.random() < 0.35:
        found["selector"] = random.choice([{"matchLabels": {"pool": random.choice("ab")}}, {}])
    if random.random() < 0.6:
        found["requiredTopologyScope"] = random.choice(["PCIe", "NUMANode", "NUMANode", "Node", "Device", "Rack"])
    if random.random() < 0.15:
        found["exclusivePolicy"] = random.choice(["DeviceLevel", "PCIeLevel"])
    if random.random() < 0.08:
        found["allocateStrategy"] = random.choice(["ApplyForAll", "RequestsAsCount"])
    return found


def rdma_hint(random: Random) -> Json:
    found: Json = {}
    if random.random() < 0.5:
        expression = {"key": "type", "operator": random.choice(["In", "NotIn"]), "values": ["fast"]}
        found["vfSelector"] = random.choice([{}, {}, {"matchLabels": {"type": "fast"}}, {"matchExpressions": [expression]}])
    if random.random() < 0.5:
        found["allocateStrategy"] = random.choice(["ApplyForAll", "RequestsAsCount"])
    if random.random() < 0.2:
        found["exclusivePolicy"] = random.choice(["DeviceLevel", "PCIeLevel"])
    if random.random() < 0.1:
        found["selector"] = random.choice([{}, {"matchLabels": {"pool": "a"}}])
    return found


def joint(random: Random, kind: Callable[[Random], Amounts]) -> str:
    if random.random() < 0.02:
        return random.choice(["{", '{"deviceTypes": "gpu"}'])
    if kind not in (whole_with_rdma, shared_with_rdma, all_types, rdma_with_fpga) or random.random() < 0.2:
        return ""
    types = random.choice([["gpu", "rdma"], ["gpu", "rdma"], ["gpu", "rdma"], ["rdma", "gpu"], ["gpu", "rdma", "fpga"], ["gpu"]])
    return json.dumps({"deviceTypes": types} | ({"requiredScope": "SamePCIe"} if random.random() < 0.5 else {}))


def partition_spec(random: Random) -> str:
    if random.random() < 0.05:
        return random.choice(["{", '{"ringBusBandwidth": "x"}'])
    spec = {"allocatePolicy": random.choice(["Restricted", "BestEffort"])} if random.random() < 0.6 else {}
    return json.dumps(spec | ({"ringBusBandwidth": random.choice(["50Gi", "150Gi", "300Gi"])} if random.random() < 0.5 else {}))


def holding_pod(random: Random, name: str, device: Json) -> Json:
    """Return a pod that runs on the node of the Device and holds some of it; what it holds may be more than there is."""
    infos = device["spec"]["devices"]
    held = some(random, infos, 2)
    allocations: dict[str, list[Json]] = {}
    sums: dict[str, int] = {}
    for each in held:
        amounts = {key: int(amount) for key, amount in each["resources"].items()}
        if random.random() < 0.5:
            share = random.choice([25, 50, 60])
            amounts = {key: amount * share // 100 for key, amount in amounts.items()}
        entry: Json = {"minor": each["minor"], "resources": {key: str(amount) for key, amount in amounts.items()}}
        groups = each.get("vfGroups", ())
        if groups and random.random() < 0.7:
            function = random.choice(random.choice(groups)["vfs"])
            entry["extension"] = {"vfs": [{"busID": function["busID"]}]}
        allocations.setdefault(each["type"], []).append(entry)
        for key, amount in amounts.items():
            sums[key] = sums.get(key, 0) + amount
    body = asking(random, name, {key: str(amount) for key, amount in sums.items()})
    annotations = {ALLOCATED: json.dumps(allocations)} if random.random() < 0.93 else {}
    where = {"spec": {"nodeName": device["metadata"]["name"]}, "status": {"phase": "Running"}}
    return merged([body, {"metadata": {"annotations": annotations}}, where])


def designated(random: Random, pod: Json, device: Json) -> Json:
    """Return the pod with GPUs and interfaces of a node that another component has chosen, rightly or not."""
    infos = device["spec"]["devices"]
    gpus = [each for each in infos if each["type"] == "gpu"]
    allocations: dict[str, list[Json]] = {}
    if gpus:
        for each in some(random, gpus, 2):
            amounts = {key: amount for key, amount in each["resources"].items() if key != MEMORY}
            allocations.setdefault("gpu", []).append({"minor": each["minor"], "resources": amounts})
    for each in (each for each in infos if each["type"] == "rdma" and random.random() < 0.5):
        entry: Json = {"minor": each["minor"], "resources": each["resources"]}
        if groups := each.get("vfGroups"):
            entry["extension"] = {"vfs": [{"busID": function["busID"]} for function in groups[0]["vfs"]]}
        allocations.setdefault("rdma", []).append(entry)
    annotations = {ALLOCATED: json.dumps(allocations)}
    if random.random() < 0.8:
        annotations[SCHEDULING_HINT] = json.dumps({"extensions": {"DeviceShare": {}}})
    where = {"spec": {"nodeSelector": {"kubernetes.io/hostname": device["metadata"]["name"]}}}
    return merged([pod, {"metadata": {"annotations": annotations}}, where])
