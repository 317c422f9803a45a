"""VolumeBinding's PreFilter, Filter, Reserve: framework.md §10.9, hints of §3.5."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.plugins import hint, registered
from support.volumes import (
    HOST,
    VolumeBench,
    affinity,
    capacity,
    claim,
    csi_driver,
    csi_node,
    pod_with,
    storage_class,
    volume,
    with_volumes,
)

from koordsched.config.args import VolumeBindingArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import SKIP, Status, error, unresolvable
from koordsched.plugins.volumebinding.plugin import VolumeBinding
from koordsched.queue.events import EventResource, QueueingHint

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
SELECTED = "volume.kubernetes.io/selected-node"

NODES = (node("n1"), node("n2"), node("n3"))


def made_bench(*objects: Any, nodes: tuple[NodeBuilder, ...] = NODES) -> tuple[VolumeBench, VolumeBinding]:
    """Make a bench with the classes local (nothing provisions) and fast (the driver d does), and these objects."""
    bench = VolumeBench(*nodes)
    plugin = VolumeBinding(VolumeBindingArgs(), bench)
    bench.put_object(storage_class("local"), storage_class("fast", "d"), *objects)
    return bench, plugin


class Cycle:
    """One pod's cycle as far as this plugin sees it."""

    def __init__(self, bench: VolumeBench, plugin: VolumeBinding, builder: PodBuilder) -> None:
        self.bench, self.plugin, self.pod, self.state = bench, plugin, builder.info(), CycleState()
        assert plugin.pre_filter(self.state, self.pod, bench.cache.nodes()) is None

    def reserve(self, node_name: str) -> dict[str, str]:
        """Reserve, and return what is assumed for each claim: a volume, or "on" and a node."""
        assert self.plugin.reserve(self.state, self.pod, node_name) is None
        decisions = self.state.read("ReserveVolumeBinding")
        return {each.claim.object.metadata.name: each.volume.metadata.name if each.volume else f"on {node_name}" for each in decisions}

    def unreserve(self, node_name: str) -> None:
        self.plugin.unreserve(self.state, self.pod, node_name)


class TestPreFilter:
    def test_a_pod_without_claims_skips(self) -> None:
        bench, plugin = made_bench()
        assert bench.pre_filter(plugin, pod()) is SKIP
        assert bench.pre_filter(plugin, with_volumes(pod(), {"name": "v", "gcePersistentDisk": {"pdName": "d"}})) is SKIP

    @pytest.mark.parametrize(
        ("found", "refusal"),
        [
            (None, 'persistentvolumeclaim "data" not found'),
            (
                claim("data", volume="gone", status={"phase": "Lost"}),
                'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
            ),
            (claim("data", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), 'persistentvolumeclaim "data" is being deleted'),
            (claim("data"), UNBOUND),
            (claim("data", storage_class="local", volumeName="prebound"), UNBOUND),
            (claim("data", storage_class="now"), UNBOUND),
            (
                claim("data", storage_class="local", size="many"),
                'persistentvolumeclaim "data": spec.resources.requests[storage]: "many" is not a quantity: '
                "expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent",
            ),
        ],
    )
    def test_useless_claims_are_named(self, found: Any, refusal: str) -> None:
        bench, plugin = made_bench(storage_class("now", mode="Immediate"), *([found] if found else []))
        assert bench.pre_filter(plugin, pod_with("data")) == unresolvable(refusal)

    def test_a_class_that_does_not_exist_is_named_as_well(self) -> None:
        bench, plugin = made_bench(claim("data", storage_class="gone"))
        assert bench.pre_filter(plugin, pod_with("data")) == unresolvable(UNBOUND, 'storageclass.storage.k8s.io "gone" not found')

    def test_a_class_without_binding_mode_is_an_error_and_counts(self) -> None:
        bench, plugin = made_bench(storage_class("odd", mode=None), claim("data", storage_class="odd"))
        assert bench.pre_filter(plugin, pod_with("data")) == error('VolumeBindingMode not set for StorageClass "odd"')
        assert bench.said == ["volume stage failed: predicate"]

    def test_a_selector_that_cannot_be_understood_is_named(self) -> None:
        selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
        bench, plugin = made_bench(claim("data", storage_class="local", selector=selector))
        refusal = bench.pre_filter(plugin, pod_with("data"))
        assert isinstance(refusal, Status)
        assert refusal.rejected
        assert refusal.message.startswith('persistentvolumeclaim "data": matchExpressions[0].operator')

    def test_an_ephemeral_volume_needs_a_claim_of_its_own_pod(self) -> None:
        bench, plugin = made_bench()
        mine = with_volumes(pod("p"), {"name": "tmp", "ephemeral": {}})
        waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"'
        assert bench.pre_filter(plugin, mine) == unresolvable(waiting)
        bench.put_object(claim("p-tmp", storage_class="fast"))
        assert bench.pre_filter(plugin, mine) == unresolvable("PVC default/p-tmp was not created for pod default/p (pod is not owner)")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-default-p", "controller": True}
        bench.put_object(claim("p-tmp", storage_class="fast", metadata={"ownerReferences": [owner]}))
        assert bench.pre_filter(plugin, mine) is None


