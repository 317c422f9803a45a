"""Selection: which node a pod goes to (framework.md §5), or why to none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.row_refusals import NO_REFUSALS, NO_ROWS, RowRefusals
from koordsched.framework.sampling import Sampler, nodes_to_find

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.profile import Profile
    from koordsched.framework.shapes import Shape
    from koordsched.framework.simulation import FitFilter, NodeSimulation
    from koordsched.queue.nominator import Nominator


class View(NamedTuple):
    """What a pod's shape says of the nodes at one moment; it is not to be used after an await."""

    shape: Shape
    overruled: RowRefusals  # what only nominated pods keep from being feasible
    nominated: int | None  # row of the node that was made free for the pod, if the pod fits there

    @property
    def hopeless(self) -> bool:
        """Whether no node is feasible."""
        return self.nominated is None and self.shape.feasible_count <= len(self.overruled)

    def allows(self, row: int) -> bool:
        """Answer whether the pod may go to this row."""
        if row == self.nominated:
            return True
        return row not in self.overruled and self.shape.feasible_count > 0 and self.shape.evaluation.is_feasible(row)


class Selection:
    """Finds nodes for pods. Reads the cache as it is: nothing may await between finding and assuming."""

    def __init__(self, cache: Cache, nominator: Nominator, random: random.Random, percentage_of_nodes_to_score: int) -> None:
        self._cache = cache
        self._nominator = nominator
        self._random = random
        self._percentage = percentage_of_nodes_to_score
        self._sampler = Sampler(cache)

    def find(self, profile: Profile, pod: PodInfo) -> tuple[CycleState, str | Diagnosis]:
        """Return the cycle's state with the node's name, or with the reasons why there is none. PluginError when a plugin failed."""
        watch = profile.watch
        shape = profile.shapes.pre_filter(pod)
        profile.shapes.filter(shape, pod)
        watch.filtered_at = watch.perf() if shape.pre_filtered.refusal is None else 0.0
        outcome = self._choose(profile, shape, pod)
        state = shape.state.clone()
        if watch.recording:
            state.sampled = True
        return state, outcome

    def _choose(self, profile: Profile, shape: Shape, pod: PodInfo) -> str | Diagnosis:
        if self._cache.table.live_count == 0:
            return Diagnosis.without_nodes()
        overruled = NO_REFUSALS
        if len(self._nominator) or pod.pod.status.nominated_node_name:
            nominated = self._nominated_row(profile, shape, pod)
            if nominated is not None:
                return self.name(nominated)
            overruled = self._overruled(profile, shape, pod)
        if shape.feasible_count <= len(overruled):
            return profile.shapes.diagnose(shape, pod, overruled)
        return self.name(self._best(profile, shape, pod, overruled))

    def name(self, row: int) -> str:
        """Return the name of the row's node."""
        info = self._cache.infos[row]
        if info is None:
            raise LookupError(f"row {row} was chosen but holds no node")
        return info.name

    def _overruled(self, profile: Profile, shape: Shape, pod: PodInfo) -> RowRefusals:
        """Ask again about the nodes where pods of at least this priority are nominated, as if those were there already."""
        rows = shape.evaluation.feasible_among(self._nominator.by_row().nonempty_rows()) if shape.feasible_count else NO_ROWS
        if not len(rows):
            return NO_REFUSALS
        simulation = profile.shapes.simulation(shape)
        fit = simulation.fit_filter(pod)
        if fit is None:
            return self._refused_each(simulation, pod, rows)
        beyond_amounts = self._nominator.rows_beyond_amounts()
        odd = np.isin(rows, beyond_amounts) if beyond_amounts else np.zeros(len(rows), np.bool_)
        short = self._short_of_room(simulation, pod, fit, rows[~odd])
        left = rows[odd] if fit.alone else np.setdiff1d(rows, short.rows, assume_unique=True)
        return short.joined(self._refused_each(simulation, pod, left)) if len(left) else short

    def _short_of_room(self, simulation: NodeSimulation, pod: PodInfo, fit: FitFilter, rows: NDArray[np.int32]) -> RowRefusals:
        """Say where there is no room beside the nominated pods, for all rows at once: these pods take nothing but room."""
        codes = self._nominator.shortages(rows, pod, fit.request)
        short = codes != 0
        return RowRefusals.of_codes(rows[short], codes[short], partial(simulation.explain, fit.f, pod))

    def _refused_each(self, simulation: NodeSimulation, pod: PodInfo, rows: NDArray[np.int32]) -> RowRefusals:
        """Ask all filters about each row: amounts do not tell everything."""
        found = {}
        for row in rows.tolist():
            node = self._cache.infos[row]
            others = [] if node is None else self._nominator.ahead(pod, node.name)
            refusal = simulation.simulate_on_node(pod, node, add=others) if others and node is not None else None
            if refusal is not None:
                found[row] = refusal
        return RowRefusals.of(found)

    def _nominated_row(self, profile: Profile, shape: Shape, pod: PodInfo) -> int | None:
        """Return the row of the node that was made free for this pod, if the pod fits there: it is then the only candidate.

        Even if PreFilter names other nodes: what they were named for may be what was made free (framework.md §5.1.4).
        """
        name = pod.pod.status.nominated_node_name or (self._nominator.node_of(pod.uid) if len(self._nominator) else "")
        node = self._cache.node(name) if name else None
        if node is None or shape.pre_filtered.refusal is not None:
            return None
        restricted = shape.pre_filtered.node_names is not None and name not in shape.pre_filtered.node_names
        if not restricted and not shape.evaluation.is_feasible(node.row):
            return None
        others = self._nominator.ahead(pod, name)
        if not others and not restricted:
            return node.row
        simulation = profile.shapes.simulation(shape)
        if others and simulation.simulate_on_node(pod, node, add=others) is not None:
            return None
        return node.row if simulation.filter_node(pod, node) is None else None

    def _best(self, profile: Profile, shape: Shape, pod: PodInfo, overruled: RowRefusals) -> int:
        """Return a row with the highest total, one of several by chance. A single feasible node is taken without scoring."""
        evaluation = shape.evaluation
        if len(overruled):
            profile.shapes.overrule(shape, overruled.rows)
        try:
            wanted = nodes_to_find(self._cache.table.live_count, self._share(profile))
            if wanted is not None:
                return self._sampler.choose(profile, shape, pod, (wanted, self._random))
            if evaluation.feasible_count == 1:
                return int(evaluation.feasible_rows()[0])
            profile.shapes.pre_score(shape, pod)
            profile.shapes.score(shape, pod)
            best, ties = evaluation.best()
            return evaluation.pick(best, self._random.randrange(ties) if ties > 1 else 0)
        finally:
            if len(overruled):
                profile.shapes.reinstate(shape, overruled.rows)

    # In parts, for who asks somebody else in between (`extenders.search`)

    def look(self, profile: Profile, pod: PodInfo) -> View:
        """Return what is true of the nodes now. PluginError when a plugin failed."""
        shape = profile.shapes.pre_filter(pod)
        profile.shapes.filter(shape, pod)
        overruled = self._overruled(profile, shape, pod) if len(self._nominator) else NO_REFUSALS
        return View(shape, overruled, self._nominated_row(profile, shape, pod))

    def sample(self, profile: Profile, view: View) -> NDArray[np.int32]:
        """Return the rows among which the pod's may be chosen: all feasible ones, or as many as the operator wants looked at."""
        wanted = nodes_to_find(self._cache.table.live_count, self._share(profile))
        rows = view.shape.evaluation.feasible_rows() if wanted is None else self._sampler.sample(view.shape, wanted)
        return np.setdiff1d(rows, view.overruled.rows, assume_unique=True) if len(view.overruled) else rows

    def best_among(self, profile: Profile, pod: PodInfo, view: View, bonus: Mapping[int, int]) -> int:
        """Return the row whose total with its bonus is highest, one of several by chance. Rows not in bonus count as not feasible."""
        evaluation = view.shape.evaluation
        others = np.setdiff1d(evaluation.feasible_rows(), np.array(list(bonus), np.int32))
        if len(others):
            profile.shapes.overrule(view.shape, others)
        try:
            profile.shapes.pre_score(view.shape, pod)
            profile.shapes.score(view.shape, pod)
            totals = {row: evaluation.scores(row)[1] + extra for row, extra in bonus.items()}
        finally:
            if len(others):
                profile.shapes.reinstate(view.shape, others)
        highest = max(totals.values())
        best = sorted(row for row, total in totals.items() if total == highest)
        return best[self._random.randrange(len(best))] if len(best) > 1 else best[0]

    def _share(self, profile: Profile) -> int:
        own = profile.percentage_of_nodes_to_score
        return self._percentage if own is None else own
