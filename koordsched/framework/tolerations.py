"""Taints and tolerations (framework.md §10.1). The rule that matches them is that of `_core.tolerance`, for one node and for all.

A compiled list of tolerations keeps a verdict per taint set, and nodes have few distinct taint sets, so asking about a node is a gather.
Taint sets are learned from `Columns` when they appear; verdicts only ever grow, so pods may share them. Callers: TaintToleration,
NodeUnschedulable and PodTopologySpread (nodeTaintsPolicy).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from koordsched._core.tolerance import Effect, Operator, TaintSets, Tolerance
from koordsched.api.core import Taint
from koordsched.cache.columns import CORDON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Toleration
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns
    from koordsched.framework.cycle_state import CycleState

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""A pod that tolerates this taint may go to a cordoned node."""

NO_TAINT_HAS = -1  # the id of a text that is in no taint

LONG_LIST = 64  # longer lists of tolerations are compiled each time
KEPT_LISTS = 1024  # compiled lists of tolerations; each takes 12 bytes a taint set

_EFFECTS = {NO_SCHEDULE: Effect.REFUSES, NO_EXECUTE: Effect.REFUSES, PREFER_NO_SCHEDULE: Effect.REPELS}
_OPERATORS = {"": Operator.EQUAL, "Equal": Operator.EQUAL, "Exists": Operator.EXISTS}  # Gt and Lt need a gate that is off: never


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that is not tolerated. For the taints of one node, which need not be in a table."""
    refusing = [taint for taint in taints if _EFFECTS.get(taint.effect) is Effect.REFUSES]
    if not refusing:
        return None
    interned = _InternedTaints()
    for taint in refusing:
        interned.add(taint, Effect.REFUSES)
    interned.sets.add_set(range(len(refusing)))
    refused = interned.compile(tolerations).refused_by(0)
    return refusing[refused - 1] if refused else None


class _InternedTaints:
    """Taints and sets of them as numbers, and tolerations compiled against them."""

    def __init__(self) -> None:
        self.sets = TaintSets()
        self.ids: dict[str, int] = {"": 0}  # every key, value and effect of a taint

    def add(self, taint: Taint, effect: Effect) -> None:
        key, value, effect_id = (self.ids.setdefault(text, len(self.ids)) for text in (taint.key, taint.value, taint.effect))
        self.sets.add_taint(key, value, effect_id, effect)

    def compile(self, tolerations: Iterable[Toleration]) -> Tolerance:
        return Tolerance(self.sets, [self._entry(toleration) for toleration in tolerations])

    def _entry(self, toleration: Toleration) -> tuple[int, Operator, int, int]:
        operator = _OPERATORS.get(toleration.operator, Operator.NEVER)
        ids = self.ids  # only texts of taints have one: pods may bring any tolerations
        key, value, effect = (ids.get(text, NO_TAINT_HAS) for text in (toleration.key, toleration.value, toleration.effect))
        return key, operator, value, effect


def tolerances_of(columns: Columns) -> Tolerances:
    """Return the compiler for a node table: one for all plugins, so that a list of tolerations is compiled once."""
    return columns.shared.one(Tolerances, lambda: Tolerances(columns))


class Tolerances:
    """Compiles lists of tolerations against the taint sets of a node table, and keeps the last used ones."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.version = 0  # what was compiled before it changed must be compiled anew
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._meanings = self._columns.meanings
        self._taints = _InternedTaints()
        self._compiled = lru_cache(maxsize=KEPT_LISTS)(self._taints.compile)
        self.cordons = False  # whether any node is cordoned, or was not long ago, as far as `refresh` knows
        self.repels = False  # whether any node has a PreferNoSchedule taint, or had one not long ago
        self._renew()

    def _renew(self) -> None:
        self._compiled.cache_clear()
        self.version += 1

    def compile(self, tolerations: tuple[Toleration, ...]) -> Tolerance:
        """Return the compiled tolerations, up to date with all taints; true for this `version` only."""
        self.refresh()
        return self._taints.compile(tolerations) if len(tolerations) > LONG_LIST else self._compiled(tolerations)

    def refresh(self) -> None:
        """Learn the taint sets that appeared since; O(1) when there are none."""
        if self._meanings != self._columns.meanings:
            self._begin_anew()
        if self._taints.sets.sets < len(self._columns.taint_sets):
            self._learn()

    def _learn(self) -> None:
        taints = self._taints
        texts = len(taints.ids)
        for taint in self._columns.taints.names[taints.sets.taints :]:
            if taint.key == CORDON.key:
                taints.add(UNSCHEDULABLE_TAINT, Effect.CORDONS)
                self.cordons = True
            else:
                taints.add(taint, _EFFECTS.get(taint.effect, Effect.NOTHING))
                self.repels = self.repels or taint.effect == PREFER_NO_SCHEDULE
        for members in self._columns.taint_sets.names[taints.sets.sets :]:
            taints.sets.add_set(members)
        if len(taints.ids) > texts:
            self._renew()


def compiled_for(state: CycleState, name: str, tolerances: Tolerances, pod: PodInfo) -> Tolerance:
    """Return the pod's compiled tolerations, kept in the state of its cycle under this name."""
    tolerances.refresh()
    found: tuple[int, Tolerance] | None = state.read(name)
    if found is None or found[0] != tolerances.version:
        found = (tolerances.version, tolerances.compile(pod.pod.spec.tolerations))
        state.write(name, found)
    return found[1]
