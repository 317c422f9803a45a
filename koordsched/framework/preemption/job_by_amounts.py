"""Room for all pods of a job where amounts decide: the nodes on which it costs the fewest victims, without a simulation for each try.

What room for k pods of a class costs on a node is a kernel's answer (`DryRun.costs`): the victims that are left when all possible ones were
removed and, the most important first, put back. Which nodes take how many is the least sum of these costs (`cheapest`): first the fewest
victims that violate a disruption budget, then the fewest victims, then those of the lowest priorities; nodes with room cost nothing. Of
several classes each is placed beside the ones before it. The filters have the last word: all of them are asked about every node that was
chosen, and a node that refuses is left out of the next try.

A job that has to be in one region goes to the one where that costs least; in it to the smallest region in which it costs no more.

It knows pods that mean nothing but amounts to each other, and filters that answer about a node whatever runs on others; else, and where it
finds no room, `job` goes from node to node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from koordsched._core.dry_run import DryRun, cheapest
from koordsched._core.table import Request
from koordsched.framework.preemption.candidates import refusal_with_nominated
from koordsched.framework.preemption.regions import least_cost_in
from koordsched.framework.preemption.victims_index import started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.framework.preemption.candidates import CandidateFinder
    from koordsched.framework.preemption.estimate import Preemptor
    from koordsched.framework.preemption.regions import Region
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.simulation import FitFilter

    Costs = NDArray[np.int64]

MOST_RESOURCES = 30  # the kernel's limit
FIRST_PODS = 16
"""So many pods a node are looked at first; more where some node has room for as many."""
TRIES = 4  # each leaves out the nodes that filters refused in the one before
EXACT_PODS = 512
"""Of a class with more pods the others go, as long as there are more, to the nodes where a pod costs least on average."""
HIGHEST_COST = 1 << 62
MOST_REGIONS = 512
"""So many regions with room, those first where room is cheapest, are looked at; each takes a tenth of a millisecond."""
EXACT_REGIONS = 64
"""So many of them, the cheapest ones, are compared by their victims; what budgets that several nodes share say of these shows only then."""

EQUAL_REGIONS = 8  # of equal cost, in each of which the smallest part is looked for that costs no more


class JobRoom(msgspec.Struct, frozen=True):
    """A node for each pod, by uid, and the victims of the nodes that have any, the most important first.

    violations: how many victims violate a disruption budget.
    """

    nodes: Mapping[str, str]
    victims: Mapping[str, Sequence[PodInfo]]
    violations: int

    @property
    def rank(self) -> tuple[int, int]:
        """What to compare by; the smallest wins."""
        return self.violations, sum(map(len, self.victims.values()))


class AmountsClass(NamedTuple):
    """Pods of a job that are equal to filters. preemptor: one of them; rows: that come into question."""

    preemptor: Preemptor
    fit: FitFilter
    rows: Rows
    pods: Sequence[PodInfo]


class _Choice(NamedTuple):
    """Where pods go: taken[c, i] of class c on rows[i], which hold these amounts of them then; victims by row."""

    rows: list[int]
    taken: NDArray[np.int64]
    victims: dict[int, list[PodInfo]]
    violations: int

    @property
    def rank(self) -> tuple[int, int]:
        return self.violations, sum(map(len, self.victims.values()))


class _Assignment(NamedTuple):
    """How many pods of each class, taken[c, i], go to rows[i], and the sum of costs."""

    rows: Rows
    taken: NDArray[np.int64]
    cost: int


class RoomByAmounts:
    """The search for one job."""

    def __init__(
        self,
        handle: Handle,
        finder: CandidateFinder,
        weakest: PodInfo,
        classes: Sequence[AmountsClass],
        regions: Sequence[Region] | None,
    ) -> None:
        """weakest: the job's pod of the lowest priority, which says what may be a victim. regions: of which one takes all pods."""
        self._regions = regions
        self._cache = handle.cache
        self._nominator = handle.nominator
        self._finder = finder
        self._weakest = weakest
        self._classes = classes
        asked = [each.fit.request.amounts_by_id for each in classes]
        self._ids = list(dict.fromkeys(id for amounts in asked for id in amounts))  # noqa: A001  # a resource's number
        self._units = np.array([[amounts.get(id, 0) for id in self._ids] for amounts in asked], np.int64)  # noqa: A001
        self._possible = np.zeros((len(classes), self._cache.table.capacity), np.bool_)  # [class, row]
        for c, each in enumerate(classes):
            self._possible[c, each.rows] = True

    def find(self) -> JobRoom | None:
        """Return room for all pods, None where none was found. The index must be up to date. PluginError."""
        if len(self._ids) > MOST_RESOURCES:
            return None
        infos, victims = self._cache.infos, self._finder.victims
        request = Request(self._ids, self._units.sum(axis=0).tolist(), 0, 0)
        dry_run = DryRun(victims.index, self._nominator.by_row(), self._weakest.priority, request, victims.group_for(self._weakest))
        rows = np.unique(np.concatenate([each.rows for each in self._classes])).astype(np.int32)
        rows = np.setdiff1d(rows, np.array(self._nominator.rows_beyond_amounts(), np.int32))
        named = sorted((info.name, row) for row in rows.tolist() if (info := infos[row]) is not None)
        rows = np.array([row for _, row in named], np.int32)
        for _ in range(TRIES):
            choice = self._choose(dry_run, rows)
            if choice is None:
                return None
            refused = [row for i, row in enumerate(choice.rows) if not self._confirms(row, choice.taken[:, i], choice.victims.get(row, ()))]
            if not refused:
                return self._room(choice)
            rows = rows[np.isin(rows, refused, invert=True)]
        return None

    # Choosing by amounts

    def _choose(self, dry_run: DryRun, rows: Rows) -> _Choice | None:
        """Return the best choice; budgets that several nodes share count once all victims are known, so a second one spares all budgets."""
        best: _Choice | None = None
        for none_allowed in (False, True):
            spared = True  # whether no budget is violated
            for found in self._cheapest(dry_run, rows, none_allowed=none_allowed):
                choice = self._with_victims(dry_run, found)
                if best is None or choice.rank < best.rank:
                    best = choice
                if not choice.violations:
                    break  # what follows costs more
                spared = False
            if spared:
                break
        return best

    def _cheapest(self, dry_run: DryRun, rows: Rows, *, none_allowed: bool) -> Sequence[_Assignment]:
        """Return where the pods may go, by cost: in each region, where the job has to be in one."""
        if self._regions is None:
            found = self._distribute(dry_run, rows, None, none_allowed=none_allowed)
            return () if found is None else (found,)
        order = np.full(self._possible.shape[1], len(rows), np.int32)  # by row
        order[rows] = np.arange(len(rows), dtype=np.int32)

        def within(region: Region) -> _Assignment | None:
            places = np.sort(order[region.rows])
            return self._distribute(dry_run, rows[places[places < len(rows)]], region, none_allowed=none_allowed)

        distributed: list[tuple[_Assignment, int]] = []  # and the region's index
        least = HIGHEST_COST
        for bound, i in self._by_bound(dry_run, rows, order, none_allowed=none_allowed):
            if (bound > least and len(distributed) >= EXACT_REGIONS) or len(distributed) == MOST_REGIONS:
                break
            found = within(self._regions[i])
            if found is not None:
                distributed.append((found, i))
                least = min(least, found.cost)
        distributed.sort(key=lambda pair: (pair[0].cost, pair[1]))
        if distributed:
            equal = [(found, self._regions[i]) for found, i in distributed[:EQUAL_REGIONS] if found.cost == least]
            best = [_smallest(found, region, within, 0) for found, region in equal]
            distributed[0] = max(best, key=lambda pair: pair[0])[1], distributed[0][1]
        return [found for found, _ in distributed[:EXACT_REGIONS]]

    def _by_bound(self, dry_run: DryRun, rows: Rows, order: NDArray[np.int32], *, none_allowed: bool) -> list[tuple[float, int]]:
        """Return the regions, by index, that have room for each class alone, with lower bounds of what the job costs there, ascending."""
        regions = self._regions or ()
        bounds = np.zeros(len(regions))
        roomy = np.ones(len(regions), np.bool_)
        for c, each in enumerate(self._classes):
            mine = np.flatnonzero(self._possible[c, rows])
            costs = self._costs(dry_run, c, rows[mine], np.zeros((len(mine), len(self._ids)), np.int64), none_allowed=none_allowed)
            slots, average = np.zeros(len(rows) + 1, np.int64), np.full(len(rows) + 1, np.inf)  # the last one: for rows that are not there
            slots[mine] = (costs[:, 1:] >= 0).sum(axis=1)
            average[mine] = np.where(costs[:, 1:] < 0, np.inf, costs[:, 1:] / np.arange(1, costs.shape[1])).min(axis=1)
            for i, region in enumerate(regions):
                places = order[region.rows]
                roomy[i] &= slots[places].sum() >= len(each.pods)
                bounds[i] += len(each.pods) * average[places].min(initial=np.inf) if roomy[i] else 0
        return [(float(bounds[i]), i) for i in np.argsort(bounds, kind="stable").tolist() if roomy[i]]

    def _distribute(self, dry_run: DryRun, rows: Rows, region: Region | None, *, none_allowed: bool) -> _Assignment | None:
        """Place class after class, as the job has them or else the largest first."""
        orders = [list(range(len(self._classes)))]
        if len(orders[0]) > 1:
            largest = self._units.max(axis=0)
            orders.append(sorted(orders[0], key=lambda c: -float((self._units[c] / np.maximum(largest, 1)).max())))
        for order in orders:
            found = self._in_order(dry_run, rows, region, order, none_allowed=none_allowed)
            if found is not None:
                return found
        return None

    def _in_order(
        self, dry_run: DryRun, rows: Rows, region: Region | None, order: Sequence[int], *, none_allowed: bool
    ) -> _Assignment | None:
        taken = np.zeros((len(self._classes), len(rows)), np.int64)
        held = np.zeros((len(rows), len(self._ids)), np.int64)
        total = 0
        for c in order:
            unit, count = self._units[c], len(self._classes[c].pods)
            mine = np.flatnonzero(self._possible[c, rows])
            costs = self._costs(dry_run, c, rows[mine], held[mine], none_allowed=none_allowed)
            if region is None or not region.has_multiples:
                found = least_cost(costs, count)
            else:
                places = np.full(self._possible.shape[1], -1, np.int32)
                places[rows[mine]] = np.arange(len(mine), dtype=np.int32)
                found = least_cost_in(region, costs, places, count)
            if found is None:
                return None
            taken[c, mine] = found
            held[mine] += found[:, None] * unit
            total += int(costs[np.arange(len(mine)), found].sum())
        return _Assignment(rows, taken, total)

    def _costs(self, dry_run: DryRun, c: int, rows: Rows, held: NDArray[np.int64], *, none_allowed: bool) -> Costs:
        """Return [i, k]: what room for k pods of a class costs on rows[i] beside what is held there; -1: there is none."""
        unit, count = self._units[c], len(self._classes[c].pods)
        most = min(count, FIRST_PODS)
        costs = dry_run.costs(rows, held, unit, most, none_allowed)
        while most < count and (costs[:, -1] >= 0).any():
            most = min(count, 4 * most)
            costs = dry_run.costs(rows, held, unit, most, none_allowed)
        return np.where(costs < 0, -1, np.minimum(costs - costs[:, :1], HIGHEST_COST // count))

    def _with_victims(self, dry_run: DryRun, found: _Assignment) -> _Choice:
        """Find the victims on the chosen rows, as disruption budgets see all of them together."""
        rows, taken = found.rows, found.taken
        used = np.flatnonzero(taken.any(axis=0))
        held = taken[:, used].T @ self._units
        chosen = rows[used].tolist()
        possible = {row: self._finder.victims.lower_on(self._weakest, row) for row in chosen}
        pods = sorted((pod for on_row in possible.values() for pod in on_row), key=importance)
        violating = dict(zip([pod.uid for pod in pods], self._finder.budgets.violations([pod.pod for pod in pods]), strict=True))
        victims: dict[int, list[PodInfo]] = {}
        for row, amounts in zip(chosen, held, strict=True):
            there = possible[row]
            if there and (left := dry_run.victims_beside(row, amounts, np.array([violating[pod.uid] for pod in there], np.uint8))):
                victims[row] = [there[i] for i in left]
        violations = sum(violating[pod.uid] for on_row in victims.values() for pod in on_row)
        return _Choice(chosen, taken[:, used], victims, violations)

    # What filters say

    def _confirms(self, row: int, taken: NDArray[np.int64], victims: Sequence[PodInfo]) -> bool:
        """Ask all filters about one pod of each class beside all others that go there, without the victims."""
        node = self._cache.infos[row]
        if node is None:
            return False
        there = [each.pods[:count] for each, count in zip(self._classes, taken.tolist(), strict=True)]
        with self._cache.simulate(node, remove=victims):
            for each, pods in zip(self._classes, there, strict=True):
                if not pods:
                    continue
                others = [*pods[1:], *(pod for other in there if other is not pods for pod in other)]
                with self._cache.simulate(node, add=others):
                    ahead = self._nominator.ahead(pods[0], node.name)
                    if refusal_with_nominated(each.preemptor._replace(pod=pods[0]), node, ahead) is not None:
                        return False
        return True

    def _room(self, choice: _Choice) -> JobRoom:
        names = {row: info.name for row in choice.rows if (info := self._cache.infos[row]) is not None}
        nodes: dict[str, str] = {}
        for each, taken in zip(self._classes, choice.taken.tolist(), strict=True):
            pods = iter(each.pods)
            for row, count in zip(choice.rows, taken, strict=True):
                nodes.update((next(pods).uid, names[row]) for _ in range(count))
        return JobRoom(nodes, {names[row]: victims for row, victims in choice.victims.items()}, choice.violations)


def _smallest(found: _Assignment, region: Region, within: Callable[[Region], _Assignment | None], depth: int) -> tuple[int, _Assignment]:
    """Return the assignment in the smallest part of the region that costs no more, and how many parts down that is."""
    for part in region.parts:
        smaller = within(part)
        if smaller is not None and smaller.cost == found.cost:
            return _smallest(smaller, part, within, depth + 1)
    return depth, found


def least_cost(costs: Costs, count: int) -> NDArray[np.int64] | None:
    """Return how many of `count` pods each row takes, so that the sum of costs[row, pods] is the least; None: there is no room for all.

    Exact up to EXACT_PODS: in the order of rows where sums are equal.
    """
    taken = np.zeros(len(costs), np.int64)
    slots = (costs[:, 1:] >= 0).sum(axis=1)
    if slots.sum() < count:
        return None
    left = count
    if left > EXACT_PODS:
        pods = np.arange(1, costs.shape[1])
        average = np.where(costs[:, 1:] < 0, np.inf, costs[:, 1:] / pods)
        most = costs.shape[1] - 1 - average[:, ::-1].argmin(axis=1)  # the largest of equal ones
        least = average[np.arange(len(costs)), most - 1]
        for i in np.argsort(least, kind="stable").tolist():
            if left - most[i] < EXACT_PODS or not np.isfinite(least[i]):
                break
            taken[i] = most[i]
            left -= int(most[i])
    rest = np.flatnonzero(taken == 0)
    costs = np.ascontiguousarray(costs[rest, : left + 1])
    # No more than `left` rows are used, so of the rows that take k pods only the `left` cheapest come into question.
    best = [np.argsort(np.where(costs[:, k] < 0, HIGHEST_COST, costs[:, k]), kind="stable")[:left] for k in range(1, costs.shape[1])]
    kept = np.unique(np.concatenate(best))
    found = cheapest(np.ascontiguousarray(costs[kept]), left)
    if found is None:  # rows that take more than are left would have been needed
        return None
    taken[rest[kept]] = found
    return taken


def importance(pod: PodInfo) -> tuple[int, float]:
    """Return what possible victims are sorted by, the most important first."""
    return -pod.priority, started_at(pod)
