"""Candidates: where to make room for a pod, and by evicting whom (framework.md §7.3 to §7.6).

kube-scheduler tries nodes from a random one on until a tenth of them, at least a hundred, are candidates. Here all nodes count that can be
judged on columns, and the others in the order of what can be hoped of them:

- For `foreseen` rows the kernel has the victims and what they are worth; the best one is a minimum over columns.
- An `open` row has to be played through with all filters. Whatever these demand, the evicted pods must make room for the pod's request, so
  some victim has at least the priority `floors` names, and one violates a budget if `floors` says so. Rows are played in the order of
  these bounds, and no more once no bound beats the best candidate so far: (violations, highest priority) of any candidate is at least its
  bound, the sum over victims at least the floor + 2^31, and there is at least one victim. What is left out therefore loses against what
  was found in the first criterion in which they differ; a row that could still tie is played. But each costs a millisecond, and where
  thousands promise the same it is enough to have as many candidates as kube-scheduler wants.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from koordsched.framework.diagnosis import Refusal, count_reasons, fit_error
from koordsched.framework.status import Code, PluginError, Status, unschedulable
from koordsched.log import get_logger
from koordsched.plugins.defaultpreemption.choice import WEIGHT, Candidate, Worth, worth
from koordsched.plugins.defaultpreemption.outlook import Outlook, Outlooks
from koordsched.plugins.defaultpreemption.victims import NO_VICTIMS, DryRun, Facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.plugins.defaultpreemption.budgets import Budgets
    from koordsched.plugins.defaultpreemption.occupants import Occupants
    from koordsched.queue.nominator import Nominator

log = get_logger(__name__)

NOT_HELPFUL = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Preemption is not helpful for scheduling",))

Bound = tuple[int, int, int, int]  # of violations, highest priority, sum, number of victims


class Attempt:
    """One pod that fits nowhere, and why not."""

    def __init__(self, pod: PodInfo, diagnosis: Diagnosis, simulation: NodeSimulation) -> None:
        self.pod = pod
        self.diagnosis = diagnosis
        self.simulation = simulation


class Candidates:
    """Finds them. Nothing awaits."""

    def __init__(self, cache: Cache, nominator: Nominator, occupants: Occupants, budgets: Budgets) -> None:
        self._cache = cache
        self._occupants = occupants
        self._outlooks = Outlooks(occupants)
        self._facts = Facts(nominator, budgets, occupants)
        self._order: NDArray[np.int32] | None = None
        self._place = np.zeros(0, np.int32)

    def may_exist(self, attempt: Attempt) -> bool:
        """Answer whether there could be one; in doubt yes."""
        pod, diagnosis = attempt.pod, attempt.diagnosis
        if not _resolvable(diagnosis) or not self._occupants.any_below(pod.priority):
            return False
        return self._outlooks.of(pod, diagnosis, attempt.simulation).hopeful

    def best(self, attempt: Attempt, enough: int) -> Candidate | Status:
        """Return the best candidate, or the refusal that says of every node why there is none. PluginError.

        enough: after so many candidates among nodes that all filters had to be asked about, one of them without violations, no more are.
        """
        pod, diagnosis = attempt.pod, attempt.diagnosis
        if not _resolvable(diagnosis) or not self._occupants.any_below(pod.priority):
            return refusal_of(diagnosis, Counter({NO_VICTIMS: _resolvable(diagnosis)}))
        outlook = self._outlooks.of(pod, diagnosis, attempt.simulation)
        play = _Play(self, attempt, outlook)
        found = play.best(enough)
        return found if found is not None else refusal_of(diagnosis, play.refusals())

    def all(self, attempt: Attempt, most: int) -> list[Candidate]:
        """Return up to `most` candidates, the best first: for extenders, who may know better."""
        if not _resolvable(attempt.diagnosis) or not self._occupants.any_below(attempt.pod.priority):
            return []
        outlook = self._outlooks.of(attempt.pod, attempt.diagnosis, attempt.simulation)
        return _Play(self, attempt, outlook).all(most)

    def foreseen_refusal(self, attempt: Attempt) -> Status | None:
        """Return what `best` would say if there is no candidate, without asking filters; None when that is not known."""
        pod, diagnosis = attempt.pod, attempt.diagnosis
        if not _resolvable(diagnosis) or not self._occupants.any_below(pod.priority):
            return refusal_of(diagnosis, Counter({NO_VICTIMS: _resolvable(diagnosis)}))
        outlook = self._outlooks.of(pod, diagnosis, attempt.simulation)
        return None if outlook.hopeful else refusal_of(diagnosis, _Play(self, attempt, outlook).refusals())

    def worth(self, candidate: Candidate) -> Worth:
        return worth(candidate, int(self.places()[candidate.row]))

    def places(self) -> NDArray[np.int32]:
        """Return each row's place in the order of nodes: where all else is equal the first one wins."""
        order = self._cache.order.rows()
        if order is not self._order:
            self._place = np.zeros(self._cache.table.capacity, np.int32)
            self._place[order] = np.arange(len(order), dtype=np.int32)
            self._order = order
        return self._place

    def play(self, attempt: Attempt, row: int) -> Candidate | Status:
        """Ask all filters about evictions on one row."""
        node = self._cache.infos[row]
        if node is None:
            return NO_VICTIMS
        return DryRun(attempt.pod, attempt.simulation, self._cache).on(node, self._facts)

    def confirms(self, attempt: Attempt, candidate: Candidate) -> bool:
        """Ask all filters whether the pod would fit without the victims: nobody is to be evicted for what was only foreseen."""
        node = self._cache.infos[candidate.row]
        if node is None:
            return False
        ahead = self._facts.nominator.ahead(attempt.pod, node.name)
        refusal = attempt.simulation.simulate_on_node(attempt.pod, node, add=ahead, remove=candidate.victims)
        if refusal is None:
            return True
        log.error("preemption foresaw room that the filters do not see", pod=attempt.pod.key, node=node.name, refusal=refusal.message)
        return False


