"""VolumeZone: framework.md §10.8, hints of §3.5."""

from __future__ import annotations

import pytest
from support.builders import NodeBuilder, node, pod
from support.plugins import hint, registered
from support.volumes import VolumeBench, claim, pod_with, storage_class, volume, with_volumes

from koordsched.framework.status import SKIP, unresolvable
from koordsched.plugins.volumezone.plugin import VolumeZone
from koordsched.queue.events import QueueingHint

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
REFUSAL = unresolvable("node(s) had no available volume zone")


def made_bench(labels: dict[str, str], *nodes: NodeBuilder) -> tuple[VolumeBench, VolumeZone]:
    """Make a bench with the claim data, bound to a volume with these labels."""
    bench = VolumeBench(*nodes)
    plugin = VolumeZone(bench)
    bench.put_object(volume("v", labels=labels), claim("data", volume="v"))
    return bench, plugin


@pytest.mark.parametrize(
    ("of_volume", "of_node", "passes"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__ b"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"other": "x"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
        ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
    ],
)
def test_the_volumes_labels_choose_the_nodes(of_volume: dict[str, str], of_node: dict[str, str], passes: bool) -> None:
    builder = node("n")
    for key, value in of_node.items():
        builder = builder.label(key, value)
    bench, plugin = made_bench(of_volume, builder)
    assert bench.filter(plugin, pod_with("data")) == {"n": None if passes else REFUSAL}


def test_a_volume_without_zone_skips_and_so_does_a_label_that_is_no_set() -> None:
    bench, plugin = made_bench({"other": "x"}, node("n"))
    assert bench.pre_filter(plugin, pod_with("data")) is SKIP
    bench.put_object(volume("v", labels={ZONE: "a__"}))
    assert bench.pre_filter(plugin, pod_with("data")) is SKIP
    assert bench.pre_filter(plugin, pod()) is SKIP


def test_all_volumes_of_a_pod_must_be_in_reach() -> None:
    bench, plugin = made_bench({ZONE: "a__b"}, node("na").label(ZONE, "a"), node("nb").label(ZONE, "b"))
    bench.put_object(volume("w", labels={ZONE: "b"}), claim("more", volume="w"))
    assert bench.passing(plugin, pod_with("data")) == ["na", "nb"]
    assert bench.passing(plugin, pod_with("data", "more")) == ["nb"]


def test_claims_without_volume_have_signatures_of_their_own() -> None:
    bench = VolumeBench(node("n"))
    plugin = VolumeZone(bench)
    bench.put_object(storage_class("late"), storage_class("now", mode="Immediate"), storage_class("odd", mode=None))
    bench.put_object(claim("late", storage_class="late"), claim("now", storage_class="now"), claim("odd", storage_class="odd"))
    bench.put_object(claim("none"), claim("classless", storage_class="gone"), claim("dangling", volume="gone"))
    says = {name: bench.pre_filter(plugin, pod_with(name)) for name in ("late", "now", "odd", "none", "classless", "dangling", "missing")}
    assert says == {
        "late": SKIP,
        "now": unresolvable("PersistentVolume had no name"),
        "odd": unresolvable('VolumeBindingMode not set for StorageClass "odd"'),
        "none": unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
        "classless": unresolvable('storageclass.storage.k8s.io "gone" not found'),
        "dangling": unresolvable('persistentvolume "gone" not found'),
        "missing": unresolvable('persistentvolumeclaim "missing" not found'),
    }


def test_the_class_of_the_beta_annotation_wins() -> None:
    bench = VolumeBench(node("n"))
    plugin = VolumeZone(bench)
    annotations = {"volume.beta.kubernetes.io/storage-class": "late"}
    bench.put_object(storage_class("late"), claim("data", storage_class="gone", annotations=annotations))
    assert bench.pre_filter(plugin, pod_with("data")) is SKIP


def test_ephemeral_claims_do_not_count() -> None:
    bench = VolumeBench(node("n"))
    assert bench.pre_filter(VolumeZone(bench), with_volumes(pod(), {"name": "tmp", "ephemeral": {}})) is SKIP


def test_the_version_follows_what_was_found_and_nothing_else() -> None:
    bench, plugin = made_bench({ZONE: "a"}, node("n"))
    before = plugin.version(pod_with("data").info())
    bench.put_object(volume("v", labels={ZONE: "a", "other": "x"}))
    assert plugin.version(pod_with("data").info()) == before
    bench.put_object(volume("v", labels={ZONE: "b"}))
    assert plugin.version(pod_with("data").info()) != before
    assert plugin.version(pod().info()) is None


class TestHints:
    def test_a_class_that_waits_for_pods_helps(self) -> None:
        plugin = VolumeZone(VolumeBench())
        assert hint(plugin, 0, pod_with("data"), None, storage_class("late")) is QueueingHint.QUEUE
        assert hint(plugin, 0, pod_with("data"), None, storage_class("now", mode="Immediate")) is QueueingHint.SKIP

    def test_nodes_and_the_pods_own_claims_help(self) -> None:
        plugin = VolumeZone(VolumeBench())
        assert registered(plugin)[1].hint is None
        assert hint(plugin, 2, pod_with("data"), claim("data"), claim("data", volume="v")) is QueueingHint.QUEUE
        assert hint(plugin, 2, pod_with("data"), None, claim("other")) is QueueingHint.SKIP

    def test_a_volume_helps_when_it_is_new_or_somewhere_else(self) -> None:
        plugin = VolumeZone(VolumeBench())
        here, there = volume("v", labels={ZONE: "a"}), volume("v", labels={ZONE: "b"})
        assert hint(plugin, 3, pod_with("data"), None, here) is QueueingHint.QUEUE
        assert hint(plugin, 3, pod_with("data"), here, there) is QueueingHint.QUEUE
        assert hint(plugin, 3, pod_with("data"), here, volume("v", labels={ZONE: "a", "x": "y"})) is QueueingHint.SKIP
