"""Scores by how much of what a row offers and a pod does not request is scarce (frameworkext.md §6, §10 line 19)."""

from __future__ import annotations

import pytest

from koordsched._core.scarcity import UnrequestedResources, avoid_scarce
from koordsched._core.table import NodeTable

CPU, MEMORY, GPU, A, B = 1, 2, 4, 5, 6


def score(offered: list[int], unrequested: dict[int, bool]) -> int:
    table = NodeTable()
    table.ensure_resources(7)
    row = table.acquire_row()
    table.set_allocatable(row, dict.fromkeys(offered, 1))
    table.set_live(row, True)
    return int(avoid_scarce(table, UnrequestedResources(list(unrequested), list(unrequested.values())), table.live_rows())[0])


def test_the_share_that_is_not_scarce_is_the_score() -> None:
    assert score([CPU, MEMORY, GPU], {GPU: True, A: False, B: False}) == 0  # the GPU alone
    assert score([CPU, MEMORY, GPU, A, B], {GPU: True, A: False, B: False}) == 66  # 2 of 3
    assert score([CPU, MEMORY, GPU, A, B], {GPU: True, A: True, B: False}) == 33


def test_a_row_that_offers_nothing_scarce_is_best() -> None:
    assert score([CPU, A], {GPU: True, A: False}) == 100
    assert score([], {GPU: True, A: False}) == 100
    assert score([A, B], {A: False, B: False}) == 100
    assert score([GPU], {}) == 100


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="expected as many"):
        UnrequestedResources([1, 2], [True])
    with pytest.raises(IndexError, match="resource 7 of 7"):
        score([], {7: True})
