from __future__ import annotations

import pytest

from koordsched._core.change import NodeChange
from koordsched._core.table import NodeTable
from koordsched._core.tolerance import Effect, Operator, TaintSets, Tolerance

DEDICATED, GPU, TEAM = 1, 2, 3  # keys
A, B = 4, 5  # values
NO_SCHEDULE, PREFER = 6, 7  # effects


def table(*sets: int) -> NodeTable:
    """Make a table of one row per taint-set id; the column is attribute 0."""
    made = NodeTable()
    made.new_attribute()
    for taint_set in sets:
        row = made.acquire_row()
        made.set_attribute(0, row, taint_set, int(NodeChange.TAINTS))
        made.set_live(row, True)
    return made


def taint_sets() -> TaintSets:
    """Know dedicated=a:NoSchedule (0), gpu:NoSchedule (1), team=b:PreferNoSchedule (2), a cordon (3); sets {}, {0,1}, {1,0}, {2,2}, {3}."""
    made = TaintSets()
    made.add_taint(DEDICATED, A, NO_SCHEDULE, Effect.REFUSES)
    made.add_taint(GPU, 0, NO_SCHEDULE, Effect.REFUSES)
    made.add_taint(TEAM, B, PREFER, Effect.REPELS)
    made.add_taint(9, 0, NO_SCHEDULE, Effect.CORDONS)
    for members in ((), (0, 1), (1, 0), (2, 2), (3,)):
        made.add_set(members)
    return made


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    made = table(0, 1, 2, 3, 4)
    assert Tolerance(taint_sets(), []).refuse(made, 0, made.live_rows()).tolist() == [0, 1, 2, 0, 0]
    gpu = Tolerance(taint_sets(), [(GPU, Operator.EXISTS, 0, 0)])
    assert gpu.refuse(made, 0, made.live_rows()).tolist() == [0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("toleration", "code"),
    [
        ((DEDICATED, Operator.EQUAL, A, NO_SCHEDULE), 2),
        ((DEDICATED, Operator.EQUAL, B, NO_SCHEDULE), 1),
        ((DEDICATED, Operator.EQUAL, A, PREFER), 1),
        ((DEDICATED, Operator.EXISTS, 0, 0), 2),
        ((DEDICATED, Operator.NEVER, A, 0), 1),
        ((0, Operator.EXISTS, 0, 0), 0),
        ((0, Operator.EXISTS, 0, PREFER), 1),
        ((0, Operator.EQUAL, A, 0), 2),
        ((0, Operator.EQUAL, 0, 0), 1),
    ],
)
def test_key_operator_value_and_effect_all_have_to_match(toleration: tuple[int, Operator, int, int], code: int) -> None:
    made = table(1)
    assert Tolerance(taint_sets(), [toleration]).refuse(made, 0, made.live_rows()).tolist() == [code]


def test_a_cordon_is_asked_about_on_its_own() -> None:
    made = table(0, 1, 4)
    assert Tolerance(taint_sets(), []).refuse_cordoned(made, 0, made.live_rows()).tolist() == [0, 0, 1]
    everything = Tolerance(taint_sets(), [(0, Operator.EXISTS, 0, 0)])
    assert everything.refuse_cordoned(made, 0, made.live_rows()).tolist() == [0, 0, 0]


def test_taints_that_repel_are_counted() -> None:
    made = table(0, 1, 3)
    assert Tolerance(taint_sets(), []).count_repelling(made, 0, made.live_rows()).tolist() == [0, 0, 2]
    team = Tolerance(taint_sets(), [(TEAM, Operator.EQUAL, B, PREFER)])
    assert team.count_repelling(made, 0, made.live_rows()).tolist() == [0, 0, 0]


def test_sets_that_were_added_later_are_decided_when_asked_about() -> None:
    known, made = taint_sets(), table(1)
    tolerance = Tolerance(known, [])
    assert tolerance.refuse(made, 0, made.live_rows()).tolist() == [1]
    for number in range(200):
        known.add_taint(100 + number, 0, NO_SCHEDULE, Effect.REFUSES)
        known.add_set((4 + number,))
    made.set_attribute(0, 0, 5 + 150, int(NodeChange.TAINTS))
    assert tolerance.refuse(made, 0, made.live_rows()).tolist() == [1 + 4 + 150]


def test_an_unknown_effect_does_nothing() -> None:
    known, made = TaintSets(), table(0)
    known.add_taint(1, 0, 99, Effect.NOTHING)
    known.add_set((0,))
    tolerance = Tolerance(known, [])
    assert tolerance.refuse(made, 0, made.live_rows()).tolist() == [0]
    assert tolerance.count_repelling(made, 0, made.live_rows()).tolist() == [0]


def test_a_set_or_taint_that_was_not_added_is_refused() -> None:
    known, made = TaintSets(), table(3)
    with pytest.raises(IndexError, match="taint set 3 of 0"):
        Tolerance(known, []).refuse(made, 0, made.live_rows())
    with pytest.raises(IndexError, match="taint set 3 of 0"):
        Tolerance(known, []).count_repelling(made, 0, made.live_rows())
    with pytest.raises(IndexError, match="taint 0 of 0"):
        known.add_set((0,))
    with pytest.raises(IndexError, match="attribute 1 of 1"):
        Tolerance(known, []).refuse(made, 1, made.live_rows())
