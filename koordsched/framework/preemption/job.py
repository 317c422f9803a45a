"""The scope of several nodes: room for all pods of a job at once, or for none (coscheduling.md §8).

Where amounts decide about pods, the nodes are chosen for the fewest victims (`job_by_amounts`). Else, and where that finds nothing, pods
are placed one after the other, each on the first node, those with room first and then in the order of what making room there costs, that
would take it without its possible victims and beside the pods of the job that are there already. When all have a place, victims are put
back, the most important first and before them those that violate a disruption budget, as long as the pods of the job still fit.

The possible victims are those of the job's pod of the lowest priority: no pod gives way to one of its own priority or a lower one. Where
amounts alone decide about a class of equal pods, a node that refused one refuses the others, and how many it takes is a division; that
there is too little room for the whole job is then known without a simulation. Else every pod begins with the node that was asked last, and
all nodes are asked before it is given up: what a filter answers may depend on where the job's other pods went.

A job that has to be in one region, a domain of the network, is tried in one after the other; the one with the fewest victims is chosen.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.framework.pod_diagnosis import FailedNodes, names_of
from koordsched.framework.preemption.candidates import Released, refusal_of, refusal_with_nominated
from koordsched.framework.preemption.estimate import Preemptor, resolvable_nodes
from koordsched.framework.preemption.job_by_amounts import EXACT_PODS, AmountsClass, JobRoom, RoomByAmounts, importance
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals
from koordsched.framework.slots import pod_class
from koordsched.framework.status import Code, Status, unschedulable
from koordsched.log import get_logger
from koordsched.queue.nominator import takes_only_amounts

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.preemption.candidates import CandidateFinder
    from koordsched.framework.preemption.regions import Region
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.simulation import FitFilter

log = get_logger(__name__)

MOST_FOUND = 8
"""Regions with room that are compared where nodes have to be tried one after the other."""
MOST_ASKED = 5_000
"""Nodes that are asked there before it is left at the regions tried so far: half a second of the event loop."""


class Job(msgspec.Struct, frozen=True):
    """Pods that each need a node, in the order in which they are placed. The trigger is the one that failed, for what `diagnosis` says.

    regions: of which one has to take all pods, where costs are equal the first; None: pods go to any nodes.
    """

    trigger: PodInfo
    diagnosis: Diagnosis
    pods: Sequence[PodInfo]
    regions: Sequence[Region] | None = None


class _Class:
    """Pods of a job that are equal to filters, and the rows that come into question for them in order."""

    def __init__(self, preemptor: Preemptor, rows: Rows, fit: FitFilter | None) -> None:
        self.preemptor = preemptor
        self.possible = rows
        self.fit = fit
        self.pods: list[PodInfo] = []
        self._sorted: Rows = NO_ROWS  # in the order in which they are tried
        self._place: NDArray[np.int32] = NO_ROWS  # by row, in that order; -1 for rows that are not in it
        self.slots: Mapping[int, int] | None = None  # how many of them each row takes, where nothing else decides; None: other things may
        self.rows: list[int] = []  # that are tried now
        self.next = 0  # index of the row to begin with
        self.refused: dict[int, Status] = {}  # by row, what filters said of the last of the pods that was asked about there

    def of(self, pod: PodInfo) -> Preemptor:
        return self.preemptor._replace(pod=pod)

    def sort(self, rows: Rows, capacity: int) -> None:
        """Let these rows be tried, in this order. capacity: of rows."""
        self._sorted = rows
        self._place = np.full(capacity, -1, np.int32)
        self._place[rows] = np.arange(len(rows), dtype=np.int32)

    def try_in(self, region: Region | None) -> None:
        """Let only the rows of this region be tried from now on; None: all."""
        places = None if region is None else np.sort(self._place[region.rows])
        self.rows = (self._sorted if places is None else self._sorted[places[places >= 0]]).tolist()
        self.next = 0

    def begin(self, region: Region | None) -> None:
        """Let nothing be known of pods in a region tried before, and let only the rows of this one be tried."""
        self.refused = {}
        self.try_in(region)

    @property
    def room(self) -> int:
        """How many of the pods the rows that are tried now take at most, as far as slots say."""
        return len(self.pods) if self.slots is None else min(len(self.pods), sum(self.slots[row] for row in self.rows))


class _Place:
    """A node that pods of the job are placed on."""

    def __init__(self, node: NodeInfo, possible: Sequence[PodInfo]) -> None:
        self.node = node
        self.possible = possible  # victims
        self.members: list[tuple[_Class, PodInfo]] = []


class JobSearch:
    """The search for one job. Nothing awaits."""

    def __init__(self, handle: Handle, finder: CandidateFinder, job: Job) -> None:
        self._handle = handle
        self._finder = finder
        self._job = job
        self._cache = handle.cache
        self._weakest = min(job.pods, key=lambda pod: pod.priority)
        self._local = True  # whether what filters say of a node is the same whatever happens on other nodes
        self._places: dict[int, _Place] = {}  # by row
        self._placed: list[tuple[int, ExitStack]] = []  # for each pod that has a place, in their order, its row and what takes it back
        self._failing: _Class | None = None  # the class that there was no room for last
        self._asked = 0  # nodes

    def room(self) -> JobRoom | Status:
        """Return a place for every pod with the victims, or the refusal. Pods of the job must not be nominated. PluginError."""
        finder, job = self._finder, self._job
        if not finder.victims.any_below(self._weakest.priority):
            return self._refusal(0, finder.rules.no_victims)
        finder.victims.bring_up_to_date()
        classes = self._classes()
        to_release = finder.victims.to_release(job.pods)  # before anything is simulated
        if not to_release and (found := self._by_amounts(list(classes.values()))) is not None:
            return found
        for made in classes.values():
            self._sort_rows(made)
        best: JobRoom | Status | None = None
        regions = most = 0  # with room; pods that one without room takes
        for region in (None,) if job.regions is None else job.regions:
            count, made_room = self._room_in(region, classes, to_release)
            if isinstance(made_room, JobRoom):
                regions += 1
                if not isinstance(best, JobRoom) or made_room.rank < best.rank:
                    best = made_room
            elif best is None or (not isinstance(best, JobRoom) and count > most):
                best, most = made_room, count
            if regions == MOST_FOUND or self._asked > MOST_ASKED:
                break
        return self._refusal(0) if best is None else best

    def _room_in(
        self, region: Region | None, classes: Mapping[Hashable, _Class], to_release: Mapping[str, int]
    ) -> tuple[int, JobRoom | Status]:
        """Return for how many pods room can be made in the region, and a place for every pod or the refusal. PluginError."""
        self._failing = None
        for made in classes.values():
            made.begin(region)
            if made.room < len(made.pods):
                self._failing = made
                return made.room, self._refusal(made.room)
        try:
            count = self._fill(region, classes, len(self._job.pods))
            return count, self._refusal(count) if count < len(self._job.pods) else self._reprieve(to_release)
        finally:
            self._take_back(0)

    # Which rows come into question

    def _classes(self) -> dict[Hashable, _Class]:
        """Sort the pods into classes, each with the rows that have room for it or might have without some pods there."""
        classes: dict[Hashable, _Class] = {}
        for pod in self._job.pods:
            key = pod_class(pod)
            made = classes.get(key)
            if made is None:
                simulation = self._handle.simulation(pod)
                rows, fit = simulation.possible_rows(pod), simulation.fit_filter(pod)
                made = classes[key] = _Class(Preemptor(pod, self._job.diagnosis, simulation), rows, fit)
                self._local = self._local and simulation.local and takes_only_amounts(pod)
            made.pods.append(pod)
        return classes

    def _by_amounts(self, classes: Sequence[_Class]) -> JobRoom | None:
        job = self._job
        if not self._local or any(each.fit is None for each in classes):
            return None
        multiples = any(region.has_multiples for region in job.regions or ())
        if multiples and (len(classes) > 1 or len(job.pods) > EXACT_PODS):  # multiples are of all classes together
            return None
        found = [AmountsClass(each.preemptor, each.fit, each.possible, each.pods) for each in classes if each.fit is not None]
        return RoomByAmounts(self._handle, self._finder, self._weakest, found, job.regions).find()

    def _sort_rows(self, made: _Class) -> None:
        """Sort the rows by cost, those with room first, without those that amounts rule out."""
        finder, rows, fit = self._finder, made.possible, made.fit
        positions = finder.positions()
        if fit is None:
            keys: tuple[NDArray[np.generic], ...] = (positions[rows],)
        else:
            dry_run = finder.dry_run(self._weakest, fit.request)
            uncertain = np.array(self._handle.nominator.rows_beyond_amounts(), np.int32)  # it is wrong about what is nominated there
            certain = np.isin(rows, uncertain, invert=True)
            room = dry_run.slots(rows)
            possible = ~certain | (room > 0)
            if fit.alone and certain[possible].all():
                made.slots = dict(zip(rows[possible].tolist(), room[possible].tolist(), strict=True))
            rows = rows[possible]
            violations, highest, total, count, agents, age = dry_run.ranks(rows)
            keys = (positions[rows], age, agents, count, total, highest, violations, count > 0)
        made.sort(rows[np.lexsort(keys)], self._cache.table.capacity)

    # Placing

    def _fill(self, region: Region | None, classes: Mapping[Hashable, _Class], limit: int) -> int:
        """Place up to so many of the pods that have no place yet, as many as the multiples of the region allow. Return how many."""
        begin = len(self._placed)
        if region is not None and region.divided:
            for part in region.parts_or_rows():
                self._fill(part, classes, limit - (len(self._placed) - begin))
        else:
            for made in classes.values():
                made.try_in(region)
            for pod in self._job.pods[begin : begin + limit]:
                if not self._place(classes[pod_class(pod)], pod):
                    break
        while region is not None and region.has_multiples and not region.keeps_multiples(Counter(row for row, _ in self._placed[begin:])):
            self._take_back(len(self._placed) - 1)
        return len(self._placed) - begin

    def _place(self, pods: _Class, pod: PodInfo) -> bool:
        """Place the pod on the first row that takes it."""
        self._failing = pods
        for _ in range(len(pods.rows)):
            if pods.next == len(pods.rows):
                if pods.slots is not None:
                    return False
                pods.next = 0
            row = pods.rows[pods.next]
            if self._takes(pods, pod, row):
                return True
            pods.next += 1
        return False

    def _takes(self, pods: _Class, pod: PodInfo, row: int) -> bool:
        """Place the pod on this row if it fits there."""
        cache, place = self._cache, self._places.get(row)
        with ExitStack() as tried:
            if place is None:
                node = cache.infos[row]
                assert node is not None, "rows that refuse the pod hold a node"
                place = _Place(node, self._finder.victims.lower_on(self._weakest, row))
                tried.enter_context(cache.simulate(node, remove=place.possible))
            if not self._surely_takes(pods, place, row):
                self._asked += 1
                refusal = refusal_with_nominated(pods.of(pod), place.node, self._handle.nominator.ahead(pod, place.node.name))
                if refusal is not None:
                    pods.refused[row] = refusal
                    return False
            tried.enter_context(cache.simulate(place.node, add=[pod]))
            self._placed.append((row, tried.pop_all()))
        self._places[row] = place
        place.members.append((pods, pod))
        pods.refused.pop(row, None)
        return True

    def _take_back(self, count: int) -> None:
        """Take back the last pods that have a place, until so many are left."""
        while len(self._placed) > count:
            row, placed = self._placed.pop()
            placed.close()
            self._places[row].members.pop()
            if not self._places[row].members:
                del self._places[row]

    def _surely_takes(self, pods: _Class, place: _Place, row: int) -> bool:
        """Answer whether a division says that one more fits: the node has taken such pods, and no others. It is asked again at the end."""
        if pods.slots is None or not place.members or any(member is not pods for member, _ in place.members):
            return False
        return len(place.members) < pods.slots[row]

    # Putting back

    def _reprieve(self, to_release: Mapping[str, int]) -> JobRoom | Status:
        """Return the victims that cannot be put back. All pods of the job are placed, and all possible victims of these nodes removed."""
        finder, cache = self._finder, self._cache
        possible = [(pod, place) for place in self._places.values() for pod in place.possible]
        possible.sort(key=lambda pair: importance(pair[0]))
        released = Released(to_release, [pod for pod, _ in possible])
        if not released.enough:
            return self._refusal(len(self._job.pods), finder.rules.over_limit)
        violating = finder.budgets.violations([pod.pod for pod, _ in possible])
        victims: dict[str, list[tuple[int, PodInfo]]] = {}
        violations = 0
        with ExitStack() as reprieved:
            for i in sorted(range(len(possible)), key=lambda i: not violating[i]):
                pod, place = possible[i]
                if released.can_spare(pod):
                    with ExitStack() as tried:
                        tried.enter_context(cache.simulate(place.node, add=[pod]))
                        if self._all_fit(place):
                            reprieved.push(tried.pop_all())
                            released.put_back(pod)
                            continue
                victims.setdefault(place.node.name, []).append((i, pod))
                violations += violating[i]
            if not all(map(self._all_fit, self._places.values())):
                log.error("preemption foresaw room for a job that the filters do not see", pod=self._job.trigger.key)
                return self._refusal(0)
        nodes = {pod.uid: place.node.name for place in self._places.values() for _, pod in place.members}
        chosen = {name: [pod for _, pod in sorted(found, key=lambda pair: pair[0])] for name, found in victims.items()}
        return JobRoom(nodes, chosen, violations)

    def _all_fit(self, changed: _Place) -> bool:
        """Answer whether all pods of the job fit where they are, after one node has changed."""
        checked: set[tuple[_Class, str]] = set()
        for place in (changed,) if self._local else self._places.values():
            for pods, pod in place.members:
                if self._local or pods.slots is not None:  # one of equal pods, on the node that changed, speaks for all
                    if place is not changed or (pods, place.node.name) in checked:
                        continue
                    checked.add((pods, place.node.name))
                with self._cache.simulate(place.node, remove=[pod]):
                    ahead = self._handle.nominator.ahead(pod, place.node.name)
                    if refusal_with_nominated(pods.of(pod), place.node, ahead) is not None:
                        return False
        return True

    # Refusing

    def _refusal(self, count: int, everywhere: Status | None = None) -> Status:
        """Return that room can be made for so many pods only, and why each node takes no other; `everywhere`: one reason for all nodes.

        The text is the reference's, which has another one for regions: if there are victims, the number of pods says more than the nodes.
        """
        job, refused = self._job, [] if everywhere is not None else self._refusals()
        diagnosis, reasons = job.diagnosis, Counter({status: len(rows) for status, rows in refused})
        if everywhere is not None:
            reasons[everywhere] = resolvable_nodes(diagnosis)
        if diagnosis.preemption is not None:
            diagnosis.preemption.placed = count
            diagnosis.preemption.failed_nodes = [FailedNodes(status, names_of(rows, self._cache.infos)) for status, rows in refused]
        refusal = refusal_of(diagnosis.total_nodes, reasons, self._finder.rules)
        if job.regions is None or everywhere is not None:
            return refusal
        return unschedulable(f"room can be made for {count} of {len(job.pods)} pods: {refusal.message}")

    def _refusals(self) -> list[tuple[Status, Rows]]:
        """Return why each node takes no other pod of the class that there was no room for, without its possible victims."""
        failing = self._failing
        if failing is None:
            return []
        found = RowRefusals.of(failing.refused)
        if self._job.regions is not None:
            return found.groups()
        rest = np.setdiff1d(failing.possible, found.rows).astype(np.int32)
        if failing.fit is not None and len(rest):
            found = found.joined(self._short_of_amounts(failing, failing.fit, rest))
        groups = found.groups()
        known = np.concatenate((failing.possible, found.rows))
        for status, rows in self._job.diagnosis.rows_by_status():  # evictions change nothing there
            others = np.setdiff1d(rows, known).astype(np.int32) if status.code is Code.UNSCHEDULABLE else NO_ROWS
            if len(others):
                groups.append((status, others))
        return groups

    def _short_of_amounts(self, failing: _Class, fit: FitFilter, rows: Rows) -> RowRefusals:
        """Return what rows that were not asked are short of: those that have no room, and those that slots say are full."""
        pod, simulation = failing.preemptor.pod, failing.preemptor.simulation
        slots = failing.slots or {}
        placed = np.array([slots.get(row, 0) for row in rows.tolist()], np.int32)
        codes = self._finder.dry_run(self._weakest, fit.request).codes_beside(rows, placed)
        return RowRefusals.of_codes(rows[codes > 0], codes[codes > 0], partial(simulation.explain, fit.f, pod))