class TestBoundVolumes:
    def test_the_volumes_node_affinity_must_hold(self) -> None:
        bench, plugin = made_bench(volume("v", hosts=["n2", "n3"]), claim("data", volume="v"))
        assert bench.reasons(plugin, pod_with("data")) == {"n1": (CONFLICT,), "n2": (), "n3": ()}

    def test_a_volume_without_affinity_is_everywhere(self) -> None:
        bench, plugin = made_bench(volume("v"), claim("data", volume="v"))
        assert bench.passing(plugin, pod_with("data")) == ["n1", "n2", "n3"]

    def test_a_missing_volume_is_reported_where_no_earlier_one_is_out_of_reach(self) -> None:
        bench, plugin = made_bench(volume("v", hosts=["n2"]), claim("data", volume="v"), claim("more", volume="gone"))
        assert bench.reasons(plugin, pod_with("data", "more")) == {"n1": (CONFLICT,), "n2": (NO_VOLUME,), "n3": (CONFLICT,)}

    def test_an_invalid_affinity_reaches_no_node(self) -> None:
        invalid = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "Near", "values": ["n1"]}]}]}}
        bench, plugin = made_bench(volume("v", nodeAffinity=invalid), claim("data", volume="v"))
        assert bench.passing(plugin, pod_with("data")) == []
        assert bench.passing(plugin, pod()) == ["n1", "n2", "n3"]


