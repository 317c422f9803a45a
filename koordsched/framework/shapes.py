"""Shapes: filter and score columns per class of equal pods, kept exact by asking only about rows that changed.

What they are for: docs/architecture.md "The hot path".

Pods whose signatures are equal share a `Shape`. It keeps what PreFilter prepared, each filter's code and each scorer's raw score for every
node, and the totals (`_core.Evaluation`). Before it is used it is brought up to date with the node table's change log and the versions that
plugins name, so the result is that of asking every plugin about every node; a property test holds this (tests/property/test_shapes.py).
Called by the scheduling cycle, and by the queue's probes. Nothing awaits. Parts: `shape` (what is known),
`shapes_kept` (which are kept), `shapes_filtering`, `shapes_scoring`, `shapes_reasons`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched.framework.interface import UNSIGNABLE
from koordsched.framework.row_refusals import NO_REFUSALS, RowRefusals, Rows
from koordsched.framework.shape import Shape, ShapeKey
from koordsched.framework.shapes_filtering import Filtering
from koordsched.framework.shapes_kept import DEFAULT_BUDGET, KeptShapes
from koordsched.framework.shapes_reasons import diagnose
from koordsched.framework.shapes_scoring import Scoring
from koordsched.framework.stopwatch import Stopwatch, unwatched
from koordsched.framework.what_if import WhatIf
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.plan import Plan
    from koordsched.framework.what_if import Supposition

__all__ = ["Shape", "ShapeKey", "Shapes"]

log = get_logger(__name__)


class Shapes:
    """The shapes of one profile. budget: about how many bytes they may take."""

    def __init__(self, plan: Plan, cache: Cache, budget: int = DEFAULT_BUDGET, watch: Stopwatch | None = None) -> None:
        self._plan = plan
        self._watch = watch = watch or unwatched()
        self._cache = cache
        self._filtering = Filtering(plan, cache, watch)
        self._scoring = Scoring(plan, cache, watch)
        self._what_if = WhatIf(plan, cache)
        self._scratch = Scratch()
        self._kept = KeptShapes(budget)
        cache.columns.call_when_renewed(self._kept.clear)
        self._keys: WeakValueDictionary[tuple[Hashable, ...], ShapeKey] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._kept)

    def key(self, pod: PodInfo) -> ShapeKey | None:
        """Return the pod's shape key: the same object for pods that every plugin treats alike; None when a plugin does not sign."""
        parts = self._plan.sign(pod)
        found = self._keys.get(parts)
        if found is None:
            if UNSIGNABLE in parts:
                return None
            found = self._keys[parts] = ShapeKey(parts, is_large=pod.names_much)
        return found

    # Choosing

    def find(self, pod: PodInfo) -> Shape:
        """Return the pod's shape with PreFilter and Filter answered for the node table as it is now. PluginError when a plugin failed."""
        shape = self._shape(pod)
        try:
            if self._filtering.update(shape, pod):
                self._scoring.feasible_changed(shape)
        except BaseException:
            shape.prepared = False  # whatever is half done is done again
            raise
        return shape

    def rank(self, shape: Shape, pod: PodInfo) -> None:
        """Run PreScore and Score, so that the totals of all feasible nodes are up to date. PluginError when a plugin failed."""
        try:
            self._scoring.rank(shape, pod)
        except BaseException:
            shape.prepared = False
            raise
        self._watch.ranked = True

    def overrule(self, shape: Shape, rows: Rows) -> None:
        """Leave these feasible rows out of ranking until `reinstate`."""
        shape.evaluation.overrule(rows)
        self._scoring.feasible_changed(shape)

    def reinstate(self, shape: Shape, rows: Rows) -> None:
        """Undo `overrule`."""
        shape.evaluation.reinstate(rows)
        self._scoring.feasible_changed(shape)

    def suppose(self, shape: Shape) -> Supposition:
        """Return what asks the filters about single nodes in a supposed world."""
        return self._what_if.about(shape)

    # Probing

    def why_infeasible(self, pod: PodInfo) -> Diagnosis | None:
        """Return why no node passes all filters now, nominated pods aside. None when one does, or a plugin fails: an attempt tells then."""
        try:
            shape = self.find(pod)
            return shape.diagnosis or (None if shape.feasible_count else self.diagnose(shape, pod, NO_REFUSALS))
        except Exception:
            log.exception("could not tell whether a waiting pod would fit", pod=pod.key)
            return None

    def unchanged_diagnosis(self, pod: PodInfo) -> Diagnosis | None:
        """Return why the pod's shape failed, if it did and no node's verdict has changed since."""
        shape = self._kept.peek(pod.shape) if isinstance(pod.shape, ShapeKey) else None
        if shape is None or shape.diagnosis is None:
            return None
        try:
            return self.find(pod).diagnosis
        except Exception:
            log.exception("could not tell whether a waiting pod's reasons changed", pod=pod.key)
            return None

    # Why not

    def diagnose(self, shape: Shape, pod: PodInfo, overruled: RowRefusals) -> Diagnosis:
        """Return why no node is feasible. overruled: what only nominated pods keep from it."""
        if shape.diagnosis is not None and not len(overruled):
            return shape.diagnosis
        if isinstance(pod.shape, ShapeKey) and pod.shape.is_large:
            # The diagnosis holds the pod, and the shape the diagnosis. Held with its key, the shape would outlive its pods.
            pod = pod.with_pod(pod.pod)
            pod.shape = None
        diagnosis = diagnose(shape, pod, overruled, self._cache.table.live_count)
        diagnosis.supposing = self.suppose(shape)
        shape.diagnosis = None if len(overruled) else diagnosis
        return diagnosis

    # Which shape

    def _shape(self, pod: PodInfo) -> Shape:
        key = pod.shape
        if not isinstance(key, ShapeKey):
            return self._new_shape()  # not signed: a shape of its own, not kept
        shape = self._kept.use(key)
        if shape is None:
            self._kept.make_room()
            shape = self._new_shape()
            self._kept.add(key, shape)
        return shape

    def _new_shape(self) -> Shape:
        evaluation = self._kept.spare() or Evaluation(self._cache.table, self._scratch)
        return Shape(evaluation, self._plan.scorers)
