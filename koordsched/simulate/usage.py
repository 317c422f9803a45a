"""What the cluster was used for over virtual time, worked out at the end from what happened to each pod.

Pods' changes are replayed and the sums looked at after some of them: at most `MOST_SAMPLES`, however long the run was. Where pods come and
go at times of their own these are spread evenly over time; where all come at once, over the changes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import field

from koordsched.simulate.fragmentation import AMOUNTS, MEASURED, Mix, wasted_on_nodes
from koordsched.simulate.pod_history import PodChange, PodStep
from koordsched.simulate.result import SHARE_DIGITS, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import Pod
    from koordsched.framework.tooling import SharedUnits, UnitsOnNodes

MOST_SAMPLES = 256
WHOLE = 100
BANDS = 10
"""Bands of 10 % into which nodes and units are counted by what is allocated of them, and one more for what is full."""


class UnitSeries(Output):
    """Units of nodes, such as GPUs, over time: wholly free, allocated in part, wholly allocated; the share of all that is free, but not
    expected to be of use; and the allocated share."""

    idle: list[int] = field(default_factory=list)
    partly: list[int] = field(default_factory=list)
    full: list[int] = field(default_factory=list)
    allocation: list[float] = field(default_factory=list)
    unusable: list[float] = field(default_factory=list)


class UsageSeries(Output):
    """Columns over samples. seconds: virtual ones since the start. changes: pods bound or deleted so far. pending, running: pods there.
    allocation, unusable: by resource, as in the summary. units: by the plugin's key."""

    seconds: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    allocation: dict[str, list[float]] = field(default_factory=dict)
    unusable: dict[str, list[float]] = field(default_factory=dict)
    units: dict[str, UnitSeries] = field(default_factory=dict)

    @property
    def fullest(self) -> int:
        """Return the sample at which most is allocated: of units where there are some, else of CPU; the last one of several."""
        found = next(iter(self.units.values())).allocation if self.units else self.allocation.get("cpu", [])
        return max(range(len(found)), key=lambda sample: (found[sample], sample), default=0)


class AllocatedShares(msgspec.Struct, frozen=True):
    """What is allocated of a node at one moment, as shares by resource, and of its units in percent, by key."""

    name: str
    shares: dict[str, float]
    units: dict[str, tuple[int, ...]]


class UsageRecord(msgspec.Struct):
    """The series, and what pages show beyond it. bands: by resource or key of units, for each sample how many nodes or units are allocated
    by 0 to 10 %, 10 to 20 %, ..., and wholly. fullest: all nodes at the sample `series.fullest`. is_timed: pods come or go at times of
    their own."""

    series: UsageSeries
    bands: dict[str, list[list[int]]] = {}
    fullest: list[AllocatedShares] = []
    is_timed: bool = False


class RunFacts(msgspec.Struct, frozen=True):
    """What a run leaves behind. allocatable: of each node (milli-cores, bytes, pods), by name. offered: what all nodes can give. requests:
    what a pod on a node requests. units: by the plugin's key, with the units that nodes have."""

    changes: Sequence[PodChange]
    begun: float
    is_timed: bool
    allocatable: Mapping[str, tuple[int, ...]]
    offered: Mapping[str, int]
    requests: Callable[[Pod], Mapping[str, int]]
    mix: Mix
    units: Mapping[str, tuple[SharedUnits, UnitsOnNodes]]


def usage_of(facts: RunFacts) -> UsageRecord:
    """Replay a run and return what the cluster was used for. O(changes + samples x nodes)."""
    replay, record = _Replay(facts), UsageRecord(UsageSeries(), is_timed=facts.is_timed)
    points = sample_points(facts.changes, facts.begun, timed=facts.is_timed)
    for seconds, count in points:
        replay.advance(count)
        replay.sample(record, seconds)
        if record.series.fullest == len(record.series.seconds) - 1:
            replay.keep()
    record.fullest = replay.kept()
    return record


