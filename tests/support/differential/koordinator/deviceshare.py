"""Random trials for DeviceShare, half of them with NodeNUMAResource and NUMA policies on nodes (deviceshare.md).

Between two pods devices fall ill and recover, Devices are rewritten or deleted, and pods that hold devices end or are deleted.
"""

from __future__ import annotations

import copy
import json
from random import Random

from support.differential.choosing import Json, merged, some
from support.differential.koordinator.device_pods import ALL_KINDS, JOINT_DEVICES, SHARING, designated, holding_pod, pending_pod
from support.differential.koordinator.devices import MODEL, NPU, Hardware, hardware
from support.differential.koordinator.generated import GeneratedTrial, Step, arguments_of, configuration
from support.differential.koordinator.vocabulary import PRIORITIES, PRIORITY_CLASSES

PODS = 20
NAMESPACE = "koordinator-system"
TEMPLATES = {
    "-".join(NPU): {
        "vir05_1c_8g": {"huawei.com/npu-core": 5, "huawei.com/npu-cpu": 2, "koordinator.sh/gpu-memory": "4Gi"},
        "vir10_3c_16g": {
            "huawei.com/npu-core": 10,
            "huawei.com/npu-cpu": 7,
            "huawei.com/npu-dvpp": 50,
            "koordinator.sh/gpu-memory": "12Gi",
        },
        "vir10_ratio": {"huawei.com/npu-core": 10, "koordinator.sh/gpu-memory-ratio": 50},
        "vir10_twin": {"huawei.com/npu-core": 10, "koordinator.sh/gpu-memory-ratio": 50},
    },
    "huawei-Ascend-310P3": {"vir01": {"huawei.com/npu-core": 5, "huawei.com/npu-cpu": 2, "koordinator.sh/gpu-memory": "12Gi"}},
}
SCORED = ("koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-core", "koordinator.sh/rdma")


def trial(random: Random) -> GeneratedTrial:
    """Make a cluster of one to four nodes with PODS pods to schedule. The reference's DeviceShare needs its plugin Reservation."""
    numa = random.random() < 0.4
    machines = [hardware(random, f"n{i}", numa=numa) for i in range(random.choice([1, 2, 3, 3, 4]))]
    held = [each.device for each in machines if each.device and each.device["spec"]["devices"]]
    running = [holding_pod(random, f"r{i}", random.choice(held)) for i in range(random.randint(0, len(held)))] if held else []
    ranked = random.random() < 0.3
    if ranked:
        running = [merged([pod, priority(random)]) for pod in running]
    described = [each for machine in machines for each in machine if each is not None]
    objects = [*(PRIORITY_CLASSES if ranked else ()), *templates(), *described, *running]
    kinds = random.choice([ALL_KINDS, ALL_KINDS, ALL_KINDS, SHARING, JOINT_DEVICES])
    hinted, steps = random.random() < 0.2, []
    for i in range(PODS):
        written, deleted = changes(random, machines, running, i) if i and random.random() < 0.5 else ([], [])
        pod = pending_pod(random, f"p{i}", kinds)
        if hinted and random.random() < 0.3 and held:
            pod = designated(random, pod, random.choice(held))
        if ranked:
            pod = merged([pod, priority(random)])
        steps.append(Step(written, deleted, pod))
    enabled: list[Json] = [{"name": "SchedulingHint"}] if hinted else []
    enabled += [{"name": "NodeNUMAResource"}] if numa else []
    enabled += [{"name": "DeviceShare", "weight": random.choice([1, 1, 2])}, {"name": "Reservation"}, {"name": "DefaultPreBind"}]
    return GeneratedTrial(configuration({"multiPoint": {"enabled": enabled}}, [arguments(random, machines)]), objects, steps)


def priority(random: Random) -> Json:
    name = random.choice(["prod", "mid", "batch"])
    return {"spec": {"priorityClassName": name, "priority": PRIORITIES[name]}}


def templates() -> list[Json]:
    metadata = {"name": "gpu-shared-resource-templates", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"data.yaml": json.dumps(TEMPLATES)}},
    ]


def arguments(random: Random, machines: list[Hardware]) -> Json:
    fields: Json = {}
    if random.random() < 0.6:
        resources = [{"name": name, "weight": random.choice([1, 1, 3, 100])} for name in some(random, SCORED, 3)]
        fields["scoringStrategy"] = {"type": random.choice(["LeastAllocated", "MostAllocated"]), "resources": resources}
    models = [each.node["metadata"]["labels"] for each in machines if MODEL in each.node["metadata"]["labels"]]
    if models and random.random() < 0.15:
        labels = random.choice(models)
        fields["gpuShareUnsupportedModels"] = [{"vendor": labels.get("node.koordinator.sh/gpu-vendor", ""), "model": labels[MODEL]}]
    return arguments_of("DeviceShare", fields)


def changes(random: Random, machines: list[Hardware], running: list[Json], coming: int) -> tuple[list[Json], list[Json]]:
    """Return what is written and what is deleted before the coming pod. A Device that is written is the same one from then on."""
    i = random.randrange(len(machines))
    machine = machines[i]
    kind = random.choices(["health", "device gone", "release", "done"], [25, 2, 58, 15])[0]
    if kind == "health" and machine.device and machine.device["spec"]["devices"]:
        changed = copy.deepcopy(machine.device)
        one = random.choice(changed["spec"]["devices"])
        one["health"] = not one["health"]
        machines[i] = machine._replace(device=changed)
        return [changed], []
    if kind == "device gone" and machine.device:
        return [], [machine.device]
    if kind == "done" and running:
        return [{**running.pop(random.randrange(len(running))), "status": {"phase": "Succeeded"}}], []
    if kind == "release":
        names = random.sample([f"p{number}" for number in range(coming)], min(coming, 3))
        return [], [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}} for name in names]
    return [], []
