"""The embedded cluster's volume controller: what kube-controller-manager and a provisioner would do."""

from __future__ import annotations

from random import Random
from typing import Any

from koordsched.api.kinds import CSI_NODE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import MemoryCluster, MemoryClusterOptions
from koordsched.cluster.port import Patch, Ref

SELECTED = "volume.kubernetes.io/selected-node"


class Store:
    """A cluster with the controller, and short manifests for it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.cluster = MemoryCluster(clock, random=Random(1), options=MemoryClusterOptions(volume_controller=True))

    async def storage_class(self, name: str, provisioner: str = "d", mode: str = "Immediate", **metadata: Any) -> None:
        body = {"metadata": {"name": name, **metadata}, "provisioner": provisioner, "volumeBindingMode": mode}
        await self.cluster.create(STORAGE_CLASS, body)

    async def volume(self, name: str, size: str = "1Gi", **spec: Any) -> None:
        fields = {"storageClassName": "static", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
        await self.cluster.create(PERSISTENT_VOLUME, {"metadata": {"name": name}, "spec": fields})

    async def claim(self, name: str, storage_class: str | None = "static", **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
        if storage_class is not None:
            fields["storageClassName"] = storage_class
        await self.cluster.create(PERSISTENT_VOLUME_CLAIM, {"metadata": {"name": name, "annotations": annotations}, "spec": fields})

    async def patch(self, kind: Kind, name: str, body: dict[str, Any]) -> None:
        await self.cluster.patch(Ref(kind, "default" if kind.namespaced else "", name), Patch(body))

    async def delete(self, kind: Kind, name: str) -> None:
        await self.cluster.delete(Ref(kind, "default" if kind.namespaced else "", name))

    def phase(self, kind: Kind, name: str) -> str:
        raw = self.cluster.raw(Ref(kind, "default" if kind.namespaced else "", name))
        return str((raw.get("status") or {}).get("phase", ""))

    def bound(self, name: str) -> str:
        """Return the volume that the claim is bound to for good, having checked both sides."""
        raw = self.cluster.raw(Ref(PERSISTENT_VOLUME_CLAIM, "default", name))
        if "pv.kubernetes.io/bind-completed" not in (raw["metadata"].get("annotations") or {}):
            return ""
        volume = str(raw["spec"]["volumeName"])
        ref = self.cluster.raw(Ref(PERSISTENT_VOLUME, "", volume))["spec"]["claimRef"]
        assert (ref["name"], ref["uid"]) == (name, raw["metadata"]["uid"])
        assert (self.phase(PERSISTENT_VOLUME, volume), self.phase(PERSISTENT_VOLUME_CLAIM, name)) == ("Bound", "Bound")
        return volume


async def test_a_free_volume_is_available_and_goes_to_the_claim_it_suits_best(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.volume("large", "9Gi")
    await store.volume("fitting", "2Gi")
    await store.volume("small", "1Mi")
    assert store.phase(PERSISTENT_VOLUME, "large") == "Available"
    await store.claim("c")
    assert store.bound("c") == "fitting"
    await store.claim("d")
    assert store.bound("d") == "large"
    await store.claim("e")
    assert (store.bound("e"), store.phase(PERSISTENT_VOLUME_CLAIM, "e")) == ("", "Pending")
    await store.volume("later")
    assert store.bound("e") == "later"


async def test_a_volume_reserved_for_a_claim_waits_for_it(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.volume("mine", "9Gi", claimRef={"namespace": "default", "name": "c"})
    await store.volume("free")
    await store.claim("c")
    await store.claim("d")
    assert (store.bound("c"), store.bound("d")) == ("mine", "free")


async def test_a_claim_that_names_its_volume_gets_that_one(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.volume("a")
    await store.claim("c", volumeName="b")
    assert store.bound("c") == ""
    await store.volume("b", "9Gi")
    assert store.bound("c") == "b"
    await store.claim("d", volumeName="b")
    assert store.bound("d") == ""


async def test_a_claim_that_waits_for_its_pod_is_bound_to_what_the_scheduler_chose(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.storage_class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
    await store.volume("v", storageClassName="late")
    await store.claim("c", "late")
    assert store.bound("c") == ""
    uid = store.cluster.raw(Ref(PERSISTENT_VOLUME_CLAIM, "default", "c"))["metadata"]["uid"]
    await store.patch(PERSISTENT_VOLUME, "v", {"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}})
    assert store.bound("c") == "v"


async def test_a_volume_is_made_for_the_selected_node_within_its_drivers_topology(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.cluster.create(NODE, {"metadata": {"name": "n1", "labels": {"zone": "a", "other": "x"}}})
    drivers = [{"name": "d", "nodeID": "n1", "topologyKeys": ["zone", "rack"]}]
    await store.cluster.create(CSI_NODE, {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}})
    await store.storage_class("late", mode="WaitForFirstConsumer")
    await store.claim("c", "late")
    assert store.cluster.raws(PERSISTENT_VOLUME) == []
    await store.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"annotations": {SELECTED: "n1"}}})
    spec = store.cluster.raw(Ref(PERSISTENT_VOLUME, "", store.bound("c")))["spec"]
    assert spec["capacity"] == {"storage": "1Gi"}
    assert spec["csi"]["driver"] == "d"
    terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]


async def test_an_immediate_claim_is_provisioned_when_its_class_comes(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.claim("c", "fast")
    assert store.bound("c") == ""
    await store.storage_class("fast")
    assert store.bound("c").startswith("pvc-")


async def test_a_claim_without_class_is_given_the_default_one_and_one_with_none_is_not(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.claim("before", None)
    await store.claim("none", "")
    await store.storage_class("fast", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    await store.claim("after", None)
    assert store.bound("before").startswith("pvc-")
    assert store.bound("after").startswith("pvc-")
    assert store.bound("none") == ""
    assert store.cluster.raw(Ref(PERSISTENT_VOLUME_CLAIM, "default", "after"))["spec"]["storageClassName"] == "fast"


async def test_a_volume_outlives_its_claim_and_a_claim_without_its_volume_is_lost(clock: VirtualClock) -> None:
    store = Store(clock)
    for name in ("a", "b"):
        await store.volume(name, claimRef={"namespace": "default", "name": name})
        await store.claim(name)
    await store.delete(PERSISTENT_VOLUME_CLAIM, "a")
    assert store.phase(PERSISTENT_VOLUME, "a") == "Released"
    await store.delete(PERSISTENT_VOLUME, "b")
    assert store.phase(PERSISTENT_VOLUME_CLAIM, "b") == "Lost"
    await store.volume("b", claimRef={"namespace": "default", "name": "b"})
    assert store.bound("b") == "b"


async def test_a_claim_of_the_same_name_does_not_get_what_is_released(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.volume("v")
    await store.claim("c")
    await store.delete(PERSISTENT_VOLUME_CLAIM, "c")
    await store.claim("c")
    assert store.bound("c") == ""


async def test_what_is_bound_already_costs_no_write(clock: VirtualClock) -> None:
    store = Store(clock)
    await store.volume("v")
    await store.claim("c")
    before = store.cluster.resource_version
    await store.patch(PERSISTENT_VOLUME_CLAIM, "c", {"spec": {"volumeName": "v"}})
    assert store.cluster.resource_version == before


async def test_without_the_setting_nothing_is_bound(clock: VirtualClock) -> None:
    store = Store(clock)
    store.cluster = MemoryCluster(clock, random=Random(1))
    await store.volume("v")
    await store.claim("c")
    assert store.bound("c") == ""
    assert store.phase(PERSISTENT_VOLUME, "v") == ""
