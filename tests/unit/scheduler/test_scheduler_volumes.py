"""Pods whose claims wait for them: what is written, what is waited for, and what is said when it goes wrong (framework.md §10.9).

The embedded cluster's volume controller is switched off, so that the tests decide when a claim is bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from support.fakes import SCHEDULER, node_manifest, pod_manifest
from support.stages import Stage, bound_to, condition, metric

from koordsched.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from koordsched.cluster.memory import Fault, Moment
from koordsched.cluster.port import Conflict, OutcomeUnknown, Patch, Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scheduler.failure import Failure

SELECTED = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
TIMEOUT = 60
PREFIX = 'running PreBind plugin "VolumeBinding": '


def on_node(name: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def volume(name: str = "v", node: str = "n1", **spec: Any) -> dict[str, Any]:
    fields = {"storageClassName": "local", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nodeAffinity": on_node(node)}
    return {"metadata": {"name": name}, "spec": {**fields, **spec}, "status": {"phase": "Available"}}


def claim(name: str = "c", storage_class: str = "local") -> dict[str, Any]:
    spec = {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def using(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod_manifest(name, "10m", volumes=volumes, **spec)


class Storage:
    """A world with two nodes, the classes local (nothing provisions) and fast (a provisioner does), and no volume controller."""

    def __init__(self, world: EmbeddedCluster) -> None:
        self.world = world
        self.cluster = world.cluster

    async def prepare(self) -> None:
        self.cluster._controllers.clear()
        for name in ("n1", "n2"):
            labels = {"kubernetes.io/hostname": name}
            await self.world.create(NODE, {**node_manifest(name), "metadata": {"name": name, "labels": labels}})
        for name, provisioner in {"local": "kubernetes.io/no-provisioner", "fast": "d"}.items():
            body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            await self.world.create(STORAGE_CLASS, body)

    async def begin(self, *objects: dict[str, Any]) -> None:
        """Create volumes and claims, then start, then create pods, and let happen what can at once."""
        for body in objects:
            if "storageClassName" in body["spec"]:
                await self.world.create(PERSISTENT_VOLUME_CLAIM if "resources" in body["spec"] else PERSISTENT_VOLUME, body)
        await self.world.start()
        for body in objects:
            if "containers" in body["spec"]:
                await self.world.create(POD, body)
        await asyncio.sleep(0.5)

    async def bind(self, name: str = "c", to: str = "v") -> None:
        """Do the volume controller's part."""
        body = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": to}}
        await self.cluster.patch(Ref(PERSISTENT_VOLUME_CLAIM, "default", name), Patch(body))
        await asyncio.sleep(0.5)

    async def annotate(self, name: str, annotations: dict[str, Any] | None) -> None:
        ref = Ref(PERSISTENT_VOLUME_CLAIM, "default", name)
        await self.cluster.patch(ref, Patch({"metadata": {"annotations": annotations}}))
        await asyncio.sleep(0.5)

    def volume(self, name: str = "v") -> dict[str, Any]:
        return self.cluster.raw(Ref(PERSISTENT_VOLUME, "", name))

    def claim(self, name: str = "c") -> dict[str, Any]:
        return self.cluster.raw(Ref(PERSISTENT_VOLUME_CLAIM, "default", name))

    def node(self, pod: str = "p") -> str:
        return bound_to(self.world, pod)

    def condition(self, pod: str = "p") -> tuple[str, str]:
        return condition(self.world, pod)

    def patches(self, kind: Any) -> int:
        return self.cluster.calls["patch", kind]

    def failures(self) -> float:
        return metric(self.world, 'scheduler_volume_scheduling_stage_error_total{operation="bind"}')


@pytest.fixture
def storage(stage: Stage) -> Callable[[], AbstractAsyncContextManager[Storage]]:
    @asynccontextmanager
    async def make() -> AsyncIterator[Storage]:
        arguments = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": TIMEOUT}}]
        async with stage(profiles=[{"schedulerName": SCHEDULER, "pluginConfig": arguments}]) as world:
            found = Storage(world)
            await found.prepare()
            yield found

    return make


