"""Small node tables and caches, and counts of their rows, to test kernels with and what counts pods."""

from __future__ import annotations

import numpy as np

from koordsched._core.change import NodeChange
from koordsched._core.counts import RowCounts
from koordsched._core.table import NodeTable
from koordsched.cache.cache import Cache
from support.builders import node

LABELS = int(NodeChange.LABELS)


def table_of(*zones: int) -> tuple[NodeTable, int]:
    """Return a table whose rows have these values of one attribute."""
    table = NodeTable()
    attribute = table.new_attribute()
    for zone in zones:
        table.set_attribute(attribute, table.acquire_row(), zone, LABELS)
    return table, attribute


def live_table(rows: int) -> NodeTable:
    """Return a table of so many live rows with nothing in them."""
    table = NodeTable()
    for _ in range(rows):
        table.set_live(table.acquire_row(), True)
    return table


def cache_of(*names: str) -> Cache:
    """Return a cache with these nodes, which have nothing but their name."""
    cache = Cache()
    for name in names:
        cache.set_node(node(name).build())
    return cache


def counts_of(table: NodeTable, *amounts: int) -> RowCounts:
    counts = RowCounts(table)
    for row, amount in enumerate(amounts):
        counts.add(row, amount)
    return counts


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def flags(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint8)
