"""The dry run of preemption asks its other filters, here that of devices, only about rows whose answer is needed."""

from __future__ import annotations

import numpy as np
import pytest
from support.device_tables import GPU, DeviceNodes, gpu, gpus, held

from koordsched._core.device_facts import HeldDevice
from koordsched._core.device_removals import DeviceHoldings, DeviceRemovals
from koordsched._core.dry_run import DryRun
from koordsched._core.pod_index import PodIndex
from koordsched._core.table import Request

HALF, WHOLE = Request([0, 1], [1, 1], 0, 0), Request([0, 1], [1, 2], 0, 0)
"""Resource 1 counts halves of cards."""
FITS, UNASKED = 0, -6
ORDER = np.arange(64, dtype=np.int32)


class Cards:
    """Rows of two cards that are full of pods of half a card each; a more important pod wants a whole one."""

    def __init__(self) -> None:
        self.devices = DeviceNodes()
        self.pods = PodIndex(self.devices.nodes)
        self.held: dict[str, HeldDevice] = {}
        self.rows: list[int] = []

    def add(self, *pods: tuple[int, float]) -> int:
        """Add a row with these pods: the card of each, and when it started."""
        nodes, row = self.devices.nodes, self.devices.add()
        nodes.set_allocatable(row, {0: 10, 1: 4})
        nodes.set_live(row, True)
        self.devices.describe((GPU, [gpu(0), gpu(1)]), row=row)
        for i, (card, started) in enumerate(pods):
            name = f"{row}-{i}"
            self.held[name] = held(card, percent=50)
            self.devices.use(card, percent=50, row=row)
            nodes.add(row, HALF)
            self.pods.add(row, name, 0, HALF, started=started)
        self.rows.append(row)
        return row

    def dry_run(self) -> DryRun:
        holdings = DeviceHoldings(self.devices.table, self.pods, lambda _row, pods: [(self.held[pod],) for pod in pods])
        found = DryRun(self.pods, PodIndex(self.devices.nodes), 9, WHOLE, others=(DeviceRemovals(holdings, gpus()),))
        found.refresh()
        return found

    @property
    def all(self) -> np.ndarray:
        return np.array(self.rows, np.int32)


def test_rows_that_cannot_be_the_best_are_left_unasked() -> None:
    cards = Cards()
    for age in (10, 30, 20):
        cards.add((0, 0.0), (0, 1.0), (1, age), (1, age + 1))
    dry_run = cards.dry_run()
    assert dry_run.codes_so_far(cards.all).tolist() == [UNASKED] * 3
    assert dry_run.best(cards.all, ORDER) == cards.rows[1]
    assert dry_run.codes_so_far(cards.all).tolist() == [UNASKED, FITS, UNASKED]
    assert dry_run.codes(cards.all).tolist() == [FITS] * 3
    assert dry_run.best(cards.all, ORDER) == cards.rows[1]


@pytest.mark.parametrize("promising", [1, 20])
def test_rows_whose_amounts_promise_more_than_their_devices_keep_lose(promising: int) -> None:
    cards = Cards()
    for _ in range(promising):
        cards.add((0, 0.0), (1, 0.0), (0, 90.0), (1, 91.0))  # a whole card takes an old pod with it
    best = cards.add((0, 0.0), (0, 0.0), (1, 50.0), (1, 51.0))
    dry_run = cards.dry_run()
    assert dry_run.best(cards.all, ORDER) == best
    assert dry_run.victims(best) == ([f"{best}-2", f"{best}-3"], 0)
    dry_run.codes(cards.all)
    assert dry_run.best(cards.all, ORDER) == best


def test_of_rows_that_are_alike_the_first_in_order_is_found() -> None:
    cards = Cards()
    for _ in range(3):
        cards.add((0, 0.0), (0, 0.0), (1, 5.0), (1, 5.0))
    order = ORDER[::-1].copy()
    assert cards.dry_run().best(cards.all, ORDER) == cards.rows[0]
    assert cards.dry_run().best(cards.all, order) == cards.rows[2]


def test_no_row_is_found_where_no_card_can_be_made_whole() -> None:
    cards = Cards()
    for _ in range(12):
        row = cards.add((0, 0.0), (0, 1.0), (1, 2.0), (1, 3.0))
        cards.devices.use(0, 1, percent=10, row=row)
    dry_run = cards.dry_run()
    assert dry_run.best(cards.all, ORDER) == -1
    assert UNASKED not in dry_run.codes_so_far(cards.all)