Made = Callable[[], AbstractAsyncContextManager[Storage]]


async def test_a_free_volume_is_given_to_the_claim_and_the_pod_waits_until_it_is_bound(storage: Made) -> None:
    async with storage() as there:
        await there.begin(volume(), claim(), using("p", "c"))
        ref = there.volume()["spec"]["claimRef"]
        assert (ref["kind"], ref["namespace"], ref["name"], ref["uid"]) == (
            "PersistentVolumeClaim",
            "default",
            "c",
            there.claim()["metadata"]["uid"],
        )
        assert there.volume()["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert there.node() == ""
        await there.bind()
        assert there.node() == "n1"
        assert there.patches(PERSISTENT_VOLUME) == 1


async def test_a_volume_that_its_owner_reserved_is_completed_and_not_marked(storage: Made) -> None:
    async with storage() as there:
        reserved = {"namespace": "default", "name": "c"}
        await there.begin(volume(claimRef=reserved), claim(), using("p", "c"))
        assert there.volume()["spec"]["claimRef"]["uid"] == there.claim()["metadata"]["uid"]
        assert "annotations" not in there.volume()["metadata"]


async def test_a_class_that_provisions_learns_the_node(storage: Made) -> None:
    async with storage() as there:
        await there.begin(claim("c", "fast"), using("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"}))
        assert there.claim()["metadata"]["annotations"] == {SELECTED: "n2"}
        await there.bind("c", "made")
        assert there.node() == ""  # no provisioner has seen the volume yet
        await there.world.create(PERSISTENT_VOLUME, volume("made", "n2", claimRef={"namespace": "default", "name": "c"}))
        await asyncio.sleep(0.5)
        assert there.node() == "n2"


