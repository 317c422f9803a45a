"""NodeVolumeLimits: framework.md §10.8, hints of §3.5."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.plugins import hint
from support.volumes import VolumeBench, attachment, claim, csi_node, pod_with, storage_class, volume, with_volumes

from koordsched.framework.status import SKIP, unresolvable, unschedulable
from koordsched.plugins.nodevolumelimits.csi_volumes import csi_volume_of
from koordsched.plugins.nodevolumelimits.plugin import NodeVolumeLimits
from koordsched.queue.events import QueueingHint

REFUSAL = unschedulable("node(s) exceed max volume count")


def csi(handle: str, driver: str = "d") -> dict[str, Any]:
    return {"csi": {"driver": driver, "volumeHandle": handle}}


def made_bench(*nodes: NodeBuilder, claims: int = 3) -> tuple[VolumeBench, NodeVolumeLimits]:
    """Make a bench with claims c0, c1, ... of the driver d."""
    bench = VolumeBench(*nodes)
    plugin = NodeVolumeLimits(bench)
    for i in range(claims):
        bench.put_object(volume(f"v{i}", **csi(f"h{i}")), claim(f"c{i}", volume=f"v{i}"))
    return bench, plugin


def ebs(identity: str) -> dict[str, Any]:
    return {"name": "disk", "awsElasticBlockStore": {"volumeID": identity}}


def test_pods_without_attachable_volumes_skip() -> None:
    bench, plugin = made_bench(node())
    assert bench.pre_filter(plugin, pod()) is SKIP
    assert bench.pre_filter(plugin, with_volumes(pod(), {"name": "v", "iscsi": {"iqn": "iqn.a"}})) is SKIP
    assert bench.pre_filter(plugin, pod_with("c0")) is None
    assert bench.pre_filter(plugin, with_volumes(pod(), ebs("vol-1"))) is None


def test_a_full_node_refuses_and_others_pass() -> None:
    bench, plugin = made_bench(node("full"), node("roomy"), node("unlimited"), node("unknown"))
    bench.put_object(csi_node("full", d=1), csi_node("roomy", d=2), csi_node("unlimited", d=None))
    for i, name in enumerate(("full", "roomy", "unlimited", "unknown")):
        bench.put(pod_with("c0", name=f"p{i}"), name)
    assert bench.filter(plugin, pod_with("c1")) == {"full": REFUSAL, "roomy": None, "unlimited": None, "unknown": None}
    assert bench.filter(plugin, pod_with("c1", "c2")) == {"full": REFUSAL, "roomy": REFUSAL, "unlimited": None, "unknown": None}


def test_a_limit_of_zero_takes_nothing() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=0))
    assert bench.filter(plugin, pod_with("c0")) == {"n": REFUSAL}


def test_the_pods_own_volume_that_is_there_already_needs_no_room() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=1))
    bench.put(pod_with("c0", name="user"), "n")
    assert bench.filter(plugin, pod_with("c0")) == {"n": None}
    assert bench.filter(plugin, pod_with("c0", "c1")) == {"n": REFUSAL}


def test_a_volume_of_two_pods_counts_until_both_are_gone() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=1))
    bench.put(pod_with("c0", name="one"), "n")
    bench.put(pod_with("c0", name="two"), "n")
    bench.cache.remove_pod("uid-default-one")
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}
    bench.cache.remove_pod("uid-default-two")
    assert bench.filter(plugin, pod_with("c1")) == {"n": None}


def test_drivers_do_not_mix() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=1, e=1), volume("w", **csi("h0", "e")), claim("other", volume="w"))
    bench.put(pod_with("c0", name="user"), "n")
    assert bench.filter(plugin, pod_with("other")) == {"n": None}
    assert bench.filter(plugin, pod_with("other", "c1")) == {"n": REFUSAL}


def test_a_csi_node_may_come_before_its_node_and_change() -> None:
    bench, plugin = made_bench()
    bench.put_object(csi_node("n", d=1))
    bench.set(node("n"))
    bench.put(pod_with("c0", name="user"), "n")
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}
    bench.put_object(csi_node("n", d=2))
    assert bench.filter(plugin, pod_with("c1")) == {"n": None}
    bench.put_object(csi_node("n", d=1))
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}
    bench.drop_object(csi_node("n", d=1))
    assert bench.filter(plugin, pod_with("c1")) == {"n": None}


def test_changed_limits_and_counts_mark_the_nodes_row() -> None:
    bench, _ = made_bench(node("n"), node("m"))
    bench.put(pod_with("c0", name="user"), "n")
    row, table = bench.cache.nodes_by_name["n"].row, bench.cache.table

    def marked(change: Any) -> bool:
        before = table.log_end
        change()
        found = table.changes_since(before)
        assert found is not None
        return (found[0].tolist(), found[1].tolist()) == ([row], [int(bench.cache.change_kinds.register("NodeVolumeLimits"))])

    assert marked(lambda: bench.put_object(csi_node("n", d=1)))
    assert marked(lambda: bench.put_object(volume("v0", **csi("another"))))
    assert marked(lambda: bench.put_object(attachment("a", "n", "v1")))
    before = table.log_end
    bench.put_object(csi_node("n", d=1), volume("v2", **csi("unused")))
    assert table.log_end == before


def test_an_attachment_counts_once_with_the_pods_that_use_the_volume() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=1), attachment("a", "n", "v0"), attachment("b", "n", None), attachment("c", "n", "gone"))
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}
    assert bench.filter(plugin, pod_with("c0")) == {"n": None}
    bench.put(pod_with("c0", name="user"), "n")
    bench.drop_object(attachment("a", "n", "v0"))
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}
    bench.cache.remove_pod("uid-default-user")
    assert bench.filter(plugin, pod_with("c1")) == {"n": None}


def test_a_claim_without_volume_counts_for_its_class_and_then_as_its_volume() -> None:
    bench, plugin = made_bench(node("n"))
    bench.put_object(csi_node("n", d=1), storage_class("fast", "d"), claim("new", storage_class="fast"))
    bench.put(pod_with("new", name="user"), "n")
    assert plugin._state.counts.attached("n") == {"d": 1}
    bench.put_object(volume("made", **csi("made")), claim("new", storage_class="fast", volume="made"))
    assert plugin._state.counts.attached("n") == {"d": 1}
    bench.put_object(claim("alias", volume="made"))
    assert bench.filter(plugin, pod_with("alias")) == {"n": None}
    assert bench.filter(plugin, pod_with("c1")) == {"n": REFUSAL}


def test_objects_may_come_in_any_order() -> None:
    bench = VolumeBench(node("n"))
    plugin = NodeVolumeLimits(bench)
    bench.put(pod_with("data", name="user"), "n")
    counts = plugin._state.counts
    assert counts.attached("n") == {}
    bench.put_object(claim("data", storage_class="fast"))
    assert counts.attached("n") == {}
    bench.put_object(storage_class("fast", "d"))
    assert counts.attached("n") == {"d": 1}
    bench.put_object(claim("data", storage_class="other", volume="v"))
    assert counts.attached("n") == {}
    bench.put_object(volume("v", **csi("h", "e")))
    assert counts.attached("n") == {"e": 1}
    bench.drop_object(volume("v"))
    assert counts.attached("n") == {}


def test_a_missing_claim_is_the_reason_on_every_node() -> None:
    bench, plugin = made_bench(node("n"))
    missing = unresolvable('looking up PVC default/gone: persistentvolumeclaim "gone" not found')
    assert bench.filter(plugin, pod_with("gone")) == {"n": missing}


def test_disks_of_the_pod_count_for_their_csi_drivers() -> None:
    bench = VolumeBench(node("n"))
    plugin = NodeVolumeLimits(bench)
    bench.put_object(csi_node("n", **{"ebs.csi.aws.com": 1, "disk.csi.azure.com": 1}))
    bench.put(with_volumes(pod("old"), ebs("aws://zone/vol-1")), "n")
    assert bench.filter(plugin, with_volumes(pod(), ebs("vol-1"))) == {"n": None}
    assert bench.filter(plugin, with_volumes(pod(), ebs("vol-2"))) == {"n": REFUSAL}
    azure = {"name": "v", "azureDisk": {"diskName": "d", "diskURI": "/d"}}
    assert bench.filter(plugin, with_volumes(pod(), azure)) == {"n": None}


@pytest.mark.parametrize(
    ("source", "labels", "expected"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, ("d", "h")),
        ({"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}}, {}, ("ebs.csi.aws.com", "vol-1")),
        ({"azureDisk": {"diskName": "x", "diskURI": "/x"}}, {}, ("disk.csi.azure.com", "/x")),
        ({"cinder": {"volumeID": "c"}}, {}, ("cinder.csi.openstack.org", "c")),
        ({"portworxVolume": {"volumeID": "p"}}, {}, ("pxd.portworx.com", "p")),
        (
            {"gcePersistentDisk": {"pdName": "g"}},
            {"topology.kubernetes.io/zone": "us-a"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a/disks/g"),
        ),
        (
            {"gcePersistentDisk": {"pdName": "g"}},
            {"failure-domain.beta.kubernetes.io/zone": "us-east1-a__us-east1-b"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-east1/disks/g"),
        ),
        ({"hostPath": {"path": "/x"}}, {}, None),
    ],
)
def test_volumes_by_the_names_of_their_drivers(source: dict[str, Any], labels: dict[str, str], expected: tuple[str, str] | None) -> None:
    assert csi_volume_of(volume("v", labels=labels, **source)) == expected


def test_the_version_is_what_the_pods_claims_stand_for() -> None:
    bench, plugin = made_bench(node("n"))
    before = plugin.version(pod_with("c0").info())
    bench.put_object(volume("v1", **csi("else")), claim("c0", volume="v0"))
    assert plugin.version(pod_with("c0").info()) == before
    bench.put_object(volume("v0", **csi("else")))
    assert plugin.version(pod_with("c0").info()) != before
    assert plugin.version(pod().info()) is None


class TestHints:
    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, {"d": 1}, QueueingHint.QUEUE),
            ({"d": 1}, {"d": 2}, QueueingHint.QUEUE),
            ({"d": 2}, {"d": 1}, QueueingHint.SKIP),
            ({"d": 1}, {"d": 1}, QueueingHint.SKIP),
            ({"d": 1}, {"d": None}, QueueingHint.QUEUE),
            ({"d": None}, {"d": 1}, QueueingHint.SKIP),
        ],
    )
    def test_a_csi_node_helps_when_it_is_new_or_allows_more(self, old: Any, new: dict[str, Any], expected: QueueingHint) -> None:
        before = None if old is None else csi_node("n", **old)
        assert hint(NodeVolumeLimits(VolumeBench()), 0, pod_with("data"), before, csi_node("n", **new)) is expected

    @pytest.mark.parametrize(
        ("gone", "expected"),
        [
            (pod_with("other", name="x").on("n"), QueueingHint.QUEUE),
            (pod_with("other", name="x").nominated("n"), QueueingHint.QUEUE),
            (pod_with("other", name="x"), QueueingHint.SKIP),
            (with_volumes(pod("x"), ebs("vol-1")).on("n"), QueueingHint.QUEUE),
            (with_volumes(pod("x"), {"name": "v", "iscsi": {"iqn": "i"}}).on("n"), QueueingHint.SKIP),
            (pod("x").on("n"), QueueingHint.SKIP),
        ],
    )
    def test_a_deleted_pod_helps_if_it_had_a_place_and_volumes(self, gone: PodBuilder, expected: QueueingHint) -> None:
        assert hint(NodeVolumeLimits(VolumeBench()), 1, pod_with("data"), gone.build(), None) is expected

    def test_a_detached_volume_helps_pods_with_claims_or_disks_of_the_driver(self) -> None:
        plugin, detached = NodeVolumeLimits(VolumeBench()), attachment("a", "n", "v", "ebs.csi.aws.com")
        assert hint(plugin, 3, pod_with("data"), detached, None) is QueueingHint.QUEUE
        assert hint(plugin, 3, with_volumes(pod(), ebs("vol-1")), detached, None) is QueueingHint.QUEUE
        assert hint(plugin, 3, with_volumes(pod(), {"name": "v", "cinder": {"volumeID": "c"}}), detached, None) is QueueingHint.SKIP
