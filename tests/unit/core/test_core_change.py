"""Kinds of change: those of the node table, and those that plugins register."""

from __future__ import annotations

import pytest

from koordsched._core.change import KINDS, ChangeKinds, NodeChange
from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched._core.table import NodeTable


def test_a_name_has_one_kind_which_no_other_name_and_no_kind_of_the_table_has() -> None:
    kinds = ChangeKinds()
    loads, devices = kinds.register("Loads"), kinds.register("Devices")
    assert (kinds.register("Loads"), kinds.register("Devices")) == (loads, devices)
    assert loads != devices
    assert not any(kind & (loads | devices) for kind in NodeChange)


def test_whoever_reads_everything_reads_kinds_that_are_registered_later() -> None:
    assert ChangeKinds().register("Loads") & NodeChange.ALL


def test_there_are_32_kinds_and_the_next_one_is_refused_by_name() -> None:
    kinds = ChangeKinds()
    of_plugins = [kinds.register(f"P{i}") for i in range(KINDS - len(NodeChange))]
    assert int(of_plugins[-1]) == 1 << 31
    with pytest.raises(ValueError, match=r"change kind 'OneMore': all 32 kinds are taken: USAGE, CAPACITY, .*, P23$"):
        kinds.register("OneMore")
    assert kinds.register("P23") == of_plugins[-1]


def test_a_kind_of_the_table_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="change kind 'USAGE': the node table logs this kind itself"):
        ChangeKinds().register("USAGE")


def test_a_registered_kind_asks_only_those_again_that_read_it_up_to_the_last_bit() -> None:
    table = NodeTable()
    for _ in range(2):
        table.set_live(table.acquire_row(), live=True)
    kinds = ChangeKinds()
    first, *_, last = [kinds.register(f"P{i}") for i in range(KINDS - len(NodeChange))]
    evaluation = Evaluation(table, Scratch())
    evaluation.configure([int(first), int(last | NodeChange.USAGE), int(NodeChange.ALL)], [], [], [])

    def asked() -> list[int]:
        found = []
        f = evaluation.first_filter()
        while f >= 0:
            found.append(f)
            f = evaluation.store_codes(None)
        return found

    assert asked() == [0, 1, 2]
    for change, readers in ((first, [0, 2]), (last, [1, 2]), (NodeChange.USAGE, [1, 2]), (NodeChange.TAINTS, [2])):
        table.mark(1, int(change))
        assert asked() == readers
    table.mark(0, int(first))
    table.mark(0, int(last))
    found = table.changes_since(table.log_end - 2)
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == ([0], [int(first | last)])