class TestFreeVolumes:
    def test_each_node_gets_the_smallest_that_it_reaches_and_that_is_large_enough(self) -> None:
        objects = [volume("a", storage_class="local", size="1Gi"), volume("b", storage_class="local", size="2Gi", hosts=["n1"])]
        objects += [volume("c", storage_class="local", size="3Gi"), claim("data", storage_class="local", size="2Gi")]
        for name, expected in {"n1": "b", "n2": "c"}.items():
            bench, plugin = made_bench(*objects)
            assert Cycle(bench, plugin, pod_with("data")).reserve(name) == {"data": expected}

    def test_no_node_where_there_is_none(self) -> None:
        bench, plugin = made_bench(volume("v", storage_class="local", hosts=["n2"]), claim("data", storage_class="local"))
        assert bench.reasons(plugin, pod_with("data")) == {"n1": (NOTHING,), "n2": (), "n3": (NOTHING,)}

    @pytest.mark.parametrize(
        "unfit",
        [
            volume("v", storage_class="other"),
            volume("v", storage_class="local", size="1Mi"),
            volume("v", storage_class="local", size="lots"),
            volume("v", storage_class="local", phase="Released"),
            volume("v", storage_class="local", phase="Pending"),
            volume("v", storage_class="local", claimed="another"),
            volume("v", storage_class="local", volumeMode="Block"),
            volume("v", storage_class="local", accessModes=["ReadOnlyMany"]),
            volume("v", storage_class="local", volumeAttributesClassName="gold"),
        ],
    )
    def test_what_does_not_suit_is_not_offered(self, unfit: Any) -> None:
        bench, plugin = made_bench(unfit, claim("data", storage_class="local"))
        assert bench.passing(plugin, pod_with("data")) == []

    def test_a_selector_chooses_by_labels(self) -> None:
        wanted = claim("data", storage_class="local", selector={"matchLabels": {"disk": "ssd"}})
        bench, plugin = made_bench(volume("a", storage_class="local"), wanted)
        assert bench.passing(plugin, pod_with("data")) == []
        bench.put_object(volume("b", storage_class="local", size="9Gi", labels={"disk": "ssd"}))
        assert Cycle(bench, plugin, pod_with("data")).reserve("n1") == {"data": "b"}

    def test_a_volume_meant_for_the_claim_wins_and_decides(self) -> None:
        objects = [volume("a", storage_class="local"), volume("mine", storage_class="local", size="9Gi", claimed="data", hosts=["n2"])]
        bench, plugin = made_bench(*objects, claim("data", storage_class="local"))
        assert bench.passing(plugin, pod_with("data")) == ["n2"]
        assert Cycle(bench, plugin, pod_with("data")).reserve("n2") == {"data": "mine"}

    def test_a_volume_of_a_claim_with_another_uid_is_not_meant(self) -> None:
        other = {"namespace": "default", "name": "data", "uid": "of-an-earlier-one"}
        bench, plugin = made_bench(volume("v", storage_class="local", claimRef=other), claim("data", storage_class="local"))
        assert bench.passing(plugin, pod_with("data")) == []

    def test_two_claims_get_two_volumes_the_smaller_claim_first(self) -> None:
        objects = [volume("a", storage_class="local", size="2Gi"), volume("b", storage_class="local", size="2Gi", hosts=["n1"])]
        objects += [claim("big", storage_class="local", size="2Gi"), claim("tiny", storage_class="local")]
        bench, plugin = made_bench(*objects)
        assert bench.reasons(plugin, pod_with("big", "tiny")) == {"n1": (), "n2": (NOTHING,), "n3": (NOTHING,)}
        assert Cycle(bench, plugin, pod_with("big", "tiny")).reserve("n1") == {"tiny": "a", "big": "b"}

    def test_a_claim_that_stands_twice_in_the_pod_is_one(self) -> None:
        bench, plugin = made_bench(volume("v", storage_class="local"), claim("data", storage_class="local"))
        assert bench.passing(plugin, pod_with("data", "data")) == ["n1", "n2", "n3"]

    def test_places_of_several_kinds_compete_by_size(self) -> None:
        zone = "topology.kubernetes.io/zone"
        nodes = (node("n1").zone("a"), node("n2").zone("a"), node("n3").zone("b"))
        not_n2 = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["n2"]}]}]}}
        objects = [
            volume("host", storage_class="local", size="1Gi", hosts=["n1"]),
            volume("zonal", storage_class="local", size="2Gi", nodeAffinity=affinity(zone, "a")),
            volume("odd", storage_class="local", size="3Gi", nodeAffinity=not_n2),
            volume("any", storage_class="local", size="4Gi"),
        ]
        for name, expected in {"n1": "host", "n2": "zonal", "n3": "odd"}.items():
            bench, plugin = made_bench(*objects, claim("data", storage_class="local"), nodes=nodes)
            assert Cycle(bench, plugin, pod_with("data")).reserve(name) == {"data": expected}


