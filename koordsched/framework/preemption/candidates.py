"""Candidates: the nodes that evictions could make free for a pod, the exact victims on each, and the best one (framework.md §7.3 to §7.6).

kube-scheduler tries nodes from a random one on until a tenth of them, at least a hundred, are candidates. Here all nodes count that can be
judged by amounts (`estimate`), and the others in the order of what they can be worth at best:

- For rows judged by amounts the kernel has the victims and how they rank; the best one is a minimum over columns. Where other filters have
  to be asked as well, it is found without asking about all rows, and only where there is none they all are.
- Every other row is simulated with all filters. Whatever these demand, the evicted pods must make room for the pod's request, so some
  victim has at least the priority that `lower_bounds` names, and one violates a budget if `lower_bounds` says so. Rows are simulated in
  the order of these bounds, and no more once no bound is better than the best candidate so far: (violations, highest priority) of any
  candidate is at least its bound, the sum over victims at least that priority + 2^31, and there is at least one victim. What is left out
  therefore loses against what was found in the first criterion in which they differ; a row that could still tie is simulated. But each
  costs a millisecond, and where thousands have equal bounds it is enough to have as many candidates as kube-scheduler wants.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.config.extension_points import POST_FILTER
from koordsched.framework.diagnosis import Refusal, count_reasons, fit_error
from koordsched.framework.pod_diagnosis import FailedNodes, names_of
from koordsched.framework.preemption.estimate import UNKNOWN, Estimator
from koordsched.framework.preemption.rules import NOT_HELPFUL, NOTHING
from koordsched.framework.preemption.victims_index import is_of_daemon_set, started_at
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals
from koordsched.framework.status import Code, PluginError, Status, error, unschedulable
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched._core.dry_run import DryRun
    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.pod_diagnosis import PreemptionRecord
    from koordsched.framework.preemption.estimate import CandidateEstimate, Preemptor
    from koordsched.framework.preemption.rules import PreemptionRules
    from koordsched.framework.preemption.victims_index import DisruptionBudgets, VictimsIndex
    from koordsched.queue.nominator import Nominator

log = get_logger(__name__)

PODS = "pods"
"""The resource of which each pod takes 1."""

Rank = tuple[int, int, int, int, int, float, int]
"""What decides between candidates, the smallest first (framework.md §7.5): violated budgets, priority of the most important victim, sum
over victims of priority + 2^31, number of victims, victims of DaemonSets (they can run nowhere else: kubernetes #141227), minus when the
oldest of the most important victims started, position in the order of nodes. `_core.dry_run.DryRun.best` compares the same."""

Bound = tuple[int, int, int, int]  # of the first four

WEIGHT = 1 << 31


class PreemptionCandidate(msgspec.Struct, frozen=True):
    """A node with the pods that would be evicted from it, the most important first."""

    row: int
    victims: Sequence[PodInfo]
    violations: int


class CandidateFinder:
    """Finds candidates. Nothing awaits."""

    def __init__(
        self, cache: Cache, nominator: Nominator, victims: VictimsIndex, budgets: DisruptionBudgets, rules: PreemptionRules
    ) -> None:
        self.rules = rules
        self._cache = cache
        self._nominator = nominator
        self.victims = victims
        self.budgets = budgets
        self._estimator = Estimator(victims, nominator, rules)
        self._order: NDArray[np.int32] | None = None
        self._positions = np.zeros(0, np.int32)

    def may_exist(self, preemptor: Preemptor) -> bool:
        """Answer whether there could be a candidate; in doubt yes."""
        estimate = self._estimator.estimate(preemptor, complete=False)
        if estimate.unasked and _Search(self, preemptor, estimate).best_row() < 0:
            estimate = self._estimator.estimate(preemptor)
        return estimate.possible

    def expected_refusal(self, preemptor: Preemptor) -> Status | None:
        """Return what `best` would answer if there is no candidate, without asking filters; None when that is not known."""
        estimate = self._estimator.estimate(preemptor)
        if estimate.possible:
            return None
        return refusal_of(preemptor.diagnosis.total_nodes, _Search(self, preemptor, estimate).refusals(), self.rules)

    def best(self, preemptor: Preemptor, enough: int) -> PreemptionCandidate | Status:
        """Return the best candidate, or the refusal that says of every node why there is none. PluginError.

        enough: after so many candidates among nodes that all filters had to be asked about, one of them without violations, no more are.
        """
        estimate = self._estimator.estimate(preemptor, complete=False)
        if estimate.unasked:
            first = _Search(self, preemptor, estimate).best_without_asking_all()
            if first is not None:
                return first
            estimate = self._estimator.estimate(preemptor)
        search = _Search(self, preemptor, estimate)
        found = search.best(enough)
        if found is not None:
            return found
        if preemptor.diagnosis.preemption is not None:
            search.note_refusals(preemptor.diagnosis.preemption, self._cache.infos)
        return refusal_of(preemptor.diagnosis.total_nodes, search.refusals(), self.rules)

    def all(self, preemptor: Preemptor, most: int) -> list[PreemptionCandidate]:
        """Return up to `most` candidates, the best first: for extenders, which may know better."""
        return _Search(self, preemptor, self._estimator.estimate(preemptor)).all(most)

    # Parts of a search for a job

    def dry_run(self, pod: PodInfo, request: Request) -> DryRun:
        """Return the dry run for this request with the pod's possible victims. The index must be up to date."""
        return self._estimator.dry_run(pod, request, NOTHING)

    # Exact victims on one node

    def select_victims(self, preemptor: Preemptor, row: int) -> PreemptionCandidate | Status:
        """Simulate evictions on one row: return the victims, or why evicting all possible ones does not help. PluginError."""
        node = self._cache.infos[row]
        lower = self.victims.lower_on(preemptor.pod, row)
        if node is None or not lower:
            return self.rules.no_victims
        to_release = self.victims.to_release((preemptor.pod,))
        released = Released(to_release, lower) if to_release else None
        in_vain = self.rules.in_vain
        if released is not None and not released.enough and not in_vain:
            return self.rules.over_limit
        ahead = self._nominator.ahead(preemptor.pod, node.name)
        violating = self.budgets.violations([pod.pod for pod in lower])
        with self._cache.simulate(node, remove=lower):
            refusal = refusal_with_nominated(preemptor, node, ahead)
            if refusal is not None:
                return refusal
            victims = []
            with ExitStack() as reprieved:
                # First those whose eviction violates a budget are put back, then the others, the most important first.
                for i in sorted(range(len(lower)), key=lambda i: not violating[i]):
                    spared = released is None or released.can_spare(lower[i])
                    if not spared and not in_vain:
                        victims.append(i)
                        continue
                    with ExitStack() as tried:
                        tried.enter_context(self._cache.simulate(node, add=[lower[i]]))
                        if refusal_with_nominated(preemptor, node, ahead) is not None:
                            victims.append(i)
                            if released is not None and in_vain and not released.enough:
                                # The reference takes the pod off twice.
                                text = f"no corresponding pod {lower[i].pod.metadata.name} in pods of node {node.name}"
                                raise PluginError(error(text), POST_FILTER.label)
                        elif spared:
                            reprieved.push(tried.pop_all())
                            if released is not None:
                                released.put_back(lower[i])
                        else:
                            victims.append(i)
                            violating[i] = False  # the reference does not count budgets of pods that only the limit keeps off
        if not victims:
            return self.rules.no_victims
        return PreemptionCandidate(row, [lower[i] for i in sorted(victims)], sum(violating[i] for i in victims))

    def confirms(self, preemptor: Preemptor, candidate: PreemptionCandidate) -> bool:
        """Ask all filters whether the pod would fit without the victims: no pod is to be evicted for an estimate alone."""
        node = self._cache.infos[candidate.row]
        if node is None:
            return False
        ahead = self._nominator.ahead(preemptor.pod, node.name)
        refusal = preemptor.simulation.simulate_on_node(preemptor.pod, node, add=ahead, remove=candidate.victims)
        if refusal is None:
            return True
        log.error("preemption expected room that the filters do not see", pod=preemptor.pod.key, node=node.name, refusal=refusal.message)
        return False

    # Choice

    def rank(self, candidate: PreemptionCandidate) -> Rank:
        """Return what to compare a candidate by; the smallest wins."""
        victims = candidate.victims
        highest = victims[0].priority
        return (
            candidate.violations,
            highest,
            sum(victim.priority + WEIGHT for victim in victims),
            len(victims),
            sum(is_of_daemon_set(victim.pod) for victim in victims),
            -min(started_at(victim) for victim in victims if victim.priority == highest),
            int(self.positions()[candidate.row]),
        )

    def positions(self) -> NDArray[np.int32]:
        """Return each row's position in the order of nodes: where all else is equal the first one wins."""
        order = self._cache.order.rows()
        if order is not self._order:
            self._positions = np.zeros(self._cache.table.capacity, np.int32)
            self._positions[order] = np.arange(len(order), dtype=np.int32)
            self._order = order
        return self._positions


class _Search:
    """The search for one preemptor."""

    def __init__(self, finder: CandidateFinder, preemptor: Preemptor, estimate: CandidateEstimate) -> None:
        self._finder = finder
        self._preemptor = preemptor
        self._estimate = estimate
        self._refused: dict[int, Status] = {}  # of rows that were simulated in vain
        self._mistake: PluginError | None = None  # the first one of a simulated row: it counts only where there is no candidate

    def best(self, enough: int) -> PreemptionCandidate | None:
        """Return the best candidate, None when there is none. PluginError when a node could not be asked about and no other is one."""
        found, estimate = self._best_by_amounts(), self._estimate
        if found is not None and not self._finder.confirms(self._preemptor, found):
            estimate.to_simulate = np.concatenate((estimate.to_simulate, estimate.by_amounts))
            found = None
        if not len(estimate.to_simulate):
            return found
        known = None if found is None else self._finder.rank(found)
        for row, bound in self._by_bound():
            if known is not None and (bound > known[:4] or (enough <= 0 and not known[0])):
                break
            simulated = self._simulated(row)
            if simulated is None:
                continue
            enough -= 1
            rank = self._finder.rank(simulated)
            if known is None or rank < known:
                found, known = simulated, rank
        if found is None and self._mistake is not None:
            raise self._mistake
        return found

    def best_without_asking_all(self) -> PreemptionCandidate | None:
        """Return the best candidate where the dry run has not asked its other filters about all nodes; None: it has to."""
        dry_run, estimate = self._estimate.dry_run, self._estimate
        if dry_run is None or len(estimate.to_simulate):
            return None
        found = self._best_by_amounts()
        if found is None or (dry_run.codes_so_far(estimate.by_amounts) == UNKNOWN).any():
            return None  # a node that is to be simulated may be better
        return found if self._finder.confirms(self._preemptor, found) else None

    def all(self, most: int) -> list[PreemptionCandidate]:
        dry_run, found = self._estimate.dry_run, []
        if dry_run is not None:
            found = [PreemptionCandidate(row, *dry_run.victims(row)) for row in self._estimate.by_amounts.tolist()]
        simulated = (self._simulated(row) for row, _ in self._by_bound())
        found += islice((candidate for candidate in simulated if candidate is not None), most)
        return sorted(found, key=self._finder.rank)[:most]

    def refusals(self) -> Counter[Status]:
        """Return why each node that was looked at is no candidate."""
        found = Counter(self._refused.values())
        found[self._finder.rules.no_victims] += self._estimate.without_victims
        for status, rows in self._estimate.refused:
            found[status] += len(rows)
        return found

    def note_refusals(self, record: PreemptionRecord, infos: Sequence[NodeInfo | None]) -> None:
        """Note by name what `refusals` counts. infos: the nodes by row."""
        refused = [*RowRefusals.of(self._refused).groups(), *self._estimate.refused]
        known = np.concatenate([NO_ROWS, *(rows for _, rows in refused)])
        resolvable = [rows for status, rows in self._preemptor.diagnosis.rows_by_status() if status.code is Code.UNSCHEDULABLE]
        rest = np.setdiff1d(np.concatenate([NO_ROWS, *resolvable]), known)
        if len(rest):
            refused.append((self._finder.rules.no_victims, rest))
        record.failed_nodes = [FailedNodes(status, names_of(rows, infos)) for status, rows in refused if len(rows)]

    def _best_by_amounts(self) -> PreemptionCandidate | None:
        dry_run, row = self._estimate.dry_run, self.best_row()
        return None if dry_run is None or row < 0 else PreemptionCandidate(row, *dry_run.victims(row))

    def best_row(self) -> int:
        """Return the best of the rows where amounts decide, -1: there is none."""
        dry_run, rows = self._estimate.dry_run, self._estimate.by_amounts
        return -1 if dry_run is None or not len(rows) else dry_run.best(rows, self._finder.positions())

    def _by_bound(self) -> Iterator[tuple[int, Bound]]:
        """Yield the rows to simulate with lower bounds of their rank, ascending."""
        rows, dry_run = self._estimate.to_simulate, self._estimate.dry_run
        if not len(rows):
            return
        if dry_run is None:
            for row in rows.tolist():
                yield row, (0, -WEIGHT, 0, 1)
            return
        violations, priorities = dry_run.lower_bounds(rows)
        fits = (dry_run.codes(rows) == 0) & ~np.isin(rows, self._estimate.unbounded)
        violations[~fits], priorities[~fits] = 0, -WEIGHT  # nothing is known there: the pod itself may be nominated for the row
        positions = self._finder.positions()[rows]
        for i in np.lexsort((positions, priorities, violations)).tolist():
            priority = int(priorities[i])
            yield int(rows[i]), (int(violations[i]), priority, priority + WEIGHT, 1)

    def _simulated(self, row: int) -> PreemptionCandidate | None:
        """Return the candidate that a row is, if it is one; note what speaks against it."""
        try:
            found = self._finder.select_victims(self._preemptor, row)
        except PluginError as mistake:
            self._mistake = self._mistake or mistake
            return None
        if isinstance(found, PreemptionCandidate):
            return found
        self._refused[row] = found
        return None


class Released:
    """What victims release of what they have to release together."""

    def __init__(self, to_release: Mapping[str, int], victims: Iterable[PodInfo]) -> None:
        self._spare = {name: sum(_amount(pod, name) for pod in victims) - amount for name, amount in to_release.items()}

    @property
    def enough(self) -> bool:
        return all(spare >= 0 for spare in self._spare.values())

    def can_spare(self, victim: PodInfo) -> bool:
        """Answer whether the others release enough."""
        return all(spare >= _amount(victim, name) for name, spare in self._spare.items())

    def put_back(self, victim: PodInfo) -> None:
        """Count this pod no longer among the victims."""
        for name in self._spare:
            self._spare[name] -= _amount(victim, name)


def _amount(pod: PodInfo, resource: str) -> int:
    return 1 if resource == PODS else pod.resources.requests.get(resource, 0)


def refusal_with_nominated(preemptor: Preemptor, node: NodeInfo, ahead: Sequence[PodInfo]) -> Status | None:
    """Return why the pod could not go there now, with and without the pods that are nominated for the node before it."""
    if ahead:
        refusal = preemptor.simulation.simulate_on_node(preemptor.pod, node, add=ahead)
        if refusal is not None:
            return refusal
    return preemptor.simulation.filter_node(preemptor.pod, node)


def refusal_of(total_nodes: int, statuses: Mapping[Status, int], rules: PreemptionRules) -> Status:
    """Return the refusal that gives of all nodes the reason why preemption does not help there, as far as the rules list them."""
    refusals = [Refusal(status, count) for status, count in statuses.items() if count]
    rest = total_nodes - sum(refusal.nodes for refusal in refusals)
    if rest > 0 and (rules.lists_all_nodes or not refusals):
        refusals.append(Refusal(NOT_HELPFUL, rest))
    return unschedulable(fit_error(total_nodes, count_reasons(refusals)))