async def test_no_wait_is_longer_than_the_arguments_say(storage: Made) -> None:
    async with storage() as there:
        await there.begin(volume(), claim(), using("p", "c"))
        await asyncio.sleep(TIMEOUT - 2)
        assert there.condition() == ("", "")
        await asyncio.sleep(2)
        assert there.condition() == ("SchedulerError", PREFIX + "binding volumes: context deadline exceeded")
        assert there.failures() == 1
        await asyncio.sleep(5)
        await there.bind()
        assert there.node() == "n1"
        assert there.patches(PERSISTENT_VOLUME) == 1  # what was written is taken as it is


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({SELECTED: None}, 'selectedNode annotation reset for PVC "c"'),
        ({SELECTED: None, "other": "x"}, 'provisioning failed for PVC "c"'),
        ({SELECTED: "n2"}, 'provisioning failed for PVC "c"'),
    ],
)
async def test_a_provisioner_that_gives_up_has_the_pod_tried_again(storage: Made, annotations: dict[str, Any], text: str) -> None:
    async with storage() as there:
        await there.begin(claim("c", "fast"), using("p", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
        await there.annotate("c", annotations)
        assert there.condition() == ("SchedulerError", f"{PREFIX}binding volumes: {text}")
        await there.annotate("c", {SELECTED: None})
        await asyncio.sleep(5)
        assert there.claim()["metadata"]["annotations"][SELECTED] == "n1"


async def test_a_volume_that_the_node_cannot_reach_is_no_success(storage: Made) -> None:
    async with storage() as there:
        await there.begin(claim("c", "fast"), using("p", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
        await there.world.create(PERSISTENT_VOLUME, volume("made", "n2", claimRef={"namespace": "default", "name": "c"}))
        await there.bind("c", "made")
        wanted = 'binding volumes: pv "made" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
        assert there.condition()[0] == "SchedulerError"
        assert there.condition()[1].startswith(PREFIX + wanted)


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        (Ref(PERSISTENT_VOLUME, "", "v"), 'failed to check binding: could not find v1.PersistentVolume "v"'),
        (Ref(PERSISTENT_VOLUME_CLAIM, "default", "c"), 'failed to check binding: could not find v1.PersistentVolumeClaim "default/c"'),
        (Ref(NODE, "", "n1"), 'failed to get node "n1": node "n1" not found'),
    ],
)
async def test_what_is_deleted_meanwhile_is_named(storage: Made, gone: Ref, text: str) -> None:
    async with storage() as there:
        await there.begin(volume(), claim(), using("p", "c"))
        said: list[str] = []
        failures = there.world.scheduler.cycle._failures
        handle = failures.handle

        def listening(failure: Failure) -> None:
            said.append(failure.message)
            handle(failure)

        failures.handle = listening  # type: ignore[method-assign]
        await there.cluster.delete(gone)
        await asyncio.sleep(6)
        assert said[0] == f"{PREFIX}binding volumes: {text}"


async def test_a_pod_that_is_deleted_meanwhile_is_not_waited_for(storage: Made) -> None:
    async with storage() as there:
        await there.begin(volume(), claim(), using("p", "c"), using("q", "c"))
        await there.cluster.delete(Ref(POD, "default", "p"))
        await there.cluster.delete(Ref(POD, "default", "q"))
        await asyncio.sleep(6)
        assert not there.world.scheduler.cycle.binding.tasks


async def test_a_volume_that_another_client_changed_first_is_tried_again(storage: Made) -> None:
    async with storage() as there:
        there.cluster.faults.rules.append(Fault(verb="patch", kind=PERSISTENT_VOLUME, times=1, error=lambda: Conflict("was modified")))
        await there.begin(volume(), claim(), using("p", "c"))
        assert there.condition() == ("SchedulerError", PREFIX + "was modified")
        await asyncio.sleep(5)
        await there.bind()
        assert there.node() == "n1"


async def test_a_write_whose_answer_was_lost_is_taken_as_it_is_found(storage: Made) -> None:
    async with storage() as there:
        lost = Fault(verb="patch", kind=PERSISTENT_VOLUME, times=1, error=lambda: OutcomeUnknown("lost"), moment=Moment.AFTER)
        there.cluster.faults.rules.append(lost)
        await there.begin(volume(), volume("w"), claim(), using("p", "c"))
        await asyncio.sleep(5)
        given = [name for name in ("v", "w") if "claimRef" in there.volume(name)["spec"]]
        assert len(given) == 1
        await there.bind("c", given[0])
        assert there.node() == "n1"


async def test_a_volume_that_is_written_late_is_given_to_no_other_pod(storage: Made) -> None:
    async with storage() as there:
        there.cluster.faults.rules.append(Fault(verb="patch", kind=PERSISTENT_VOLUME, times=1, delay=20.0))
        await there.begin(volume(), claim("c"), claim("d"), using("p", "c"), using("q", "d"))
        wanted = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        assert there.condition("q")[1].startswith(wanted)
        # Another's change of the volume while the write is on its way must not make it free again.
        await there.cluster.patch(Ref(PERSISTENT_VOLUME, "", "v"), Patch({"metadata": {"labels": {"a": "b"}}}))
        await asyncio.sleep(5)
        assert "claimRef" not in there.volume()["spec"]
        assert there.patches(PERSISTENT_VOLUME) == 2


async def test_two_hundred_waiting_pods_keep_no_other_pod_from_being_bound(storage: Made) -> None:
    async with storage() as there:
        waiting = [using(f"w{i}", f"c{i}", nodeSelector={"kubernetes.io/hostname": f"n{1 + i % 2}"}) for i in range(200)]
        await there.begin(*(claim(f"c{i}", "fast") for i in range(200)), *waiting, pod_manifest("plain", "10m"))
        assert len(there.world.scheduler.cycle.binding.tasks) == 200
        assert there.node("plain") != ""
