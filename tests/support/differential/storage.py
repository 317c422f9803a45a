"""Random storage: classes, volumes, claims in every state, drivers with limits and capacity, and the volumes of pods."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from support.differential.affinity import HOSTNAME, ZONE
from support.differential.choosing import Json, some
from support.differential.vocabulary import ZONES

DRIVER = "csi.example.com"
CAPACITY_DRIVER = "capacity.example.com"
STATIC, DYNAMIC, ZONAL, CAPACITY, AT_ONCE = "static", "dynamic", "zonal", "capacity", "at-once"
BOUND_BY = {"pv.kubernetes.io/bind-completed": "yes"}
ONE_POD = "ReadWriteOncePod"
MISSING = "never-made"
WAITING_CLASSES = (STATIC, STATIC, DYNAMIC, ZONAL, CAPACITY)


class Storage(NamedTuple):
    """Objects to create; claims that a pending pod may name, of which `bound` may be named by running pods too, `exclusive` by one each."""

    objects: list[Json]
    claims: list[str]
    bound: list[str]
    exclusive: frozenset[str]


NONE = Storage([], [], [], frozenset())


def storage(random: Random, nodes: list[str]) -> Storage:
    """Return storage for the nodes of these names."""
    objects = [*classes(random), *drivers(random, nodes)]
    bound, waiting = [], []
    for i in range(random.randint(2, 5)):
        objects += bound_pair(random, f"b{i}", nodes)
        bound.append(f"b{i}")
    for i in range(random.randint(2, 6)):
        objects.append(volume(random, f"free{i}", nodes))
    for i in range(random.randint(3, 8)):
        objects.append(claim(f"w{i}", random.choice(WAITING_CLASSES), size(random)))
        waiting.append(f"w{i}")
    objects.append(claim("unbound", AT_ONCE, "1Gi"))
    exclusive = [body["metadata"]["name"] for body in objects if ONE_POD in body.get("spec", {}).get("accessModes", ())]
    return Storage(objects, [*bound, *bound, *waiting, *waiting, "unbound", MISSING], bound, frozenset(exclusive))


def classes(random: Random) -> list[Json]:
    only_zones = [{"matchLabelExpressions": [{"key": ZONE, "values": some(random, ZONES, 2)}]}]
    return [
        _class(STATIC, "kubernetes.io/no-provisioner"),
        _class(DYNAMIC, DRIVER),
        _class(ZONAL, DRIVER) | {"allowedTopologies": only_zones},
        _class(CAPACITY, CAPACITY_DRIVER),
        _class(AT_ONCE, DRIVER) | {"volumeBindingMode": "Immediate"},
    ]


def drivers(random: Random, nodes: list[str]) -> list[Json]:
    """Return the drivers, what they take on each node, and where one of them still has room."""
    found: list[Json] = [{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": {}}]
    found.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": CAPACITY_DRIVER}})
    found[-1]["spec"] = {"storageCapacity": True}
    for name in nodes:
        if random.random() < 0.8:
            limit = {"allocatable": {"count": random.choice([1, 2, 20])}} if random.random() < 0.8 else {}
            spec = {"drivers": [{"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], **limit}]}
            found.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": spec})
    for zone in some(random, ZONES, 2):
        body = {"metadata": {"name": f"room-{zone}", "namespace": "default"}, "storageClassName": CAPACITY}
        body |= {"nodeTopology": {"matchLabels": {ZONE: zone}}, "capacity": random.choice(["1Gi", "10Gi"])}
        found.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", **body})
    return found


def bound_pair(random: Random, name: str, nodes: list[str]) -> list[Json]:
    """Return a claim and the volume that it is bound to."""
    made = volume(random, f"pv-{name}", nodes)
    made["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name, "namespace": "default"}
    made["spec"]["storageClassName"] = DYNAMIC
    made["status"] = {"phase": "Bound"}
    bound = claim(name, DYNAMIC, "1Gi")
    mode = random.choice(["ReadWriteOnce", "ReadWriteOnce", ONE_POD])
    made["spec"]["accessModes"] = bound["spec"]["accessModes"] = [mode]
    bound["spec"]["volumeName"] = made["metadata"]["name"]
    bound["metadata"]["annotations"] = BOUND_BY
    bound["status"] = {"phase": "Bound"}
    return [made, bound]


def volume(random: Random, name: str, nodes: list[str]) -> Json:
    """Return a volume that no claim has bound, reachable from everywhere, from a zone or from a node."""
    labels: Json = {}
    spec: Json = {"capacity": {"storage": size(random)}, "accessModes": ["ReadWriteOnce"], "storageClassName": STATIC}
    spec |= {"csi": {"driver": DRIVER, "volumeHandle": name}}
    chance = random.random()
    if chance < 0.35:
        spec["nodeAffinity"] = reachable_from(HOSTNAME, some(random, nodes, 2))
    elif chance < 0.6:
        spec["nodeAffinity"] = reachable_from(ZONE, some(random, ZONES, 2))
    if random.random() < 0.4:
        labels[ZONE] = "__".join(some(random, ZONES, 2))
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": "Available"}}


def reachable_from(key: str, values: list[str]) -> Json:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]}}


def claim(name: str, storage_class: str, storage: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": {"requests": {"storage": storage}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def size(random: Random) -> str:
    return random.choice(["1Gi", "2Gi", "5Gi"])


def volumes(random: Random, claims: list[str]) -> Json:
    """Return one or two volumes for a pod: claims, or a disk that is named in the pod itself."""
    found = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in set(some(random, claims, 2))]
    if random.random() < 0.2:
        found = [random.choice(INLINE)]
    return {"spec": {"volumes": sorted(found, key=lambda each: str(each["name"]))}}


def claims_of(pod: Json) -> list[str]:
    """Return the names of the claims that the pod names."""
    found = [volume.get("persistentVolumeClaim", {}) for volume in pod["spec"].get("volumes", ())]
    return [claim["claimName"] for claim in found if claim]


INLINE: tuple[Json, ...] = (
    {"name": "disk", "gcePersistentDisk": {"pdName": "pd-1"}},
    {"name": "disk", "gcePersistentDisk": {"pdName": "pd-1", "readOnly": True}},
    {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"name": "disk", "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "readOnly": True}},
    {"name": "disk", "rbd": {"monitors": ["10.0.0.1:6789"], "image": "one"}},
)


def _class(name: str, provisioner: str) -> Json:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return head | {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