def sample_points(changes: Sequence[PodChange], begun: float, *, timed: bool) -> list[tuple[float, int]]:
    """Return when to look: the seconds since the start, and how many changes have happened by then. At most MOST_SAMPLES + 1."""
    times = [max(change.at - begun, 0.0) for change in changes]
    if not times:
        return []
    if timed:
        moments = sorted(set(times))
        if len(moments) > MOST_SAMPLES:
            moments = [times[-1] * place / (MOST_SAMPLES - 1) for place in range(MOST_SAMPLES)]
        return [(moment, bisect_right(times, moment)) for moment in moments]
    steps = [place for place, change in enumerate(changes) if change.step is not PodStep.CREATED]
    first = steps[0] if steps else len(changes)
    chosen = (
        steps if len(steps) <= MOST_SAMPLES else [steps[(len(steps) - 1) * place // (MOST_SAMPLES - 1)] for place in range(MOST_SAMPLES)]
    )
    ends = sorted({first, *(place + 1 for place in chosen), len(changes)})
    return [(times[end - 1] if end else 0.0, end) for end in ends]


class _Replay:
    """The sums after so many changes. What of a node is not expected to be of use is worked out anew for nodes that changed only."""

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self._rows = {name: row for row, name in enumerate(facts.allocatable)}
        self._allocatable = np.array(list(facts.allocatable.values()), np.int64).reshape(-1, len(AMOUNTS))
        self._requested = np.zeros_like(self._allocatable)
        self._kept = self._requested
        self._wasted = np.zeros((len(self._rows), len(MEASURED)))
        self._stale = set(range(len(self._rows)))
        self._sums: dict[str, int] = {}
        self._there: set[str] = set()
        self._on_nodes: dict[str, tuple[int, Mapping[str, int], list[Mapping[int, int]]]] = {}
        self._units = {key: _UnitReplay(tool, found, self._rows) for key, (tool, found) in facts.units.items()}
        self._done = self._steps = 0

    def advance(self, count: int) -> None:
        """Go on until so many changes have happened."""
        for change in self._facts.changes[self._done : count]:
            key = f"{change.pod.metadata.namespace}/{change.pod.metadata.name}"
            if change.step is PodStep.CREATED:
                self._there.add(key)
                continue
            self._steps += 1
            if change.step is PodStep.BOUND:
                row, requests = self._rows.get(change.pod.spec.node_name, -1), self._facts.requests(change.pod)
                held = self._on_nodes[key] = row, requests, [units.tool.held(change.pod) for units in self._units.values()]
                self._add(*held, 1)
            else:
                self._there.discard(key)
                given_back = self._on_nodes.pop(key, None)
                if given_back is not None:
                    self._add(*given_back, -1)
        self._done = max(self._done, count)

    def _add(self, row: int, requests: Mapping[str, int], held: list[Mapping[int, int]], sign: int) -> None:
        for name, amount in (*requests.items(), ("pods", 1)):
            self._sums[name] = self._sums.get(name, 0) + sign * amount
        if row < 0:  # of no node of the input
            return
        self._requested[row] += np.array((requests.get("cpu", 0), requests.get("memory", 0), 1), np.int64) * sign
        self._stale.add(row)
        for units, percents in zip(self._units.values(), held, strict=True):
            units.add(row, percents, sign)

    def sample(self, record: UsageRecord, seconds: float) -> None:
        """Add what is now to the record."""
        series, offered = record.series, self._facts.offered
        series.seconds.append(round(seconds, 3))
        series.changes.append(self._steps)
        series.running.append(len(self._on_nodes))
        series.pending.append(len(self._there) - len(self._on_nodes))
        for name, amount in offered.items():
            if amount:
                series.allocation.setdefault(name, []).append(round(self._sums.get(name, 0) / amount, SHARE_DIGITS))
        free = (self._allocatable - self._requested).clip(min=0)
        stale = sorted(self._stale)
        self._wasted[stale] = wasted_on_nodes(free[stale], self._facts.mix)
        for column, name in enumerate(MEASURED):
            if self._facts.mix.asks(column) and offered.get(name):
                share = round(float(self._wasted[:, column].sum()) / offered[name], SHARE_DIGITS)
                series.unusable.setdefault(name, []).append(share)
            record.bands.setdefault(name, []).append(_bands(self._shares(column)))
        for key, units in self._units.items():
            units.sample(series.units.setdefault(key, UnitSeries()), free, stale)
            record.bands.setdefault(key, []).append(_bands(units.held / WHOLE))
        self._stale.clear()

    def _shares(self, column: int) -> NDArray[np.float64]:
        """Return what is allocated of each node that offers the resource."""
        offers = self._allocatable[:, column] > 0
        shares: NDArray[np.float64] = self._requested[offers, column] / self._allocatable[offers, column]
        return shares

    def keep(self) -> None:
        """Keep what is allocated now."""
        self._kept = self._requested.copy()
        for units in self._units.values():
            units.kept = units.held.copy()

    def kept(self) -> list[AllocatedShares]:
        """Return what was allocated of each node when it was kept last."""
        shares = np.round(self._kept / np.maximum(self._allocatable, 1), 4).tolist()
        units = {key: each.by_row() for key, each in self._units.items()}
        return [
            AllocatedShares(
                name,
                {resource: shares[row][column] for column, resource in enumerate(MEASURED)},
                {key: each[row] for key, each in units.items() if row in each},
            )
            for name, row in self._rows.items()
        ]


class _UnitReplay:
    """What pods hold of the units of all nodes, in percent of each."""

    def __init__(self, tool: SharedUnits, found: UnitsOnNodes, rows: Mapping[str, int]) -> None:
        self.tool, self._found = tool, found
        self._places: dict[tuple[int, int], int] = {}  # (node's row, number of the unit) -> place in `held`
        self._of_row: dict[int, list[int]] = {}
        for name, numbers in found.numbers.items():
            row = rows.get(name)
            if row is not None:
                self._of_row[row] = [len(self._places) + place for place in range(len(numbers))]
                self._places.update(((row, number), place) for number, place in zip(numbers, self._of_row[row], strict=True))
        self.held = self.kept = np.zeros(len(self._places), np.int64)
        self._wasted: dict[int, float] = {}

    def add(self, row: int, percents: Mapping[int, int], sign: int) -> None:
        for number, percent in percents.items():
            place = self._places.get((row, number))
            if place is not None:
                self.held[place] += sign * percent

    def sample(self, series: UnitSeries, free: NDArray[np.int64], stale: Sequence[int]) -> None:
        """Add what is now. stale: rows of nodes whose amounts may have changed; free: (milli-cores, bytes, pods) of all nodes."""
        for row in stale:
            if row in self._of_row:
                shares = tuple(max(WHOLE - percent, 0) for percent in self.held[self._of_row[row]].tolist())
                self._wasted[row] = self._found.waste(int(free[row, 0]), int(free[row, 1]), shares)
        count = len(self.held)
        full, idle = int((self.held >= WHOLE).sum()), int((self.held <= 0).sum())
        series.full.append(full)
        series.idle.append(idle)
        series.partly.append(count - full - idle)
        whole = max(count * WHOLE, 1)
        series.allocation.append(round(int(self.held.clip(0, WHOLE).sum()) / whole, SHARE_DIGITS))
        series.unusable.append(round(sum(self._wasted.values()) / whole, SHARE_DIGITS))

    def by_row(self) -> dict[int, tuple[int, ...]]:
        return {row: tuple(self.kept[places].tolist()) for row, places in self._of_row.items()}


def _bands(shares: NDArray[np.float64]) -> list[int]:
    found = np.minimum((shares.clip(min=0.0) * BANDS).astype(np.int64), BANDS)
    counts: list[int] = np.bincount(found, minlength=BANDS + 1).tolist()
    return counts
