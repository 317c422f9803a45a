"""The node table: rows come and go, columns grow, and every change is logged once for whoever asks."""

from __future__ import annotations

import numpy as np
import pytest
from support.counted import live_table

from koordsched._core.change import NodeChange
from koordsched._core.table import NodeTable, Request

USAGE, CAPACITY, TAINTS, EXISTENCE = (
    int(change) for change in (NodeChange.USAGE, NodeChange.CAPACITY, NodeChange.TAINTS, NodeChange.EXISTENCE)
)
LOG_SIZE = 1 << 16

PODS, CPU, MEMORY = range(3)


def request(**amounts: int) -> Request:
    """Make a request of one pod with cpu and memory, which are its nonzero amounts as well."""
    cpu, memory = amounts.get("cpu", 0), amounts.get("memory", 0)
    found = {PODS: 1, CPU: cpu, MEMORY: memory}
    ids = [i for i, amount in found.items() if amount]
    return Request(ids, [found[i] for i in ids], cpu, memory)


def changes(table: NodeTable, position: int) -> dict[int, int]:
    found = table.changes_since(position)
    assert found is not None
    rows, kinds = found
    return dict(zip(rows.tolist(), kinds.tolist(), strict=True))


# Rows


def test_capacity_is_at_least_one_block() -> None:
    assert [NodeTable(asked).capacity for asked in (0, 1, 64, 192)] == [64, 64, 64, 192]


def test_growing_at_least_doubles_the_capacity_and_keeps_every_fact() -> None:
    table = live_table(64)
    label, bit = table.new_attribute(), table.new_bit()
    table.set_allocatable(63, {CPU: 4000})
    table.add(63, request(cpu=500))
    table.set_attribute(label, 63, 7, TAINTS)
    table.set_bit(bit, 63)
    row = table.acquire_row()
    assert (row, table.capacity) == (64, 192)
    assert (table.allocatable_of(63, CPU), table.requested_of(63, CPU), table.attribute_of(label, 63)) == (4000, 500, 7)
    assert table.has_bit(bit, 63)
    assert not table.has_bit(bit, 64)
    assert table.live_rows().tolist() == list(range(64))


def test_a_released_row_comes_back_without_its_old_facts() -> None:
    table = live_table(2)
    label, bit = table.new_attribute(), table.new_bit()
    table.set_allocatable(1, {PODS: 110, CPU: 4000})
    table.add(1, request(cpu=500, memory=7))
    table.set_attribute(label, 1, 7, TAINTS)
    table.set_bit(bit, 1)
    table.set_live(1, False)
    table.release_row(1)
    assert table.acquire_row() == 1
    assert not table.is_live(1)
    assert [table.allocatable_of(1, i) for i in range(3)] == [table.requested_of(1, i) for i in range(3)] == [0, 0, 0]
    assert table.columns()["nonzero"][:, 1].tolist() == [0, 0]
    assert table.attribute_of(label, 1) == 0
    assert not table.has_bit(bit, 1)
    assert table.count_bits(bit) == 0


def test_a_live_row_cannot_be_released() -> None:
    with pytest.raises(ValueError, match="row 0 is live"):
        live_table(1).release_row(0)


def test_live_rows_follow_and_existence_counts_every_coming_and_going() -> None:
    table = live_table(3)
    assert (table.live_count, table.existence) == (3, 3)
    table.set_live(1, True)  # it is already
    table.set_live(1, False)
    assert (table.live_count, table.existence, table.live_rows().tolist()) == (2, 4, [0, 2])
    assert not table.live_rows().flags.writeable


# Amounts


def test_what_is_added_is_subtracted_again() -> None:
    table = live_table(1)
    table.add(0, request(cpu=250, memory=10))
    table.add(0, request(cpu=500))
    assert [table.requested_of(0, i) for i in range(3)] == [2, 750, 10]
    table.subtract(0, request(cpu=250, memory=10))
    assert [table.requested_of(0, i) for i in range(3)] == [1, 500, 0]
    assert table.columns()["nonzero"][:, 0].tolist() == [500, 0]


def test_resource_columns_appear_as_they_are_needed() -> None:
    table = live_table(1)
    assert (table.resources, table.requested_of(0, 20)) == (4, 0)
    table.ensure_resources(21)
    table.set_allocatable(0, {20: 8})
    table.add(0, Request([PODS, 20], [1, 3], 0, 0))
    assert (table.allocatable_of(0, 20), table.requested_of(0, 20), table.requested_of(0, 19)) == (8, 3, 0)
    table.ensure_resources(5)  # never fewer
    assert table.resources == 21


def test_amounts_that_are_not_named_are_set_to_zero() -> None:
    table = live_table(1)
    assert table.set_allocatable(0, {CPU: 4000, MEMORY: 8})
    assert table.set_allocatable(0, {CPU: 4000})
    assert (table.allocatable_of(0, CPU), table.allocatable_of(0, MEMORY)) == (4000, 0)


def test_a_request_knows_its_amounts() -> None:
    made = Request([PODS, CPU], [1, 250], 250, 200)
    assert (made.amounts_by_id, made.nonzero_cpu, made.nonzero_memory) == ({PODS: 1, CPU: 250}, 250, 200)


@pytest.mark.parametrize(("ids", "amounts"), [([], []), ([0, 1], [1])], ids=["empty", "lengths"])
def test_a_request_that_is_none_is_refused(ids: list[int], amounts: list[int]) -> None:
    with pytest.raises(ValueError, match="as many ids as amounts"):
        Request(ids, amounts, 0, 0)