class TestProvisioning:
    def test_a_class_with_a_provisioner_makes_volumes_anywhere(self) -> None:
        bench, plugin = made_bench(claim("data", storage_class="fast"))
        assert bench.passing(plugin, pod_with("data")) == ["n1", "n2", "n3"]
        assert Cycle(bench, plugin, pod_with("data")).reserve("n2") == {"data": "on n2"}

    def test_a_free_volume_is_preferred_to_a_new_one(self) -> None:
        bench, plugin = made_bench(volume("v", storage_class="fast", hosts=["n1"]), claim("data", storage_class="fast"))
        assert Cycle(bench, plugin, pod_with("data")).reserve("n1") == {"data": "v"}
        bench, plugin = made_bench(volume("v", storage_class="fast", hosts=["n1"]), claim("data", storage_class="fast"))
        assert Cycle(bench, plugin, pod_with("data")).reserve("n2") == {"data": "on n2"}

    @pytest.mark.parametrize(
        ("topologies", "expected"),
        [
            ([], ["n1", "n2", "n3"]),
            ([{"matchLabelExpressions": [{"key": HOST, "values": ["n1", "n3"]}]}], ["n1", "n3"]),
            ([{"matchLabelExpressions": [{"key": HOST, "values": ["n1"]}, {"key": "zone", "values": ["a"]}]}], []),
            ([{"matchLabelExpressions": []}], []),
            ([{"matchLabelExpressions": []}, {"matchLabelExpressions": [{"key": HOST, "values": ["n2"]}]}], ["n2"]),
        ],
    )
    def test_a_class_makes_them_in_its_topologies(self, topologies: Any, expected: list[str]) -> None:
        bench, plugin = made_bench(storage_class("zonal", "d", allowedTopologies=topologies), claim("data", storage_class="zonal"))
        assert bench.passing(plugin, pod_with("data")) == expected
        assert {reason for reasons in bench.reasons(plugin, pod_with("data")).values() for reason in reasons} <= {NOTHING}

    @pytest.mark.parametrize(
        ("pool", "expected"),
        [
            (capacity("p", "fast", "1Gi", {HOST: "n1"}), ["n1"]),
            (capacity("p", "fast", "1Mi", {HOST: "n1"}), []),
            (capacity("p", "fast", "9Gi", {HOST: "n1"}, maximumVolumeSize="1Mi"), []),
            (capacity("p", "fast", "1Mi", {HOST: "n1"}, maximumVolumeSize="1Gi"), ["n1"]),
            (capacity("p", "fast", None, {HOST: "n1"}), []),
            (capacity("p", "fast", "9Gi", {}), ["n1", "n2", "n3"]),
            (capacity("p", "fast", "9Gi", None), []),
            (capacity("p", "other", "9Gi", {}), []),
            (capacity("p", "fast", "lots", {}), []),
        ],
    )
    def test_a_driver_that_counts_must_have_enough_within_reach(self, pool: Any, expected: list[str]) -> None:
        bench, plugin = made_bench(csi_driver("d", storage_capacity=True), pool, claim("data", storage_class="fast"))
        assert bench.passing(plugin, pod_with("data")) == expected
        assert set(bench.reasons(plugin, pod_with("data")).values()) <= {(), (NO_SPACE,)}

    def test_capacity_is_not_asked_about_without_need(self) -> None:
        bench, plugin = made_bench(csi_driver("d", storage_capacity=False), claim("data", storage_class="fast"))
        assert bench.passing(plugin, pod_with("data")) == ["n1", "n2", "n3"]
        bench.put_object(csi_driver("d", storage_capacity=True), claim("data", storage_class="fast", size=None))
        assert bench.passing(plugin, pod_with("data")) == ["n1", "n2", "n3"]

    def test_a_claim_that_has_its_node_is_used_there_only(self) -> None:
        bench, plugin = made_bench(claim("data", storage_class="fast", annotations={SELECTED: "n2"}))
        assert bench.reasons(plugin, pod_with("data")) == {"n1": (NOTHING,), "n2": (), "n3": (NOTHING,)}

    def test_several_reasons_are_reported_together(self) -> None:
        bench, plugin = made_bench(volume("v", hosts=["n2"]), claim("data", volume="v"), claim("more", storage_class="local"))
        assert bench.reasons(plugin, pod_with("data", "more"))["n1"] == (CONFLICT, NOTHING)


