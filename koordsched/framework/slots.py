"""Slots: how many pods of a class each node takes, one beside the other, known of all nodes at once (coscheduling.md §17).

For a group that has to be placed as a whole. Filters say which nodes take a first pod; how many more these take amounts say. Where only
amounts decide (`exact`) these are the true numbers, else upper bounds: what CPUs, devices, spreading and the like leave of them shows when
the pods are placed. All nodes together may take too few (`SlotCounter.shortage`): that is certain but for filters that pods which come may
move to let others pass, such as affinity to pods of the same group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from koordsched._core.fit import fit_after, fit_slots
from koordsched.framework.row_refusals import NO_REFUSALS, NO_ROWS, RowRefusals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from numpy.typing import NDArray

    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.shape import Shape
    from koordsched.framework.shapes import Shapes
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.queue.nominator import Nominator


def pod_class(pod: PodInfo) -> Hashable:
    """Return what pods of equal slots have in common."""
    return pod.uid if pod.shape is None else (pod.shape, pod.priority)


class NodeSlots(msgspec.Struct, frozen=True, eq=False):
    """How many pods like this one nodes take. rows: those that pass the pod's filters, ascending; slots: of each.

    exact: no more and no less, else no more. request: what each pod takes of a row; None where that does not say what is left for others.
    short_of: why nodes take fewer than so many, as of when it is asked.
    """

    pod: PodInfo
    refused: Diagnosis  # of all other rows; `pre_filter` is set when the pod is refused whatever the node
    short_of: Callable[[int], Diagnosis]
    rows: Rows = NO_ROWS
    slots: NDArray[np.int32] = NO_ROWS
    exact: bool = False
    request: Request | None = None
    simulation: NodeSimulation | None = None


class Shortage(NamedTuple):
    """All nodes together take so many pods of a class and no more. diagnose: why no node takes one beside them; to be asked at once."""

    slots: int
    diagnose: Callable[[], Diagnosis]


class SlotCounter:
    """Counts the slots of all nodes for pods of one profile."""

    def __init__(self, shapes: Shapes, cache: Cache, nominator: Nominator) -> None:
        self._shapes = shapes
        self._cache = cache
        self._nominator = nominator

    def shortage(self, pod: PodInfo, wanted: int, group: Collection[str], helped: Collection[str]) -> Shortage | None:
        """Return that all nodes together take fewer than so many pods like this one; None: they may take as many. PluginError.

        group: as of `count`. helped: the plugins that may let a pod pass once others have come (`Profile.helped_by_arrivals`).
        O(nodes whose facts have changed) where enough nodes take one pod each, as a rule.
        """
        with self._shapes.view(pod):
            return self._shortage(pod, wanted, group, helped)

    def _shortage(self, pod: PodInfo, wanted: int, group: Collection[str], helped: Collection[str]) -> Shortage | None:
        shapes, table = self._shapes, self._cache.table
        shape = shapes.pre_filter(pod)
        restriction, found = shape.restriction, None
        if shape.pre_filtered.refusal is not None:
            refused = shapes.diagnoses.refusals(shape, pod, NO_REFUSALS)
            return None if refused.plugins.intersection(helped) else Shortage(0, lambda: refused)
        if restriction is not None:
            found = shapes.filter_restricted(shape, pod, restriction)
        feasible = shapes.filter(shape, pod) if found is None else len(found.feasible)
        if feasible >= wanted and not len(self._nominator):
            return None
        verdicts: FilterVerdicts = shape.evaluation if found is None else found
        if any(plugin.name in helped for plugin in shape.filters):  # as a rule none of these runs for the pod
            refusing = {shape.filters[f].name for f, _, _ in verdicts.histogram()}
            if not refusing.isdisjoint(helped):
                return None
        request: Request | None = None
        rows, slots, total, by = verdicts.feasible_rows(), NO_ROWS, 0, 0
        if feasible:
            requests = [(f, plugin.fit_request(shape.state, pod)) for f, plugin in enumerate(shape.filters)]
            by, request = next((pair for pair in requests if pair[1] is not None), (0, None))
            if request is None or shape.filters[by].name in helped:
                return None
            slots = fit_slots(table, request, rows, wanted)
            if len(self._nominator):
                self._keep_room(pod, request, rows, slots, group)
            total = int(slots.sum())
            if total >= wanted:
                return None
            if len(self._nominator) and not fit_after(table, request, rows, slots).all():
                return None  # nominated pods keep the room, and why is not known here

        def diagnose() -> Diagnosis:
            with shapes.view(pod):
                codes = NO_ROWS if request is None else fit_after(table, request, rows, slots)
                few = RowRefusals.of_codes(rows, codes, partial(shapes.simulation(shape, verdicts).explain, by, pod))
                if found is None or restriction is None:
                    return shapes.diagnoses.refusals(shape, pod, few)
                return shapes.diagnoses.refusals_restricted(shape, pod, restriction, found, few)

        return Shortage(total, diagnose)

    def count(self, pod: PodInfo, most: int, group: Collection[str]) -> NodeSlots:
        """Count the slots for pods like this one, at most so many a node; O(nodes whose facts have changed). PluginError.

        Room is kept for nominated pods of the pod's priority or a higher one, but for those of the group (uids).
        """
        with self._shapes.view(pod):
            return self._count(pod, most, group)

    def _count(self, pod: PodInfo, most: int, group: Collection[str]) -> NodeSlots:
        shapes, table = self._shapes, self._cache.table
        shape, short_of = shapes.pre_filter(pod), partial(self._short_of, pod, group)
        if shape.pre_filtered.refusal is not None:
            return NodeSlots(pod, shapes.diagnoses.refusals(shape, pod, NO_REFUSALS), short_of)
        verdicts, refused = self._filtered(shape, pod)
        rows = verdicts.feasible_rows()
        requests = (plugin.fit_request(shape.state, pod) for plugin in shape.filters)
        request = next((request for request in requests if request is not None), None)
        simulation = shapes.simulation(shape, verdicts)
        if request is None:
            return NodeSlots(pod, refused(NO_REFUSALS), short_of, rows, np.full(len(rows), most, np.int32), simulation=simulation)
        slots = fit_slots(table, request, rows, most)
        if len(self._nominator):
            self._keep_room(pod, request, rows, slots, group)
        fit = simulation.fit_filter(pod)
        exact = fit is not None and fit.alone
        return NodeSlots(pod, refused(NO_REFUSALS), short_of, rows, slots, exact, None if fit is None else request, simulation)

    def _short_of(self, pod: PodInfo, group: Collection[str], wanted: int) -> Diagnosis:
        """Return why nodes take fewer than so many pods like this one; of those with slots, which amounts are lacking. PluginError."""
        with self._shapes.view(pod):
            found = self._count(pod, wanted, group)
            few = found.slots < wanted
            if found.request is None or found.simulation is None or not few.any():
                return found.refused
            fit = found.simulation.fit_filter(pod)
            assert fit is not None, "else there is no request"
            rows, codes = found.rows[few], fit_after(self._cache.table, fit.request, found.rows[few], found.slots[few])
            lacking = codes != 0  # else a nominated pod or another filter takes the rest
            short = RowRefusals.of_codes(rows[lacking], codes[lacking], partial(found.simulation.explain, fit.f, pod))
            return self._filtered(self._shapes.pre_filter(pod), pod)[1](short)

    def _filtered(self, shape: Shape, pod: PodInfo) -> tuple[FilterVerdicts, Callable[[RowRefusals], Diagnosis]]:
        """Return what the filters say of nodes, and what makes the diagnosis of that and of further refusals."""
        shapes, restriction = self._shapes, shape.restriction
        if restriction is None:
            shapes.filter(shape, pod)
            return shape.evaluation, partial(shapes.diagnoses.refusals, shape, pod)
        found = shapes.filter_restricted(shape, pod, restriction)
        return found, partial(shapes.diagnoses.refusals_restricted, shape, pod, restriction, found)

    def _keep_room(self, pod: PodInfo, request: Request, rows: Rows, slots: NDArray[np.int32], group: Collection[str]) -> None:
        """Take from the slots what nominated pods need."""
        nominated = np.intersect1d(rows, self._nominator.by_row().nonempty_rows())
        for row, place in zip(nominated.tolist(), np.searchsorted(rows, nominated).tolist(), strict=True):
            node = self._cache.infos[row]
            others = [] if node is None else [other for other in self._nominator.ahead(pod, node.name) if other.uid not in group]
            if node is not None and others:
                with self._cache.simulate(node, add=others):
                    slots[place] = fit_slots(self._cache.table, request, rows[place : place + 1], int(slots[place]))[0]