# Attributes


def test_an_attribute_is_absent_until_it_is_set() -> None:
    table = live_table(3)
    label = table.new_attribute()
    assert table.set_attribute(label, 1, 5, TAINTS)
    assert table.attributes_of(label, np.array([2, 1, 0, 1], np.int32)).tolist() == [0, 5, 0, 5]


def test_more_attributes_than_there_was_room_for_keep_the_first_ones() -> None:
    table = live_table(1)
    ids = [table.new_attribute() for _ in range(40)]
    for value, attribute in enumerate(ids):
        table.set_attribute(attribute, 0, value + 1, TAINTS)
    assert [table.attribute_of(attribute, 0) for attribute in ids] == list(range(1, 41))
    assert table.attributes == 40


# Bits


def test_bits_are_counted_once_a_row() -> None:
    table = live_table(70)
    bit = table.new_bit()
    for row in (0, 65, 65):
        table.set_bit(bit, row)
    assert table.count_bits(bit) == 2
    table.clear_bit(bit, 65)
    table.clear_bit(bit, 65)
    assert [table.has_bit(bit, row) for row in (0, 1, 65)] == [True, False, False]
    assert table.count_bits(bit) == 1


def test_a_freed_bit_column_is_used_again_before_a_new_one_is_made() -> None:
    table = live_table(1)
    first, second = table.new_bit(), table.new_bit()
    table.free_bit(first)
    assert table.new_bit() == first
    assert table.new_bit() == second + 1


def test_a_bit_column_in_use_cannot_be_freed() -> None:
    table = live_table(1)
    bit = table.new_bit()
    table.set_bit(bit, 0)
    with pytest.raises(ValueError, match="still has 1 rows"):
        table.free_bit(bit)


def test_more_bit_columns_than_there_was_room_for_keep_the_first_ones() -> None:
    table = live_table(2)
    bits = [table.new_bit() for _ in range(40)]
    for bit in bits[::2]:
        table.set_bit(bit, 1)
    assert [table.count_bits(bit) for bit in bits] == [1, 0] * 20


# The change log


def test_a_row_that_changed_often_is_reported_once_with_all_its_changes() -> None:
    table = live_table(3)
    position = table.log_end
    table.add(2, request(cpu=1))
    table.set_allocatable(0, {CPU: 1})
    table.add(2, request(cpu=1))
    table.mark(2, TAINTS)
    assert changes(table, position) == {2: USAGE | TAINTS, 0: CAPACITY}
    assert changes(table, table.log_end) == {}


def test_what_stays_the_same_is_not_logged() -> None:
    table = live_table(1)
    label = table.new_attribute()
    table.set_attribute(label, 0, 3, TAINTS)
    table.set_allocatable(0, {CPU: 1})
    position = table.log_end
    assert not table.set_attribute(label, 0, 3, TAINTS)
    assert not table.set_allocatable(0, {CPU: 1})
    table.set_live(0, True)
    table.add_quietly(0, request(cpu=9))
    table.subtract_quietly(0, request(cpu=9))
    assert changes(table, position) == {}
    assert table.requested_of(0, CPU) == 0


def test_coming_and_going_are_changes_of_existence() -> None:
    table = live_table(2)
    assert changes(table, 0) == {0: EXISTENCE, 1: EXISTENCE}


def test_the_log_reaches_back_as_far_as_it_has_room() -> None:
    table = live_table(2)
    position = table.log_end
    for _ in range(LOG_SIZE - 1):
        table.mark(0, USAGE)
    table.mark(1, TAINTS)
    assert changes(table, position) == {0: USAGE, 1: TAINTS}
    table.mark(0, USAGE)
    assert table.changes_since(position) is None
    assert changes(table, position + 1) == {0: USAGE, 1: TAINTS}


# Mistakes


@pytest.mark.parametrize("row", [-1, 2, 1000])
def test_a_row_that_is_not_there_is_an_index_error(row: int) -> None:
    table = live_table(2)
    table.new_attribute()
    table.new_bit()
    for use in (
        table.is_live,
        table.release_row,
        lambda row: table.set_live(row, True),
        lambda row: table.add(row, request()),
        lambda row: table.subtract_quietly(row, request()),
        lambda row: table.set_allocatable(row, {}),
        lambda row: table.allocatable_of(row, CPU),
        lambda row: table.set_attribute(0, row, 1, TAINTS),
        lambda row: table.set_bit(0, row),
        lambda row: table.mark(row, TAINTS),
    ):
        with pytest.raises(IndexError, match=f"row {row} of 2"):
            use(row)


@pytest.mark.parametrize("attribute", [-1, 1])
def test_an_attribute_that_is_not_there_is_an_index_error(attribute: int) -> None:
    table = live_table(1)
    table.new_attribute()
    with pytest.raises(IndexError, match=f"attribute {attribute} of 1"):
        table.set_attribute(attribute, 0, 1, TAINTS)
    with pytest.raises(IndexError, match=f"attribute {attribute} of 1"):
        table.attribute_of(attribute, 0)
    with pytest.raises(IndexError, match=f"attribute {attribute} of 1"):
        table.attributes_of(attribute, np.array([0], np.int32))


def test_the_bytes_of_all_columns_grow_with_the_rows() -> None:
    small, large = NodeTable(64), NodeTable(6400)
    assert large.nbytes() - small.nbytes() > 6000 * 8 * 18
