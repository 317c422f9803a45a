"""Each kernel of affinity equals its plain-Python twin, on any column and any counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordsched._core.affinity import add_own, any_with, is_unique, occupied, refuse_own, refuse_unless, refuse_where
from koordsched._core.counts import RowCounts
from koordsched._core.table import NodeTable

rows_of_facts = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=90)
CODE = 7


@given(rows_of_facts, st.data())
def test_kernels_equal_their_twins(facts: list[tuple[int, int, int]], data: st.DataObject) -> None:
    table = NodeTable()
    key = table.new_attribute()
    one, other = RowCounts(table), RowCounts(table)
    for value, first, second in facts:
        row = table.acquire_row()
        table.set_attribute(key, row, value, 0)
        one.add(row, first)
        other.add(row, second)
    asked = data.draw(st.lists(st.integers(0, len(facts) - 1), max_size=20))
    rows = np.array(asked, np.int32)
    before = data.draw(st.lists(st.sampled_from([0, 0, 3]), min_size=len(asked), max_size=len(asked)))

    holding = {value for value, first, second in facts if value and first + second}
    flags = occupied(table, key, [one, other])
    assert {value for value, flag in enumerate(flags) if flag} == holding
    assert any_with(one, key) == any(value and first for value, first, _ in facts)
    values = [value for value, _, _ in facts if value]
    assert is_unique(table, key) == (len(values) == len(set(values)))

    def refused(verdicts: list[bool]) -> list[int]:
        return [code or CODE * verdict for code, verdict in zip(before, verdicts, strict=True)]

    codes = [np.array(before, np.int32) for _ in range(5)]
    refuse_where(table, key, flags, rows, codes[0], CODE)
    refuse_unless(table, key, flags, rows, codes[1], CODE)
    refuse_unless(table, key, None, rows, codes[2], CODE)
    refuse_own(one, key, rows, codes[3], CODE, holding=True)
    refuse_own(one, key, rows, codes[4], CODE, holding=False)
    assert codes[0].tolist() == refused([facts[row][0] in holding for row in asked])
    assert codes[1].tolist() == refused([facts[row][0] not in holding for row in asked])
    assert codes[2].tolist() == refused([facts[row][0] == 0 for row in asked])
    assert codes[3].tolist() == refused([facts[row][0] > 0 and facts[row][1] > 0 for row in asked])
    assert codes[4].tolist() == refused([facts[row][0] == 0 or facts[row][1] == 0 for row in asked])

    scores = np.array(before, np.int64)
    add_own(one, key, rows, scores, -4)
    assert scores.tolist() == [begun - 4 * facts[row][1] * (facts[row][0] > 0) for begun, row in zip(before, asked, strict=True)]
