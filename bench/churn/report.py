"""The table: a row for each minute."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.table import Table


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """What there was when all had come to rest. Counts of pods created and deleted and of faults are since the start."""

    minutes: float  # since the start
    created: int
    deleted: int
    bound: int
    pending: int
    nodes: int
    faults: int
    rest_seconds: float
    resident_mib: float
    cpu_seconds: float
    wrong: tuple[str, ...]


HEADINGS = ("minute", "created", "deleted", "bound", "pending", "nodes", "faults", "to rest, s", "RSS, MiB", "CPU, s", "wrong")


def table(minutes: Sequence[Minute]) -> Table:
    shown = Table(*HEADINGS)
    for each in minutes:
        counts = (each.created, each.deleted, each.bound, each.pending, each.nodes, each.faults)
        figures = (f"{each.rest_seconds:.0f}", f"{each.resident_mib:.1f}", f"{each.cpu_seconds:.1f}")
        shown.add_row(f"{each.minutes:.1f}", *map(str, counts), *figures, str(len(each.wrong)) if each.wrong else "-")
    return shown