class TestReserve:
    def test_an_assumed_volume_goes_to_no_other_claim_until_it_is_released(self) -> None:
        objects = [volume("v", storage_class="local"), claim("one", storage_class="local"), claim("two", storage_class="local")]
        bench, plugin = made_bench(*objects)
        cycle = Cycle(bench, plugin, pod_with("one"))
        before = plugin.version(pod_with("two").info())
        assert cycle.reserve("n1") == {"one": "v"}
        assert plugin.version(pod_with("two").info()) != before
        assert bench.passing(plugin, pod_with("two", name="other")) == []
        cycle.unreserve("n1")
        cycle.unreserve("n1")
        assert bench.passing(plugin, pod_with("two", name="other")) == ["n1", "n2", "n3"]

    def test_profiles_share_the_assumed_bindings(self) -> None:
        objects = [volume("v", storage_class="local"), claim("one", storage_class="local"), claim("two", storage_class="local")]
        bench, plugin = made_bench(*objects)
        other = VolumeBinding(VolumeBindingArgs(), bench)
        Cycle(bench, plugin, pod_with("one")).reserve("n1")
        assert bench.passing(other, pod_with("two", name="other")) == []

    def test_pods_that_share_a_claim_share_its_volume_until_the_last_gives_it_back(self) -> None:
        objects = [volume("a", storage_class="local", hosts=["n1"]), volume("b", storage_class="local", hosts=["n2"])]
        bench, plugin = made_bench(*objects, claim("data", storage_class="local"))
        first = Cycle(bench, plugin, pod_with("data", name="first"))
        assert first.reserve("n1") == {"data": "a"}
        assert bench.passing(plugin, pod_with("data", name="second")) == ["n1"]
        second = Cycle(bench, plugin, pod_with("data", name="second"))
        assert second.reserve("n1") == {"data": "a"}
        first.unreserve("n1")
        assert bench.passing(plugin, pod_with("data", name="third")) == ["n1"]
        second.unreserve("n1")
        assert bench.passing(plugin, pod_with("data", name="third")) == ["n1", "n2"]

    def test_pods_that_share_a_claim_share_the_node_it_is_made_for(self) -> None:
        bench, plugin = made_bench(claim("data", storage_class="fast"))
        first = Cycle(bench, plugin, pod_with("data", name="first"))
        assert first.reserve("n2") == {"data": "on n2"}
        assert bench.passing(plugin, pod_with("data", name="second")) == ["n2"]
        first.unreserve("n2")
        assert bench.passing(plugin, pod_with("data", name="second")) == ["n1", "n2", "n3"]

    def test_a_claim_that_was_given_back_may_be_promised_another_volume(self) -> None:
        objects = [volume("a", storage_class="local", hosts=["n1"]), volume("b", storage_class="local", hosts=["n2"])]
        bench, plugin = made_bench(*objects, claim("data", storage_class="local"))
        first = Cycle(bench, plugin, pod_with("data", name="first"))
        assert first.reserve("n1") == {"data": "a"}
        first.unreserve("n1")
        assert Cycle(bench, plugin, pod_with("data", name="second")).reserve("n2") == {"data": "b"}

    def test_a_pod_whose_claims_are_bound_has_nothing_to_reserve_or_bind(self) -> None:
        bench, plugin = made_bench(volume("v"), claim("data", volume="v"))
        cycle = Cycle(bench, plugin, pod_with("data"))
        assert plugin.reserve(cycle.state, cycle.pod, "n1") is None
        assert plugin.pre_bind_pre_flight(cycle.state, cycle.pod, "n1") is SKIP

    def test_a_reservation_on_a_node_that_is_gone_is_an_error(self) -> None:
        bench, plugin = made_bench(volume("v", storage_class="local"), claim("data", storage_class="local"))
        cycle = Cycle(bench, plugin, pod_with("data"))
        assert plugin.reserve(cycle.state, cycle.pod, "gone") == error('node "gone" not found')


