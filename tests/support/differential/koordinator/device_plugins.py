"""Random trials for DeviceShare with the gate DevicePluginAdaption: what it writes for vendors' device plugins (deviceshare.md §11)."""

from __future__ import annotations

from random import Random

from support.differential.choosing import Json, merged
from support.differential.koordinator.device_pods import asking, npu, shared, shares_of_several, whole
from support.differential.koordinator.devices import ISOLATION, MODEL, NPU, VENDOR, Hardware, Machine, device_of, hardware, offered
from support.differential.koordinator.deviceshare import templates
from support.differential.koordinator.generated import GeneratedTrial, Step, arguments_of, configuration

PODS = 12
VENDORS = (
    ("nvidia", "H20"),
    ("huawei", NPU[1]),
    ("huawei", NPU[1]),
    ("huawei", "Ascend-310P3-300I-DUO"),
    ("cambricon", "MLU370"),
    ("cambricon", "MLU370"),
    ("metax", "C500"),
    ("metax", "C500"),
    ("baidu", "P800"),
)
LOCKS = {"cambricon": "cambricon.com/dsmlu.lock", "metax": "hami.io/mutex.lock"}
LOCKED = ("2020-01-01T00:00:00Z,default,gone", "foo", "never,default,gone", "2020-01-01T00:00:00Z,default,r0", "a,b")


def trial(random: Random) -> GeneratedTrial:
    """Make a cluster of one node of a known vendor. Pods leave soon: a lock of the node would keep the next ones waiting."""
    objects = [*templates(), *(each for each in of_vendor(random, "n0") if each is not None)]
    steps = []
    for i in range(PODS):
        gone = [f"p{number}" for number in range(i)] if random.random() < 0.8 else []
        pod = asking(random, f"p{i}", random.choice([whole, shared, shared, shares_of_several, npu])(random))
        labels = {ISOLATION: "HAMi-core"} if random.random() < 0.3 else {}
        deleted = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}} for name in gone]
        steps.append(Step([], deleted, merged([pod, {"metadata": {"labels": labels}}])))
    plugins: Json = {"multiPoint": {"enabled": [{"name": name} for name in ("DeviceShare", "Reservation", "DefaultPreBind")]}}
    return GeneratedTrial(configuration(plugins, [arguments_of("DeviceShare", {})]), objects, steps, "DevicePluginAdaption=true")


def of_vendor(random: Random, name: str) -> Hardware:
    """Return a node with the vendor's cards; some are locked, in words that cannot be read or long ago."""
    vendor, model = random.choice(VENDORS)
    node = hardware(random, name, numa=False).node
    device = device_of(random, name, Machine(2, 1), npu=vendor == "huawei")
    amounts = {"cpu": "16", "memory": "128Gi", "pods": "110", **offered(device, plenty=True)}
    named = {VENDOR: vendor, MODEL: model}
    annotations = {LOCKS[vendor]: random.choice(LOCKED)} if vendor in LOCKS and random.random() < 0.4 else {}
    metadata = {"labels": {**named, ISOLATION: "HAMi-core"}, "annotations": annotations}
    node = merged([node, {"metadata": metadata}]) | {"status": {"allocatable": amounts, "capacity": amounts}}
    return Hardware(node, merged([device, {"metadata": {"labels": named}}]), None)
