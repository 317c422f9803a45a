"""Which devices of a node a pod gets, against the worked examples of the acceptance checklist (deviceshare.md §17)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.device_tables import (
    CARD,
    CORE,
    FPGA,
    GIB,
    GPU,
    LEAST,
    MEMORY,
    MOST,
    NIC,
    RATIO,
    RDMA,
    T8,
    DeviceNodes,
    fpga,
    gpu,
    gpu_demand,
    gpus,
    held,
    minors,
    named,
    nic,
    nic_demand,
    request,
)

from koordsched._core.device_facts import DevicePartition, DeviceResource, PartitionDemand, TypeDemand
from koordsched._core.device_filter import filter_devices
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched._core.device_score import DeviceScoring

if TYPE_CHECKING:
    from collections.abc import Mapping

PAIRS = {2: [DevicePartition((0, 1), 2), DevicePartition((4, 5), 1)]}
NICS = [nic(7, 0, "p0"), nic(1, 0, "p1"), nic(2, 1, "p2"), nic(3, 1, "p3")]


def every(_labels: Mapping[str, str]) -> bool:
    return True


def none(_labels: Mapping[str, str]) -> bool:
    return False


def t8(**fields: Any) -> DeviceNodes:
    return DeviceNodes().describe((GPU, T8), **fields)


# GPUs


def test_gpus_come_from_the_fullest_scope_that_has_enough() -> None:
    """Checklist 1."""
    node = t8().use(2)
    assert [node.take(gpus(count)) for count in (1, 4, 2)] == [{"gpu": [3]}, {"gpu": [4, 5, 6, 7]}, {"gpu": [0, 1]}]


def test_a_share_takes_the_card_with_the_best_score_of_its_switch() -> None:
    """Checklist 2, with scores as §7 says ([FIX] of §6.3.3)."""
    assert t8().use(6).use(2, percent=50).take(gpus(percent=50)) == {"gpu": [3]}
    by_ratio = DeviceScoring({RATIO: 1}, most=True)
    assert t8().use(6).use(2, percent=50).take(gpus(percent=50), by_ratio) == {"gpu": [2]}


def test_cards_that_nvlink_joins_have_a_built_in_partition_table() -> None:
    """Checklist 3."""
    node = t8().label(model="H20", honor=True).use(0)
    assert [node.take(gpus(count)) for count in (1, 2, 4)] == [{"gpu": [1]}, {"gpu": [2, 3]}, {"gpu": [4, 5, 6, 7]}]
    assert node.take(gpus(8)) == node.code(gpus(8)) == "INSUFFICIENT_PARTITIONED"


def test_partition_groups_are_visited_from_the_lowest_score() -> None:
    """Checklist 4."""
    node = t8(partitions=PAIRS, honor=True)
    assert [node.take(gpus(2)), node.take(gpus(2))] == [{"gpu": [4, 5]}, {"gpu": [0, 1]}]
    assert node.code(gpus(1)) == "UNSUPPORTED_COUNT"


def test_a_restricted_partition_comes_from_the_first_group_alone() -> None:
    """Checklist 5."""
    node = t8(partitions=PAIRS, honor=True)
    asked = gpus(2, partition=PartitionDemand(restricted=True))
    assert [node.take(asked), node.take(asked)] == [{"gpu": [4, 5]}, "INSUFFICIENT_PARTITIONED"]


def test_a_partition_leaves_the_largest_ones_whole() -> None:
    table = {1: [DevicePartition((minor,), 1) for minor in range(4)], 2: [DevicePartition((0, 1), 1), DevicePartition((2, 3), 1)]}
    assert t8(partitions=table).use(3).take(gpus(1)) == {"gpu": [2]}


def test_a_ring_bus_bandwidth_must_be_stated_and_suffice() -> None:
    table = {1: [DevicePartition((0,)), DevicePartition((1,), 0, 10), DevicePartition((2,), 0, 20)]}
    node = t8(partitions=table)
    asked = gpus(1, partition=PartitionDemand(bandwidth=20))
    assert [node.take(asked), node.take(asked)] == [{"gpu": [2]}, "INSUFFICIENT_PARTITIONED"]


def test_a_pod_that_demands_a_partition_is_refused_where_there_is_no_table() -> None:
    assert t8().code(gpus(1, partition=PartitionDemand())) == "NO_PARTITION_TABLE"
    assert t8(partitions={}).code(gpus(1, partition=PartitionDemand())) == "UNSUPPORTED_COUNT"


def test_a_partition_that_names_an_absent_minor_is_never_given() -> None:
    node = t8(partitions={1: [DevicePartition((9,))], 2: [DevicePartition((0, 9))]}, honor=True)
    assert node.code(gpus(1)) == node.code(gpus(2)) == "INSUFFICIENT_PARTITIONED"


def test_a_partition_of_another_number_of_minors_than_it_is_listed_for_is_never_given() -> None:
    node = t8(
        partitions={1: [DevicePartition((0, 1)), DevicePartition(())], 2: [DevicePartition((0,)), DevicePartition((1, 1))]}, honor=True
    )
    assert node.code(gpus(1)) == node.code(gpus(2)) == "INSUFFICIENT_PARTITIONED"


def test_memory_and_ratio_follow_from_each_other() -> None:
    """Checklist 6."""
    cases = [(80 * GIB, {RATIO: 41}, {RATIO: 41, MEMORY: 35218731827}), (24 * GIB, {MEMORY: 7 * GIB}, {MEMORY: 7 * GIB, RATIO: 29})]
    cases.append((24 * GIB, {RATIO: 17}, {RATIO: 17, MEMORY: 4380866641}))
    for memory, asked, given in cases:
        node = DeviceNodes().describe((GPU, [gpu(0, memory=memory)]))
        found = node.allocate(request({GPU: TypeDemand(asked)}, shared=True))
        assert not isinstance(found, str)
        assert found[0].amounts == given
        assert node.allocate(request({GPU: TypeDemand(asked)}, shared=True), reserve=False)[0].amounts == asked  # type: ignore[union-attr]


def test_a_required_scope_that_no_scope_meets() -> None:
    """Checklist 10; a scope of unknown name has level 0 and is met by the node."""
    assert t8().code(gpus(3, scope=3)) == t8().code(gpus(1, scope=4)) == "INSUFFICIENT_SCOPED"
    assert t8().take(gpus(2, scope=3)) == {"gpu": [0, 1]}
    assert t8().use(0, 2, 4, 6).code(gpus(2, scope=3)) == "INSUFFICIENT_SCOPED"
    assert t8().use(0, 2, 4, 6).take(gpus(4, scope=0)) == {"gpu": [1, 3, 5, 7]}
    assert t8().use(0).take(gpus(4, scope=2)) == {"gpu": [4, 5, 6, 7]}


def test_without_topology_the_lowest_minors_are_given() -> None:
    """Checklist 11."""
    node = DeviceNodes().describe((GPU, [gpu(minor) for minor in range(8)]))
    assert node.code(gpus(1, scope=2)) == "NO_TOPOLOGY"
    assert node.code(gpus(9)) == "INSUFFICIENT GPU"
    assert node.take(gpus(2)) == {"gpu": [0, 1]}


def test_where_the_place_of_cards_is_known_the_text_is_another_one() -> None:
    assert t8().code(gpus(9)) == "INSUFFICIENT_GPUS"


def test_shares_of_several_cards_have_no_scope() -> None:
    node = t8().use(0, percent=50)
    assert node.code(gpus(2, percent=80, scope=2)) == "MULTI_SHARED"
    assert node.take(gpus(2, percent=80)) == {"gpu": [1, 2]}


def test_scopes_in_use_are_filled_before_others() -> None:
    """Checklist 16."""
    assert t8().use(1).take(gpus(3)) == {"gpu": [0, 2, 3]}


def test_unhealthy_cards_are_not_given() -> None:
    node = DeviceNodes().describe((GPU, [gpu(0, healthy=False), gpu(1), gpu(2, healthy=False)]))
    assert node.code(gpus(2)) == "INSUFFICIENT GPU"
    assert node.take(gpus(1)) == {"gpu": [1]}


def test_minors_are_any_numbers() -> None:
    node = DeviceNodes().describe((GPU, [gpu(1000 * minor, 0, "p") for minor in range(1, 128)]))
    assert node.take(gpus(126)) == {"gpu": [1000 * minor for minor in range(1, 127)]}
    assert node.take(gpus(1)) == {"gpu": [127000]}
    assert node.code(gpus(1)) == "INSUFFICIENT_GPUS"


def test_a_template_of_the_model_is_named_in_the_result() -> None:
    node = t8().label(vendor="huawei", model="310")

    def asked(templates: dict[str, list[str]]) -> DeviceRequest:
        return request({GPU: TypeDemand({MEMORY: GIB})}, shared=True, templates=templates)

    assert node.code(asked({"huawei-910": ["a"]})) == "NO_TEMPLATE"
    assert [a.template for a in node.allocate(asked({"huawei-310": ["a"]}))] == ["a"]  # type: ignore[union-attr]
    assert [a.template for a in node.allocate(asked({"huawei-310": ["a", "b"]}))] == [""]  # type: ignore[union-attr]


# Labels


def test_labels_keep_shares_out() -> None:
    """Checklist 22 and 23; also of nodes without devices."""
    bare = DeviceNodes().label(vendor="x", model="y")
    assert bare.code(gpus(percent=50, isolation_provider="HAMi-core")) == "NO_ISOLATION_PROVIDER"
    assert bare.code(gpus(percent=50, unshareable=[("x", "y")])) == "SHARE_UNSUPPORTED"
    assert bare.code(gpus(isolation_provider="HAMi-core", unshareable=[("x", "y")])) == ""
    assert t8().label(isolation_provider="HAMi-core").code(gpus(percent=50, isolation_provider="HAMi-core")) == ""


def test_on_aligned_rows_labels_alone_are_checked() -> None:
    node = DeviceNodes().describe((FPGA, [fpga(0)]))
    rows, aligned = np.array([node.row], np.int32), np.ones(1, np.uint8)
    assert not filter_devices(node.table, gpus(percent=50), rows, aligned=aligned)[0]
    refused = filter_devices(node.table, gpus(percent=50, isolation_provider="x"), rows, aligned=aligned)
    assert named(int(refused[0])) == "NO_ISOLATION_PROVIDER"
    with pytest.raises(ValueError, match="2 flags for 1 rows"):
        filter_devices(node.table, gpus(), rows, aligned=np.ones(2, np.uint8))
    with pytest.raises(TypeError, match="must be contiguous uint8: got bool"):
        filter_devices(node.table, gpus(), rows, aligned=np.array([True]))


def test_nodes_without_an_entry_pass_and_give_nothing() -> None:
    """Checklist 26."""
    assert (DeviceNodes().code(gpus(4)), DeviceNodes().allocate(gpus(4))) == ("", ())
    assert DeviceNodes().describe((RDMA, NICS)).code(gpus(1)) == "NO_DEVICES GPU"


def test_a_node_without_device_object_has_an_entry_as_long_as_a_pod_holds_something_there() -> None:
    """[FIX] of §13."""
    node = DeviceNodes().use(0, 1)
    assert node.code(gpus(1)) == "INSUFFICIENT GPU"
    node.table.remove(1, [held(0)])
    assert node.code(gpus(1)) == "INSUFFICIENT GPU"
    node.table.remove(1, [held(1)])
    assert node.code(gpus(1)) == ""


# RDMA and FPGA


def test_virtual_functions_are_given_in_the_order_of_their_bus_ids() -> None:
    """Checklist 14."""
    node = DeviceNodes().describe((RDMA, [nic(0, vfs=["0000:3b:10.1", "0000:3b:02.0", "0000:3b:00.7"], vf_labels={"a": "b"})]))
    asked = request({RDMA: nic_demand(percent=1, vf_selector=every)})
    given = []
    for _ in range(3):
        found = node.allocate(asked)
        given.append(found[0].vf)  # type: ignore[union-attr]
        node.take(asked)
    assert given == [("0000:3b:00.7", 2), ("0000:3b:02.0", 1), ("0000:3b:10.1", 0)]
    assert node.code(asked) == "INSUFFICIENT RDMA"
    other = DeviceNodes().describe((RDMA, [nic(0, vfs=["x"], vf_labels={"a": "b"})]))
    assert other.code(request({RDMA: nic_demand(percent=1, vf_selector=lambda labels: labels.get("a") == "c")})) == "INSUFFICIENT RDMA"
    assert DeviceNodes().describe((RDMA, NICS)).code(asked) == "NO_VFS RDMA"


def test_one_of_each_device_that_the_selector_matches() -> None:
    listed = [nic(0, labels={"a": "b"}), nic(1), nic(2, labels={"a": "b"}), nic(3, healthy=False)]
    matching = nic_demand(percent=1, apply_for_all=True, selector=lambda labels: labels.get("a") == "b")
    assert DeviceNodes().describe((RDMA, listed)).take(request({RDMA: matching})) == {"rdma": [0, 2]}
    everywhere = request({RDMA: nic_demand(percent=1, apply_for_all=True)})
    assert DeviceNodes().describe((RDMA, listed)).code(everywhere) == "INSUFFICIENT RDMA"  # health does not count for how many
    assert DeviceNodes().describe((RDMA, listed[:3])).take(everywhere) == {"rdma": [0, 1, 2]}
    nothing = nic_demand(percent=1, apply_for_all=True, selector=none)
    assert DeviceNodes().describe((RDMA, listed)).code(request({RDMA: nothing})) == "NO_DEVICES RDMA"


def test_a_selector_is_asked_about_labels_that_come_later() -> None:
    asked = request({GPU: gpu_demand(selector=lambda labels: labels.get("a") == "b")})
    assert t8().code(asked) == "INSUFFICIENT_GPUS"
    node = t8()
    assert node.code(asked) == "INSUFFICIENT_GPUS"
    node.describe((GPU, [gpu(0), gpu(1, labels={"a": "b"})]))
    assert node.take(asked) == {"gpu": [1]}


def test_without_a_joint_specification_types_are_independent() -> None:
    """Checklist 13, second half."""
    node = DeviceNodes().describe((GPU, T8), (RDMA, NICS))
    assert node.take(request({GPU: gpu_demand(2), RDMA: nic_demand(2)})) == {"gpu": [0, 1], "rdma": [1, 2]}


# Joint allocation


def joint(count: int = 1, cards: int = 4, **options: Any) -> DeviceRequest:
    return request({GPU: gpu_demand(cards), RDMA: nic_demand(count)}, joint=(GPU, RDMA), **options)


def test_a_nic_far_away_will_do_unless_the_same_switch_is_required() -> None:
    """Checklist 12."""
    node = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, 0, "p0")]))
    assert minors(node.allocate(joint())) == {"gpu": [0, 1, 2, 3], "rdma": [0]}  # type: ignore[arg-type]
    assert node.code(joint(same_pcie=True)) == "INSUFFICIENT RDMA"


def test_nics_come_from_the_switches_of_the_cards_first() -> None:
    """Checklist 13, first half."""
    node = DeviceNodes().describe((GPU, T8), (RDMA, NICS))
    assert node.take(joint(2, 2)) == {"gpu": [0, 1], "rdma": [7, 1]}


def test_each_switch_gives_a_nic_even_if_one_was_asked_for() -> None:
    node = DeviceNodes().describe((GPU, T8), (RDMA, NICS))
    assert node.take(joint(1, 4)) == {"gpu": [0, 1, 2, 3], "rdma": [1, 7]}


def test_other_cards_are_tried_where_the_first_ones_have_no_nic_on_their_switch() -> None:
    """[OPT] of §6.2: the cards taken first are on p0, the only NIC is on p2."""
    node = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, 1, "p2")])).use(1)
    asked = joint(1, 1, same_pcie=True)
    assert node.code(asked) == ""
    assert node.take(asked) == {"gpu": [4], "rdma": [0]}


def test_a_joint_search_keeps_to_partitions() -> None:
    table = {2: [DevicePartition((0, 1), 1), DevicePartition((6, 7), 1)]}
    node = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, 1, "p2"), nic(1, 1, "p3")]), partitions=table, honor=True)
    assert node.take(joint(1, 2, same_pcie=True)) == {"gpu": [6, 7], "rdma": [1]}
    assert node.code(joint(1, 2, same_pcie=True)) == "JOINT_VIOLATION"


def test_a_joint_search_keeps_to_the_required_scope() -> None:
    node = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, 0, "p0"), nic(1, 1, "p2"), nic(2, 1, "p3")]))
    assert node.take(joint(1, 3, same_pcie=True, scope=2)) == {"gpu": [4, 5, 6], "rdma": [1, 2]}


def test_a_full_nic_does_not_stand_in_the_way_of_the_others_of_its_switch() -> None:
    """The round robin counts a full NIC as the first of its switch: what is asked for is found by the search."""
    cards = [gpu(0, 0, "p0"), gpu(1, 0, "p1")]
    node = DeviceNodes().describe(
        (GPU, cards), (RDMA, [nic(0, 0, "p0"), nic(1, 0, "p0"), nic(2, 0, "p1"), nic(3, 0, "p1"), nic(4, 0, "p0")])
    )
    node.use(2, of=RDMA)
    assert node.take(joint(2, 2, same_pcie=True)) == {"gpu": [0, 1], "rdma": [0, 3]}


def test_well_planned_nodes_are_filtered_by_cards_alone() -> None:
    """Checklist 28; the shortage shows at Reserve."""
    node = DeviceNodes().describe((GPU, T8), (RDMA, NICS), well_planned=True).use(1, 2, 3, 7, of=RDMA)
    assert node.code(joint()) == ""
    assert node.allocate(joint()) == "INSUFFICIENT RDMA"
    assert node.code(request({GPU: gpu_demand(percent=50), RDMA: nic_demand()}, shared=True, joint=(GPU, RDMA))) == "INSUFFICIENT RDMA"


# NUMA


def test_a_numa_mask_leaves_out_other_numa_nodes_and_devices_without_topology() -> None:
    assert t8().take(gpus(2), mask=0b10) == {"gpu": [4, 5]}
    assert t8().allocate(gpus(5), mask=0b10) == "INSUFFICIENT_GPUS"
    assert DeviceNodes().describe((GPU, [gpu(0), gpu(1, -1, "p")])).take(gpus(1), mask=0b10) == {"gpu": [1]}


# Reservations, victims, designations


def test_what_is_reusable_counts_as_free() -> None:
    """Checklist 19: 25 % reserved and 25 % free of card 0."""
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1)])).use(0, percent=75)
    owner = DeviceAdjustment(reusable={GPU: {0: {CORE: 25, RATIO: 25, MEMORY: 20 * GIB}}}, preferred={GPU: [0]})
    assert node.take(gpus(percent=50), adjustment=owner) == {"gpu": [0]}
    assert DeviceNodes().describe((GPU, [gpu(0), gpu(1)])).use(0, percent=75).take(gpus(percent=50)) == {"gpu": [1]}


def test_a_pod_that_ignores_reservations_takes_what_they_have_left() -> None:
    """Checklist 21: both cards are reserved; of card 0 an owner has 75 %, so 25 % are unallocated, and all of card 1."""
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1)])).use(0, 1).use(0, percent=75)
    whole = {CORE: 100, RATIO: 100, MEMORY: 80 * GIB}
    adjustment = DeviceAdjustment({GPU: {0: whole, 1: whole}})
    assert node.take(gpus(percent=50), adjustment=adjustment) == {"gpu": [1]}


def test_what_is_required_limits_what_is_free() -> None:
    """Checklist 20: 25 % left in a restricted reservation."""
    left = {CORE: 25, RATIO: 25, MEMORY: 20 * GIB}
    node = DeviceNodes().describe((GPU, [gpu(0), gpu(1)])).use(0, percent=25)
    restricted = DeviceAdjustment(reusable={GPU: {0: left}}, required={GPU: {0: left}}, required_minors={GPU: [0]}, preferred={GPU: [0]})
    assert node.allocate(gpus(percent=50), adjustment=restricted) == "INSUFFICIENT GPU"
    assert minors(node.allocate(gpus(percent=25), adjustment=restricted)) == {"gpu": [0]}  # type: ignore[arg-type]
    nothing = DeviceAdjustment(required={GPU: {0: {}}})
    assert node.allocate(gpus(percent=25), adjustment=nothing) == "INSUFFICIENT GPU"


def test_candidates_can_be_restricted_for_every_step() -> None:
    assert t8().take(gpus(1), adjustment=DeviceAdjustment(only={GPU: [5]})) == {"gpu": [5]}
    assert t8().allocate(gpus(2), adjustment=DeviceAdjustment(only={GPU: [5]})) == "INSUFFICIENT_GPUS"


def test_minors_that_must_be_in_the_result_are_chosen() -> None:
    """[FIX] of §8: pre-allocation takes the minors of the pod whose devices it is to have."""
    assert t8().take(gpus(2), adjustment=DeviceAdjustment(included={GPU: [5]})) == {"gpu": [4, 5]}
    assert t8().take(gpus(1, percent=50), adjustment=DeviceAdjustment(included={GPU: [5]})) == {"gpu": [5]}
    assert t8().take(gpus(3), adjustment=DeviceAdjustment(included={GPU: [1, 6]})) == {"gpu": [0, 1, 6]}
    bare = DeviceNodes().describe((GPU, [gpu(minor) for minor in range(4)]))
    assert bare.take(gpus(2), adjustment=DeviceAdjustment(included={GPU: [3]})) == {"gpu": [3, 0]}
    assert bare.allocate(gpus(1), adjustment=DeviceAdjustment(included={GPU: [1, 2]})) == "NOT_INCLUDED"


def test_a_designated_allocation_is_completed_and_keeps_to_its_virtual_functions() -> None:
    node = DeviceNodes().describe((GPU, T8), (RDMA, [nic(0, vfs=["a", "b", "c"])]))
    asked = request({GPU: TypeDemand({CORE: 50, RATIO: 50, MEMORY: 40 * GIB}), RDMA: nic_demand(vf_selector=every)}, shared=True)
    named = DeviceAdjustment(
        required={GPU: {3: {CORE: 50, RATIO: 50}}, RDMA: {0: {NIC: 100}}}, only_vfs={RDMA: {0: ["b", "c"]}}, complete_required=True
    )
    found = node.allocate(asked, adjustment=named)
    assert [(a.minor, a.vf) for a in found] == [(3, None), (0, ("b", 1))]  # type: ignore[union-attr]
    gone = DeviceAdjustment(required={GPU: {9: {RATIO: 50}}}, complete_required=True)
    assert node.allocate(gpus(percent=50), adjustment=gone) == "NO_HEALTHY_GPU"


def test_virtual_functions_that_are_given_back_are_free() -> None:
    """[FIX] of §8."""
    node = DeviceNodes().describe((RDMA, [nic(0, vfs=["a"])]))
    asked = request({RDMA: nic_demand(percent=1, vf_selector=every)})
    assert node.take(asked) == {"rdma": [0]}
    assert node.code(asked) == "INSUFFICIENT RDMA"
    assert node.allocate(asked, adjustment=DeviceAdjustment(freed_vfs={RDMA: {0: ["a"]}}))[0].vf == ("a", 0)  # type: ignore[union-attr]


# Scores


def test_nodes_are_scored_by_what_is_in_use_of_their_devices() -> None:
    """Checklist 7."""
    four = DeviceNodes().describe((GPU, [gpu(minor) for minor in range(4)]))
    assert [t8().score(gpus()), t8().use(0).score(gpus()), four.score(gpus())] == [93, 81, 87]
    assert [t8().score(gpus(), MOST), t8().use(0).score(gpus(), MOST), four.score(gpus(), MOST)] == [6, 18, 12]


def test_types_are_added_up() -> None:
    node = DeviceNodes().describe((GPU, T8), (RDMA, NICS), (FPGA, []))
    asked = request({GPU: gpu_demand(2), RDMA: nic_demand(2)})
    assert node.score(asked, LEAST) == 93 + 75
    assert DeviceNodes().score(asked, LEAST) == 0


def test_fpgas_are_like_nics() -> None:
    """Checklist 8, third part."""
    node = DeviceNodes().describe((FPGA, [fpga(minor) for minor in range(4)]))
    assert node.take(request({FPGA: TypeDemand({CARD: 100}, 3)})) == {"fpga": [0, 1, 2]}
    assert node.code(request({FPGA: TypeDemand({DeviceResource.FPGA: 100}, 2)})) == "INSUFFICIENT FPGA"
