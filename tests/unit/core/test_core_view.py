"""Rows without some of their pods: what is hidden, restored, out of date, and what happens when a part fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.counted import live_table

from koordsched._core.change import NodeChange
from koordsched._core.table import NodeTable, Request
from koordsched._core.view import RowView, TableView

POD = Request([0, 1, 2], [1, 500, 64], 500, 64)
LARGE = Request([0, 1], [1, 2000], 2000, 200)


class Shown:
    """Stands for a node, and for a part that writes down what it is asked for."""

    counts_alone = False

    def __init__(self, log: list[str] | None = None, name: str = "", *, fails: bool = False) -> None:
        self.hidden: frozenset[str] | None = None
        self.log = [] if log is None else log
        self.name = name
        self.fails = fails

    def hide(self) -> None:
        if self.fails:
            raise LookupError(self.name)
        self.log.append(f"hide {self.name}")

    def restore(self) -> None:
        self.log.append(f"restore {self.name}")


def table_of_two() -> tuple[NodeTable, int]:
    """Return two rows with a pod of each kind, and a bit column that both have."""
    table = live_table(2)
    bit = table.new_bit()
    for row in range(2):
        table.add(row, POD)
        table.add(row, LARGE)
        table.set_bit(bit, row)
    return table, bit


def facts(table: NodeTable) -> dict[str, Any]:
    return {name: column.tolist() for name, column in table.columns().items()} | {"log": table.log_end}


def test_what_is_hidden_is_restored_and_nothing_is_logged() -> None:
    table, bit = table_of_two()
    node, before = Shown(), facts(table)
    view = TableView([RowView(table, 1, node, frozenset({"a"}), [POD], [bit], [])])
    view.hide()
    assert (table.requested_of(1, 0), table.requested_of(1, 1), table.requested_of(1, 2)) == (1, 2000, 0)
    assert (table.nonzero_of(1), table.requested_of(0, 1)) == ((2000, 200), 2500)
    assert (table.has_bit(bit, 1), table.has_bit(bit, 0), table.count_bits(bit)) == (False, True, 2)
    assert (node.hidden, table.log_end) == (frozenset({"a"}), before["log"])
    view.restore()
    assert facts(table) == before
    assert node.hidden is None
    assert view.outdated() == [], "hiding changes no row"


@pytest.mark.parametrize("how", ["logged", "touched", "added"])
def test_a_row_that_changed_since_is_seen_and_can_be_replaced(how: str) -> None:
    table, _ = table_of_two()
    nodes = [Shown(), Shown()]
    rows = [RowView(table, row, nodes[row], frozenset({"a"}), [POD], [], []) for row in range(2)]
    view = TableView(rows)
    match how:
        case "logged":
            table.mark(1, int(NodeChange.OBJECT))
        case "touched":
            table.touch(1)
        case "added":
            table.add(1, POD)
    before = facts(table)
    assert (view.is_current(), view.outdated()) == (False, [1])
    view.replace(1, RowView(table, 1, nodes[1], frozenset({"b"}), [POD, LARGE], [], []))
    assert view.is_current()
    view.hide()
    assert [row.uids for row in view.rows] == [{"a"}, {"b"}]
    assert [table.requested_of(row, 1) for row in range(2)] == [2000, before["requested"][1][1] - 2500]
    view.restore()
    assert facts(table) == before


def test_rows_are_hidden_as_they_are_asked_for_each_once() -> None:
    table, _ = table_of_two()
    nodes, before = [Shown(), Shown()], facts(table)
    view = TableView([RowView(table, row, nodes[row], frozenset({"a"}), [POD], [], []) for row in range(2)])
    for asked in ([1, 5], [1], []):
        view.hide(np.array(asked, np.int32))
        assert [node.hidden for node in nodes] == [None, frozenset({"a"})]
        assert table.requested_of(0, 1) == before["requested"][1][0]
    hidden = facts(table)
    view.hide()
    assert [node.hidden for node in nodes] == [frozenset({"a"}), frozenset({"a"})]
    assert facts(table)["requested"][1][1] == hidden["requested"][1][1], "a row is not hidden twice"
    view.restore()
    assert facts(table) == before
    assert [node.hidden for node in nodes] == [None, None]


def test_what_is_quiet_does_not_make_a_view_outdated() -> None:
    table, _ = table_of_two()
    view = TableView([RowView(table, 0, Shown(), frozenset({"a"}), [POD], [], [])])
    table.subtract_quietly(0, LARGE)
    table.add_quietly(0, LARGE)
    assert view.outdated() == []


def test_parts_are_hidden_in_order_and_restored_in_reverse_and_a_failure_leaves_nothing_hidden() -> None:
    table, _ = table_of_two()
    log: list[str] = []
    parts = [Shown(log, name) for name in "ab"]
    nodes = [Shown(), Shown()]
    view = TableView([RowView(table, 0, nodes[0], frozenset({"x"}), [POD], [], parts)])
    view.hide()
    view.restore()
    assert log == ["hide a", "hide b", "restore b", "restore a"]
    log.clear()
    before = facts(table)
    failing = [Shown(log, "c"), Shown(log, "d", fails=True)]
    rows = [
        RowView(table, 0, nodes[0], frozenset({"x"}), [POD], [], parts),
        RowView(table, 1, nodes[1], frozenset({"y"}), [POD], [], failing),
    ]
    with pytest.raises(LookupError, match="d"):
        TableView(rows).hide()
    assert log == ["hide a", "hide b", "hide c", "restore c", "restore b", "restore a"]
    assert (facts(table), nodes[0].hidden, nodes[1].hidden) == (before, None, None)


def test_rows_and_columns_that_are_not_there_are_refused() -> None:
    table, bit = table_of_two()
    with pytest.raises(IndexError):
        RowView(table, 2, Shown(), frozenset(), [], [], [])
    with pytest.raises(IndexError):
        RowView(table, 0, Shown(), frozenset(), [], [bit + 1], [])
    with pytest.raises(TypeError):
        RowView(table, 0, Shown(), frozenset(), ["request"], [], [])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        TableView(["row"])  # type: ignore[list-item]


def test_a_table_that_grows_keeps_what_is_known_of_rows() -> None:
    table, _ = table_of_two()
    view = TableView([RowView(table, 0, Shown(), frozenset({"a"}), [POD], [], [])])
    for _ in range(table.capacity):
        table.acquire_row()
    assert view.outdated() == []
    view.hide()
    view.restore()
