"""VolumeRestrictions: framework.md §10.7, hints of §3.5, the skip of §5.1."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import node, pod
from support.plugins import hint, registered
from support.volumes import VolumeBench, claim, pod_with, volume, with_volumes
from support.world import World

from koordsched.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.status import SKIP, unresolvable, unschedulable
from koordsched.plugins.volumerestrictions.plugin import VolumeRestrictions
from koordsched.queue.events import QueueingHint

DISK = unschedulable("node(s) had no available disk")
CLAIM = unschedulable("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod")


def gce(name: str = "d", *, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(*, read_only: bool) -> dict[str, Any]:
    return {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": read_only}}


def iscsi(iqn: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "iscsi": {"iqn": iqn, "readOnly": read_only}}


def rbd(*monitors: str, pool: str = "rbd", image: str = "i", read_only: bool = False) -> dict[str, Any]:
    return {"name": "v", "rbd": {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": read_only}}


def rwop(name: str = "data") -> Any:
    return claim(name, accessModes=["ReadWriteOncePod"])


def test_a_pod_without_disks_and_restricted_claims_skips() -> None:
    bench = VolumeBench(node())
    plugin = VolumeRestrictions(bench)
    bench.put_object(claim("shared"))
    assert bench.pre_filter(plugin, pod()) is SKIP
    assert bench.pre_filter(plugin, pod_with("shared")) is SKIP
    assert bench.pre_filter(plugin, with_volumes(pod(), {"name": "tmp"})) is SKIP
    assert bench.pre_filter(plugin, with_volumes(pod(), gce())) is None


def test_a_missing_claim_is_named_and_an_ephemeral_one_left_to_others() -> None:
    bench = VolumeBench(node())
    plugin = VolumeRestrictions(bench)
    assert bench.pre_filter(plugin, pod_with("data")) == unresolvable('persistentvolumeclaim "data" not found')
    assert bench.pre_filter(plugin, with_volumes(pod(), {"name": "tmp", "ephemeral": {}})) is SKIP


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        (gce(), gce(), False),
        (gce(), gce(read_only=True), False),
        (gce(read_only=True), gce(read_only=True), True),
        (gce(read_only=True), gce(), False),
        (gce("a"), gce("b"), True),
        (ebs(read_only=True), ebs(read_only=True), False),
        (iscsi("iqn.a"), iscsi("iqn.a"), False),
        (iscsi("iqn.a", read_only=True), iscsi("iqn.a", read_only=True), True),
        (iscsi("iqn.a"), iscsi("iqn.b"), True),
        (rbd("m1", "m2"), rbd("m2", "m3"), False),
        (rbd("m1"), rbd("m2"), True),
        (rbd("m1"), rbd("m1", pool="other"), True),
        (rbd("m1"), rbd("m1", image="other"), True),
        (rbd("m1", read_only=True), rbd("m1", read_only=True), True),
        (gce(), {"name": "v", "azureDisk": {"diskName": "d", "diskURI": "d"}}, True),
    ],
)
def test_a_disk_is_used_by_one_pod_per_node_unless_all_only_read(held: dict[str, Any], wanted: dict[str, Any], free: bool) -> None:
    bench = VolumeBench(node("taken"), node("empty"))
    plugin = VolumeRestrictions(bench)
    bench.put(with_volumes(pod("old"), held), "taken")
    assert bench.filter(plugin, with_volumes(pod(), wanted)) == {"taken": None if free else DISK, "empty": None}


def test_a_disk_is_free_again_when_the_last_user_is_gone() -> None:
    bench = VolumeBench(node("n"))
    plugin = VolumeRestrictions(bench)
    bench.put(with_volumes(pod("one"), gce(read_only=True)), "n")
    bench.put(with_volumes(pod("two"), gce(read_only=True)), "n")
    bench.cache.remove_pod("uid-default-one")
    assert bench.passing(plugin, with_volumes(pod(), gce())) == []
    bench.cache.remove_pod("uid-default-two")
    assert bench.passing(plugin, with_volumes(pod(), gce())) == ["n"]


def test_a_pod_that_was_there_before_the_plugin_counts() -> None:
    bench = VolumeBench(node("n"))
    bench.put(with_volumes(pod("old"), gce()), "n")
    assert bench.passing(VolumeRestrictions(bench), with_volumes(pod(), gce())) == []


def test_a_read_write_once_pod_claim_in_use_refuses_all_nodes() -> None:
    bench = VolumeBench(node("n1"), node("n2"))
    plugin = VolumeRestrictions(bench)
    bench.put_object(rwop())
    free = plugin.version(pod_with("data").info())
    assert bench.passing(plugin, pod_with("data")) == ["n1", "n2"]
    bench.put(pod_with("data", name="user"), "n1")
    assert bench.filter(plugin, pod_with("data")) == {"n1": CLAIM, "n2": CLAIM}
    assert plugin.version(pod_with("data").info()) != free
    bench.cache.remove_pod("uid-default-user")
    assert plugin.version(pod_with("data").info()) == free


def test_the_removal_of_the_user_in_a_simulation_frees_the_claim() -> None:
    bench = VolumeBench(node("n1"))
    plugin = VolumeRestrictions(bench)
    bench.put_object(rwop())
    bench.put(pod_with("data", name="user"), "n1")
    there = bench.cache.nodes_by_name["n1"]
    with bench.cache.simulate(there, remove=list(there.pods.values())):
        assert bench.passing(plugin, pod_with("data")) == ["n1"]
    assert bench.passing(plugin, pod_with("data")) == []


def test_a_nominated_pod_that_holds_the_claim_counts_though_no_pod_uses_it() -> None:
    world = World()
    world.cache.set_node(node("n1").build())
    bound = claim("data", accessModes=["ReadWriteOncePod"], volume="v")
    world.informer(PERSISTENT_VOLUME_CLAIM)._objects.apply(WatchEvent(ADDED, bound))
    world.informer(PERSISTENT_VOLUME)._objects.apply(WatchEvent(ADDED, volume("v", claimed="data")))
    preemptor = pod_with("data", name="preemptor").priority(9).info()
    assert world.find(pod_with("data").info()) == "n1"
    world.nominator.set(preemptor, "n1")
    found = world.find(pod_with("data").info())
    assert isinstance(found, Diagnosis)
    assert CLAIM.message in found.message


class TestSignature:
    def test_pods_with_other_tokens_and_config_maps_have_equal_signatures(self) -> None:
        plugin = VolumeRestrictions(VolumeBench(node()))
        one = with_volumes(pod("a"), {"name": "kube-api-access-1", "projected": {}})
        assert plugin.sign(one.info()) is None is plugin.sign(pod("b").info())
        assert plugin.version(one.info()) is None

    def test_claims_and_disks_do(self) -> None:
        plugin = VolumeRestrictions(VolumeBench(node()))
        assert plugin.sign(pod_with("a").info()) == plugin.sign(pod_with("a", name="other").info())
        assert plugin.sign(pod_with("a").info()) != plugin.sign(pod_with("b").info())


class TestHints:
    @pytest.mark.parametrize(
        ("gone", "expected"),
        [
            (with_volumes(pod("x"), gce()), QueueingHint.QUEUE),
            (with_volumes(pod("x", "elsewhere"), gce()), QueueingHint.QUEUE),
            (with_volumes(pod("x"), gce("other")), QueueingHint.SKIP),
            (pod_with("data", name="x"), QueueingHint.QUEUE),
            (pod_with("other", name="x"), QueueingHint.SKIP),
            (pod("x"), QueueingHint.SKIP),
        ],
    )
    def test_a_deleted_pod_helps_if_it_had_the_disk_or_the_claim(self, gone: Any, expected: QueueingHint) -> None:
        waiting = with_volumes(pod_with("data"), gce())
        assert hint(VolumeRestrictions(VolumeBench()), 0, waiting, gone.build(), None) is expected

    def test_a_new_claim_helps_the_pods_that_name_it(self) -> None:
        plugin = VolumeRestrictions(VolumeBench())
        assert hint(plugin, 2, pod_with("data"), None, claim("data")) is QueueingHint.QUEUE
        assert hint(plugin, 2, pod_with("data"), None, claim("other")) is QueueingHint.SKIP
        assert registered(plugin)[1].hint is None  # any new node
