"""Claims, volumes and classes for tests, and a plugin bench whose mirrors of them are written directly.

`claim("data", storage_class="local", size="2Gi")` is an API Struct as it would come off the wire. `VolumeBench.put_object` lets the
informers' handlers see it as a change that was watched.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from koordsched.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
    kind_of,
)
from koordsched.api.validation import decode
from koordsched.cluster.object_store import object_key
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from support.builders import PodBuilder, pod
from support.plugins import PluginBench

if TYPE_CHECKING:
    from koordsched.api.meta import Object

VERSIONS = count(1)

HOST = "kubernetes.io/hostname"


def made(kind: Kind, raw: dict[str, Any]) -> Any:
    """Decode an object with a uid and a version of its own."""
    metadata = {"uid": f"uid-{kind.plural}-{raw['metadata']['name']}", "resourceVersion": str(next(VERSIONS)), **raw["metadata"]}
    return decode(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **raw, "metadata": metadata})


def claim(name: str, *, storage_class: str | None = None, size: str | None = "1Gi", volume: str = "", **spec: Any) -> Any:
    """Make a claim in the namespace default; with a volume it is bound to it. spec: further fields, `annotations` and `status` apart."""
    annotations = {**({"pv.kubernetes.io/bind-completed": "yes"} if volume else {}), **spec.pop("annotations", {})}
    status, metadata = spec.pop("status", {}), spec.pop("metadata", {})
    requests = {} if size is None else {"storage": size}
    body = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "volumeName": volume, "resources": {"requests": requests}}
    return made(
        PERSISTENT_VOLUME_CLAIM,
        {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations, **metadata},
            "spec": {**body, **spec},
            "status": status,
        },
    )


def volume(name: str, *, storage_class: str = "", size: str = "1Gi", claimed: str = "", hosts: list[str] | None = None, **spec: Any) -> Any:
    """Make a volume that is Available; `claimed` names the claim that it is for, `hosts` the nodes that reach it."""
    labels = spec.pop("labels", {})
    body: dict[str, Any] = {"storageClassName": storage_class, "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    if claimed:
        body["claimRef"] = {"namespace": "default", "name": claimed}
    if hosts is not None:
        body["nodeAffinity"] = affinity(HOST, *hosts)
    status = {"phase": spec.pop("phase", "Available")}
    return made(PERSISTENT_VOLUME, {"metadata": {"name": name, "labels": labels}, "spec": {**body, **spec}, "status": status})


def affinity(key: str, *values: str) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]}}


def storage_class(
    name: str, provisioner: str = "kubernetes.io/no-provisioner", mode: str | None = "WaitForFirstConsumer", **fields: Any
) -> Any:
    return made(STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **fields})


def csi_node(name: str, **limits: int | None) -> Any:
    """Make a CSINode; limits by driver, None for a driver without one."""
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": limit}} for driver, limit in limits.items()]
    return made(CSI_NODE, {"metadata": {"name": name}, "spec": {"drivers": drivers}})


def csi_driver(name: str, *, storage_capacity: bool) -> Any:
    return made(CSI_DRIVER, {"metadata": {"name": name}, "spec": {"storageCapacity": storage_capacity}})


def capacity(name: str, storage_class: str, size: str | None, topology: dict[str, str] | None, **fields: Any) -> Any:
    """Make a CSIStorageCapacity; topology: labels of the nodes that reach it, None for nowhere."""
    node_topology = None if topology is None else {"matchLabels": topology}
    raw = {"storageClassName": storage_class, "capacity": size, "nodeTopology": node_topology, **fields}
    return made(CSI_STORAGE_CAPACITY, {"metadata": {"name": name, "namespace": "default"}, **raw})


def attachment(name: str, node: str, volume_name: str | None, driver: str = "d") -> Any:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return made(VOLUME_ATTACHMENT, {"metadata": {"name": name}, "spec": spec})


def pod_with(*claims: str, name: str = "pod") -> PodBuilder:
    """Begin a pod that uses these claims."""
    return with_volumes(pod(name), *({"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims))


def with_volumes(builder: PodBuilder, *volumes: dict[str, Any]) -> PodBuilder:
    """Give the pod volumes, as they stand in a manifest."""
    read: Any = decode(POD, {"metadata": {"name": "x"}, "spec": {"volumes": list(volumes)}})
    before = builder.build()
    return PodBuilder(replace(before, spec=replace(before.spec, volumes=(*before.spec.volumes, *read.spec.volumes))))


class VolumeBench(PluginBench):
    """A plugin bench with claims, volumes and so on."""

    def put_object(self, *objects: Object) -> None:
        """Let the stores have the objects, as new ones or in the place of those that they have."""
        for obj in objects:
            self._objects(obj).apply(WatchEvent(ADDED, obj))

    def drop_object(self, *objects: Object) -> None:
        for obj in objects:
            self._objects(obj).apply(WatchEvent(DELETED, obj))

    def _objects(self, obj: Object) -> Any:
        kind = kind_of(obj.api_version, obj.kind)
        assert kind is not None, object_key(obj)
        return self.informer(kind)._objects