def test_the_version_follows_what_the_claims_can_be_given() -> None:
    bench, plugin = made_bench(claim("data", storage_class="local"), claim("held", volume="v"), volume("v"))
    waiting, bound = pod_with("data").info(), pod_with("held").info()
    seen = plugin.version(waiting), plugin.version(bound)

    def changed(*objects: Any) -> tuple[bool, bool]:
        nonlocal seen
        bench.put_object(*objects)
        before, seen = seen, (plugin.version(waiting), plugin.version(bound))
        return before[0] != seen[0], before[1] != seen[1]

    assert changed(volume("free", storage_class="local")) == (True, False)
    assert changed(volume("other", storage_class="fast")) == (False, False)
    assert changed(volume("theirs", storage_class="local", claimed="other")) == (False, False)
    assert changed(volume("mine", storage_class="local", claimed="data")) == (True, False)
    assert changed(volume("v")) == (False, True)
    assert changed(storage_class("local")) == (True, False)
    assert changed(capacity("p", "local", "1Gi", {})) == (True, False)
    assert changed(claim("unrelated")) == (False, False)
    assert plugin.version(pod().info()) is None


class TestHints:
    def test_which_events(self) -> None:
        plugin = made_bench()[1]
        always = [each.event.resource for each in registered(plugin) if each.hint is None]
        assert always == [EventResource.PERSISTENT_VOLUME, EventResource.NODE]

    def test_classes(self) -> None:
        plugin = made_bench()[1]
        plain, zonal = (
            storage_class("c"),
            storage_class("c", allowedTopologies=[{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}]),
        )
        assert hint(plugin, 0, pod_with("data"), None, plain) is QueueingHint.QUEUE
        assert hint(plugin, 0, pod_with("data"), plain, zonal) is QueueingHint.QUEUE
        assert hint(plugin, 0, pod_with("data"), plain, storage_class("c", reclaimPolicy="Retain")) is QueueingHint.SKIP

    def test_claims(self) -> None:
        plugin = made_bench()[1]
        assert hint(plugin, 1, pod_with("data"), claim("data"), claim("data", volume="v")) is QueueingHint.QUEUE
        assert hint(plugin, 1, pod_with("data"), None, claim("other")) is QueueingHint.SKIP

    def test_csi_nodes(self) -> None:
        plugin, old = made_bench()[1], csi_node("n", d=1)
        assert hint(plugin, 4, pod_with("data"), None, old) is QueueingHint.QUEUE
        assert hint(plugin, 4, pod_with("data"), old, csi_node("n", d=2)) is QueueingHint.SKIP

    def test_drivers(self) -> None:
        plugin, inline = made_bench()[1], with_volumes(pod(), {"name": "v", "csi": {"driver": "d"}})
        counting, not_counting = csi_driver("d", storage_capacity=True), csi_driver("d", storage_capacity=False)
        assert hint(plugin, 5, inline, counting, not_counting) is QueueingHint.QUEUE
        assert hint(plugin, 5, inline, not_counting, counting) is QueueingHint.SKIP
        assert hint(plugin, 5, pod("none"), counting, not_counting) is QueueingHint.SKIP
        assert hint(plugin, 5, pod_with("data"), counting, not_counting) is QueueingHint.QUEUE
        assert hint(plugin, 5, pod_with("data"), counting, None) is QueueingHint.QUEUE
        assert hint(plugin, 5, pod_with("data"), not_counting, None) is QueueingHint.SKIP

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, "1Gi", QueueingHint.QUEUE),
            ("1Gi", "2Gi", QueueingHint.QUEUE),
            ("2Gi", "1Gi", QueueingHint.SKIP),
            ("1Gi", "1Gi", QueueingHint.SKIP),
            ("lots", "1Gi", QueueingHint.QUEUE),
            ("1Gi", "lots", QueueingHint.SKIP),
        ],
    )
    def test_capacities(self, old: str | None, new: str, expected: QueueingHint) -> None:
        before = capacity("p", "fast", old, {}) if old else None
        assert hint(made_bench()[1], 6, pod_with("data"), before, capacity("p", "fast", new, {})) is expected
