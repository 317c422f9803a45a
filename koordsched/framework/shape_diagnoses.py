"""Why no node is feasible for a pod: the diagnosis of a shape, or of a pod that is restricted to some nodes.

A diagnosis is kept with its shape while the reasons stay the same, so that thousands of pods that fail alike cost one text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from koordsched.framework.diagnosis import Diagnosis, Refusal, counted
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.framework.shape import RestrictedFailure, ShapeKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.restriction import Restriction
    from koordsched.framework.row_refusals import RowRefusals, Rows
    from koordsched.framework.row_verdicts import FilterVerdicts, RowVerdicts
    from koordsched.framework.shape import Shape
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.framework.status import Status


class Diagnoses:
    """Makes the diagnoses of one profile. simulation: what `Shapes.simulation` is."""

    def __init__(self, cache: Cache, simulation: Callable[[Shape, FilterVerdicts | None], NodeSimulation]) -> None:
        self._cache = cache
        self._simulation = simulation

    def of_shape(self, shape: Shape, pod: PodInfo, overruled: RowRefusals) -> Diagnosis:
        """Return why no node is feasible for a filtered shape. overruled: feasible rows that only nominated pods keep from the pod."""
        if shape.diagnosis is not None and not len(overruled):
            return shape.diagnosis
        diagnosis = self.refusals(shape, _without_large_key(pod), overruled)
        shape.diagnosis = None if len(overruled) else diagnosis
        return diagnosis

    def refusals(self, shape: Shape, pod: PodInfo, overruled: RowRefusals) -> Diagnosis:
        """Return why PreFilter, filters and nominated pods refuse, whether or not that leaves a feasible node."""
        refusal, named = shape.pre_filtered.refusal, shape.pre_filtered.named
        total = self._cache.table.live_count
        if refusal is not None:
            diagnosis = Diagnosis.of_pre_filter(total, frozenset(named.keys() | {refusal.plugin} - {""}), refusal)
        else:
            diagnosis = self._diagnosis(shape, pod, shape.evaluation, overruled)
        diagnosis.simulation = self._simulation(shape, None)
        return diagnosis

    def of_restricted(
        self, shape: Shape, pod: PodInfo, restriction: Restriction, verdicts: RowVerdicts, overruled: RowRefusals = NO_REFUSALS
    ) -> Diagnosis:
        """Return why a restricted pod is refused: the same object as long as the reasons are the same, for pods of one key."""
        key = pod.shape
        kept = None if len(overruled) or not isinstance(key, ShapeKey) else shape.restricted
        if kept is not None and isinstance(key, ShapeKey):
            known = kept.get(key)
            if known is not None and known.repeats(restriction, verdicts, self._cache.table.live_count):
                return known.diagnosis
        diagnosis = self.refusals_restricted(shape, pod, restriction, verdicts, overruled)
        if not len(overruled) and isinstance(key, ShapeKey):
            if shape.restricted is None:
                shape.restricted = WeakKeyDictionary()
            shape.restricted[key] = RestrictedFailure(restriction, verdicts, diagnosis)
        return diagnosis

    def refusals_restricted(
        self, shape: Shape, pod: PodInfo, restriction: Restriction, verdicts: RowVerdicts, overruled: RowRefusals
    ) -> Diagnosis:
        """Return why a restricted pod is refused, whether or not that leaves a feasible node."""
        if isinstance(pod.shape, ShapeKey):
            pod = pod.with_pod(pod.pod)  # the shape holds the diagnosis by the pod's key, and the diagnosis the pod
            pod.shape = None
        total = self._cache.table.live_count
        if restriction.refusal is not None:
            plugins = restriction.plugins | {restriction.refusal.plugin} - {""}
            diagnosis = Diagnosis.of_pre_filter(total, frozenset(plugins), restriction.refusal)
        else:
            diagnosis = self._diagnosis(shape, pod, verdicts, overruled, restriction)
        diagnosis.simulation = self._simulation(shape, verdicts)
        return diagnosis

    def _diagnosis(
        self, shape: Shape, pod: PodInfo, verdicts: FilterVerdicts, overruled: RowRefusals, restriction: Restriction | None = None
    ) -> Diagnosis:
        """Return the diagnosis of a pod that PreFilter lets pass, restricted or not."""
        total = self._cache.table.live_count

        def status(f: int, code: int) -> Status:
            return shape.filters[f].explain(shape.state, pod, code).with_plugin(shape.filters[f].name)

        outside = None if restriction is None else restriction.status
        inside = frozenset() if restriction is None else frozenset(restriction.rows.tolist())

        def status_of(row: int) -> Status | None:
            if row in overruled:
                return overruled.get(row)
            if outside is not None and row not in inside:
                return outside
            f, code = verdicts.verdict(row)
            return None if f < 0 else status(f, code)

        def rows_by_status() -> list[tuple[Status, Rows]]:
            rows, filters, codes = verdicts.refusals()
            found = [(status(f, code), rows[(filters == f) & (codes == code)]) for f, code, _ in verdicts.histogram()]
            found += [(refusal, refused) for refusal, refused in overruled.groups() if len(refused)]
            if restriction is not None:
                others = np.setdiff1d(self._cache.table.live_rows(), restriction.rows, assume_unique=True)
                if len(others):
                    found.append((restriction.status.with_plugin(" ".join(sorted(restriction.plugins))), others))
            return found

        refusals = [Refusal(status(f, code), count) for f, code, count in verdicts.histogram()]
        refusals += counted(overruled)
        plugins = {refusal.status.plugin for refusal in refusals}
        if restriction is not None:
            if total > len(restriction.rows):
                refusals.append(Refusal(restriction.status, total - len(restriction.rows)))
            plugins |= restriction.plugins
        diagnosis = Diagnosis(total, frozenset(plugins), refusals, status_of)
        diagnosis.exceptions = overruled
        diagnosis.rows_by_status = rows_by_status
        return diagnosis


def _without_large_key(pod: PodInfo) -> PodInfo:
    """Return the pod for a diagnosis. The shape holds that, and that the pod: held with its key, the shape would outlive its pods."""
    if isinstance(pod.shape, ShapeKey) and pod.shape.is_large:
        pod = pod.with_pod(pod.pod)
        pod.shape = None
    return pod
