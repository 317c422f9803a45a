"""The estimate: what evictions could do for a pod on each node, as far as columns show it without asking filters.

Only nodes that refuse the pod with Unschedulable count. Each of them is one of:

- by amounts: the filter that refuses it only compares amounts, all others let it pass, and none of them would answer otherwise if any pods
  of the node were removed (`affected_by_removals`). The dry run's victims are then exact, since the same amounts decide at every step of
  the reprieve. Pods that are nominated for the node are amounts too, as long as other filters do not depend on pods at all. Other filters
  may refuse it, or change their answers, if the dry run can ask them at every step (`FilterNodesPlugin.removal_filter`).
- to simulate: anything else that might work. All filters have to be asked (`candidates`).
- without victims: no pod there may be evicted for it.
- refused: it is known without asking why the node refuses the pod even without all possible victims; with that refusal.

Where a limit of the preemptor's group keeps it out as well (`VictimRule.to_release`), the dry run counts what the victims of each node
release; without nodes that offer one of these resources all filters have to be asked.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koordsched._core.dry_run import DryRun
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals, Rows
from koordsched.framework.simulation import DryRunFilters
from koordsched.framework.status import Code
from koordsched.queue.nominator import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched._core.removal_filter import RemovalFilter
    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.preemption.rules import PreemptionRules
    from koordsched.framework.preemption.victims_index import VictimsIndex
    from koordsched.framework.simulation import FitFilter, NodeSimulation
    from koordsched.framework.status import Status
    from koordsched.queue.nominator import Nominator

NO_VICTIM = -1  # among the dry run's codes
OVER_LIMIT = -3
REFUSED = -4
UNKNOWN = -5
UNASKED = -6
NOTHING: Sequence[tuple[int, int]] = ()
MOST_RELEASED = 30  # resources; the kernel's limit
MAX_BYTES = 32 << 20
BYTES_A_ROW = 48


NO_FILTERS = DryRunFilters((), (), alone=False)


class Preemptor(NamedTuple):
    """A pod that fits on no node, why, and what answers how it would be with other pods there."""

    pod: PodInfo
    diagnosis: Diagnosis
    simulation: NodeSimulation


class CandidateEstimate:
    """The nodes of one cluster state for one preemptor, by what is known of them."""

    def __init__(self, dry_run: DryRun | None, without_victims: int = 0) -> None:
        self.dry_run = dry_run  # None: no filter says what amounts the pod needs
        self.by_amounts: Rows = NO_ROWS
        self.to_simulate: Rows = NO_ROWS
        self.unbounded: Rows = NO_ROWS  # among `to_simulate`: the dry run bounds nothing there, the preemptor sees other amounts
        self.without_victims = without_victims
        self.refused: list[tuple[Status, Rows]] = []  # refusals and the nodes that give them
        self.unasked = False  # the dry run's other filters have not been asked about all nodes that are `by_amounts`

    @property
    def possible(self) -> bool:
        """Whether there may be a candidate."""
        return bool(len(self.by_amounts) or len(self.to_simulate))


class Estimator:
    """Makes estimates. The dry run of a priority and a request is kept and brought up to date; the least recently used one is dropped."""

    def __init__(self, victims: VictimsIndex, nominator: Nominator, rules: PreemptionRules) -> None:
        self._victims = victims
        self._nominator = nominator
        self._rules = rules
        self._dry_runs: dict[tuple[int, Request, int, Sequence[tuple[int, int]], Sequence[RemovalFilter]], DryRun] = {}
        self._rebuilt = victims.rebuilt

    def estimate(self, preemptor: Preemptor, to_release: Mapping[str, int] | None = None, *, complete: bool = True) -> CandidateEstimate:
        """Sort the nodes that refuse the pod with Unschedulable. The victims index is brought up to date.

        to_release: what the victims of a node have to release; by default what the rule says of the pod. complete: False takes all nodes
        whose amounts suffice for `by_amounts` until the dry run has asked its other filters, too (`DryRun.best`).
        """
        pod, diagnosis, simulation = preemptor
        resolvable = resolvable_nodes(diagnosis)
        if not resolvable or not self._victims.any_below(pod.priority):
            return CandidateEstimate(None, without_victims=resolvable)
        table, nominated = self._victims.bring_up_to_date().table, self._nominator.by_row()
        fit = simulation.fit_filter(pod, besides_credits=True)
        others = NO_FILTERS if fit is None else simulation.dry_run_filters(pod, fit, self._victims.index)
        if to_release is None:
            to_release = self._victims.to_release((pod,))
        columns_known = not to_release or (self._in_columns(to_release) and not self._rules.in_vain)
        dry_run = None
        if fit is not None:
            dry_run = self.dry_run(pod, fit.request, to_release if columns_known else {}, others.kernels)
        estimate = CandidateEstimate(dry_run)
        drawn = self._victims.rows_drawn_on(overdrawn=not others.kernels)
        with_credits = simulation.rows_with_credits()
        estimate.unbounded = np.array([*with_credits, *drawn] if others.kernels else with_credits, np.int32)
        inexact = {*self._nominator.rows_beyond_amounts(), *drawn, *with_credits}
        own = self._nominator.row_of(pod.uid)
        if own != NO_ROW:
            inexact.add(own)
        alone = fit is None or fit.alone or others.alone
        exceptions = _Inexact(
            np.array(list(inexact), np.int32), NO_ROWS if alone else nominated.nonempty_rows(), everywhere=not columns_known
        )
        sorting = _Sorting(preemptor, estimate, exceptions, table.capacity, self._rules.over_limit, complete=complete)
        if diagnosis.pre_filter is not None:
            sorting.simulate(table.live_rows() if simulation.rows is None else simulation.rows)
        else:
            sorting.sort_refused_by_filters(fit, others)
        sorting.sort_exceptions(fit, others)
        return estimate

    def dry_run(self, pod: PodInfo, request: Request, to_release: Mapping[str, int], others: Sequence[RemovalFilter] = ()) -> DryRun:
        """Return the dry run for the pod's priority and group and these amounts, as of now. The index must be up to date.

        others: what is asked besides comparing amounts.
        """
        victims = self._victims
        if self._rebuilt != victims.rebuilt:
            self._rebuilt = victims.rebuilt
            self._dry_runs.clear()
        resources = victims.columns.resources
        release = tuple(sorted([(resources[name], amount) for name, amount in to_release.items()])) if to_release else NOTHING
        key = (pod.priority, request, victims.group_for(pod), release, others)
        found = self._dry_runs.pop(key, None)
        if found is None:
            most = max(4, MAX_BYTES // (BYTES_A_ROW * victims.index.table.capacity))
            while len(self._dry_runs) >= most:
                del self._dry_runs[next(iter(self._dry_runs))]
            found = DryRun(victims.index, self._nominator.by_row(), *key)
        self._dry_runs[key] = found
        found.refresh()
        return found

    def _in_columns(self, names: Mapping[str, int]) -> bool:
        """Answer whether each of the resources has a column, so that the index knows how much of it pods request."""
        resources = self._victims.columns.resources
        return len(names) <= MOST_RELEASED and all(name in resources for name in names)


class _Inexact(NamedTuple):
    """Where the dry run does not know what decides.

    rows: it is wrong about nominated pods there: one is the preemptor itself, or means more than amounts. nominated: rows where nominated
    pods may matter to other filters than those that it knows. everywhere: it lacks amounts that have to be released.
    """

    rows: Rows
    nominated: Rows
    everywhere: bool


class _Sorting:
    """Fills one estimate."""

    def __init__(
        self, preemptor: Preemptor, estimate: CandidateEstimate, inexact: _Inexact, capacity: int, over_limit: Status, *, complete: bool
    ) -> None:
        """over_limit: the refusal where the victims of a node do not release enough. complete: as for `Estimator.estimate`."""
        self._pod, self._diagnosis, self._simulation = preemptor
        self._estimate = estimate
        self._inexact = inexact
        self._capacity = capacity
        self._over_limit = over_limit
        self._complete = complete
        self._limited = estimate.dry_run is not None and estimate.dry_run.limited

    def sort_refused_by_filters(self, fit: FitFilter | None, others: DryRunFilters) -> None:
        """Sort the rows that the shape's filters refuse."""
        for (g, code), rows in self._simulation.unschedulable_rows(self._pod).items():
            if fit is None:
                self.simulate(rows)
            elif g == fit.f or g in others.places:
                self._take_over(g, self._exact(rows), fit, others)
            else:
                affected = self._simulation.affected_by_removals(g, self._pod, rows, np.full(len(rows), code, np.int32))
                self.simulate(rows[affected])
                self._refuse_for_good(g, code, self._exact(rows[~affected]), fit)

    def sort_exceptions(self, fit: FitFilter | None, others: DryRunFilters) -> None:
        """Sort the rows of which something else is true than what the shape's filters say: nominated pods or extenders refuse."""
        for status, rows in self._diagnosis.exceptions.groups():
            if status.code is not Code.UNSCHEDULABLE:
                continue
            if fit is not None and status.plugin == fit.name:
                self._take_over(fit.f, self._exact(rows), fit, others)
            else:
                self.simulate(rows)

    def simulate(self, rows: Rows) -> None:
        """Leave these rows to the filters, except where there is no possible victim."""
        dry_run = self._estimate.dry_run
        if dry_run is not None and len(rows):
            rows = rows[_are_possible(self._codes(dry_run, rows))]
        self._estimate.to_simulate = np.concatenate((self._estimate.to_simulate, rows))

    def _exact(self, rows: Rows) -> Rows:
        """Return the rows for which the dry run knows the amounts; leave the others to the filters."""
        if self._inexact.everywhere:
            self.simulate(rows)
            return NO_ROWS
        exact, inexact = self._split(rows, self._inexact.rows)
        if len(inexact):
            self.simulate(inexact)
        return exact

    def _split(self, rows: Rows, some: Rows) -> tuple[Rows, Rows]:
        """Return (rows that are not among some, those that are). isin() costs ten times as much, and each event asks for each shape."""
        if not len(some) or not len(rows):
            return rows, NO_ROWS
        flags = np.zeros(self._capacity, np.bool_)
        flags[some] = True
        among = flags[rows]
        return (rows[~among], rows[among]) if among.any() else (rows, NO_ROWS)

    def _take_over(self, f: int, rows: Rows, fit: FitFilter, others: DryRunFilters) -> None:
        """Take over the dry run's answer for rows that filter f, which it knows, is the first to refuse."""
        dry_run, estimate, known = self._estimate.dry_run, self._estimate, {fit.f, *others.places}
        assert dry_run is not None
        codes = self._codes(dry_run, rows, ask=self._complete)
        self._refuse_short(fit.f, rows, codes)
        fitting = codes == 0
        if others.kernels:
            estimate.to_simulate = np.concatenate((estimate.to_simulate, rows[codes == UNKNOWN]))
            self._refuse_by_others(f, rows[codes == REFUSED], known, others)
            unasked = codes == UNASKED
            estimate.unasked = estimate.unasked or bool(unasked.any())
            fitting |= unasked
        estimate.by_amounts = np.concatenate((estimate.by_amounts, self._pass_others(f, rows[fitting], known)))

    def _refuse_by_others(self, f: int, rows: Rows, known: Collection[int], others: DryRunFilters) -> None:
        """Note rows that others of the dry run's filters refuse once all possible victims are gone, if those before them let them pass."""
        dry_run = self._estimate.dry_run
        assert dry_run is not None
        if not len(rows):
            return
        refusing, _ = dry_run.refusals(rows)
        for k, g in enumerate(others.places):
            refused = self._pass_others(f, rows[refusing == k], known, until=g)
            _, codes = dry_run.refusals(refused)
            self._refuse(RowRefusals.of_codes(refused, codes, partial(self._simulation.explain, g, self._pod)))

    def _pass_others(self, f: int, rows: Rows, known: Collection[int], until: int | None = None) -> Rows:
        """Return those of the rows that the filters besides the known ones pass whatever is removed; note what the others are."""
        estimate = self._estimate
        exact, nominated = self._split(rows, self._inexact.nominated)
        others = self._simulation.other_verdicts(f, self._pod, exact, known, until)
        for refusals in others.refused:
            self._refuse(refusals)
        estimate.to_simulate = np.concatenate((estimate.to_simulate, nominated, *others.uncertain))
        return others.passing

    def _refuse_for_good(self, g: int, code: int, rows: Rows, fit: FitFilter) -> None:
        """Note rows where filter g refuses whatever pods are removed; before it nominated pods may leave too little room."""
        assert self._estimate.dry_run is not None
        codes = self._codes(self._estimate.dry_run, rows)
        if g > fit.f:
            self._refuse_short(fit.f, rows, codes)
            rows, codes = rows[codes <= 0], codes[codes <= 0]
        refused = rows[_are_possible(codes)]
        if len(refused):
            self._estimate.refused.append((self._simulation.explain(g, self._pod, code), refused))

    def _codes(self, dry_run: DryRun, rows: Rows, *, ask: bool = False) -> NDArray[np.int32]:
        """Return the dry run's answers; note the rows without victims, and those whose victims do not release enough.

        ask: whether it matters what its other filters say.
        """
        codes = dry_run.codes(rows) if ask else dry_run.codes_so_far(rows)
        self._estimate.without_victims += int((codes == NO_VICTIM).sum())
        if self._limited:
            self._estimate.refused.append((self._over_limit, rows[codes == OVER_LIMIT]))
        return codes

    def _refuse_short(self, f: int, rows: Rows, codes: NDArray[np.int32]) -> None:
        """Note rows that stay short of amounts once all pods of lower priority are gone."""
        short = codes > 0
        self._refuse(RowRefusals.of_codes(rows[short], codes[short], partial(self._simulation.explain, f, self._pod)))

    def _refuse(self, refusals: RowRefusals) -> None:
        self._estimate.refused += refusals.groups()


def _are_possible(codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Answer where pods may be evicted, and would release enough."""
    return (codes >= 0) | (codes <= REFUSED)


def resolvable_nodes(diagnosis: Diagnosis) -> int:
    """Return how many nodes refuse the pod with Unschedulable, of those that it may go to."""
    if diagnosis.pre_filter is not None:
        rows = None if diagnosis.simulation is None else diagnosis.simulation.rows
        nodes = diagnosis.total_nodes if rows is None else len(rows)
        return nodes if diagnosis.pre_filter.code is Code.UNSCHEDULABLE else 0
    return sum(refusal.nodes for refusal in diagnosis.refusals if refusal.status.code is Code.UNSCHEDULABLE)