class _Play:
    """The search for one pod."""

    def __init__(self, candidates: Candidates, attempt: Attempt, outlook: Outlook) -> None:
        self._candidates = candidates
        self._attempt = attempt
        self._outlook = outlook
        self._refused: Counter[Status] = Counter()  # of open rows that were played in vain
        self._mistake: PluginError | None = None  # the first one of an open row: it counts only where there is no candidate

    def best(self, enough: int) -> Candidate | None:
        """Return the best candidate, None when there is none. PluginError when a node could not be asked about and no other is one."""
        found = self._foreseen()
        if found is not None and not self._candidates.confirms(self._attempt, found):
            self._outlook.open = np.concatenate((self._outlook.open, self._outlook.foreseen))
            found = None
        if not len(self._outlook.open):
            return found
        known = None if found is None else self._candidates.worth(found)
        for row, bound in self._open_by_bound():
            if known is not None and (bound > known[:4] or (enough <= 0 and not known[0])):
                break
            played = self._played(row)
            if played is None:
                continue
            enough -= 1
            value = self._candidates.worth(played)
            if known is None or value < known:
                found, known = played, value
        if found is None and self._mistake is not None:
            raise self._mistake
        return found

    def all(self, most: int) -> list[Candidate]:
        prospects, outlook = self._outlook.prospects, self._outlook
        found = []
        if prospects is not None:
            found = [Candidate(row, *prospects.victims(row)) for row in outlook.foreseen.tolist()]
        played = (self._played(row) for row, _ in self._open_by_bound())
        found += islice((candidate for candidate in played if candidate is not None), most)
        return sorted(found, key=self._candidates.worth)[:most]

    def refusals(self) -> Counter[Status]:
        """Return why each node that was looked at is no candidate."""
        found = Counter(self._refused)
        found[NO_VICTIMS] += self._outlook.empty
        for status, count in self._outlook.shut:
            found[status] += count
        return found

    def _played(self, row: int) -> Candidate | None:
        """Return the candidate that an open row is, if it is one; take note of what speaks against it."""
        try:
            played = self._candidates.play(self._attempt, row)
        except PluginError as mistake:
            self._mistake = self._mistake or mistake
            return None
        if isinstance(played, Candidate):
            return played
        self._refused[played] += 1
        return None

    def _foreseen(self) -> Candidate | None:
        """Return the best row of which the kernel knows all."""
        outlook, prospects = self._outlook, self._outlook.prospects
        if prospects is None or not len(outlook.foreseen):
            return None
        row = prospects.best(outlook.foreseen, self._candidates.places())
        if row < 0:
            return None
        victims, violations = prospects.victims(row)
        return Candidate(row, victims, violations)

    def _open_by_bound(self) -> Iterator[tuple[int, Bound]]:
        """Yield the open rows with lower bounds of their worth, ascending."""
        rows, prospects = self._outlook.open, self._outlook.prospects
        if not len(rows):
            return
        if prospects is None:
            for row in rows.tolist():
                yield row, (0, -WEIGHT, 0, 1)
            return
        harms, floors = prospects.floors(rows)
        fits = prospects.codes(rows) == 0
        harms[~fits], floors[~fits] = 0, -WEIGHT  # the kernel knows nothing there: a claim may be the pod's own
        places = self._candidates.places()[rows]
        for i in np.lexsort((places, floors, harms)).tolist():
            floor = int(floors[i])
            yield int(rows[i]), (int(harms[i]), floor, floor + WEIGHT, 1)


def _resolvable(diagnosis: Diagnosis) -> int:
    """Return how many nodes refuse the pod with Unschedulable."""
    if diagnosis.pre_filter is not None:
        return diagnosis.total_nodes if diagnosis.pre_filter.code is Code.UNSCHEDULABLE else 0
    return sum(refusal.nodes for refusal in diagnosis.refusals if refusal.status.code is Code.UNSCHEDULABLE)


def refusal_of(diagnosis: Diagnosis, statuses: Counter[Status]) -> Status:
    """Say of all nodes why preemption does not help there."""
    refusals = [Refusal(status, count) for status, count in statuses.items() if count]
    rest = diagnosis.total_nodes - sum(refusal.nodes for refusal in refusals)
    if rest > 0:
        refusals.append(Refusal(NOT_HELPFUL, rest))
    return unschedulable(fit_error(diagnosis.total_nodes, count_reasons(refusals)))
