"""Shape: what is known about one class of equal pods, and the key that such pods share. Written by `shapes` only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koordsched.framework.cycle_state import CycleState
from koordsched.framework.pre_filter import PreFiltered
from koordsched.framework.restriction import NO_KEYS
from koordsched.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Set as AbstractSet
    from weakref import WeakKeyDictionary

    from koordsched._core.evaluation import Evaluation
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.interface import FilterNodesPlugin, Plugin, ScoreNodesPlugin
    from koordsched.framework.restriction import Restriction, RestrictionKeys
    from koordsched.framework.row_verdicts import RowVerdicts
    from koordsched.metrics import CounterChild


class ShapeKey:
    """The identity of a shape: one object for equal signatures, so that looking it up hashes no strings."""

    __slots__ = ("__weakref__", "is_large", "parts", "reported", "shared", "without_amounts")

    def __init__(self, parts: tuple[Hashable, ...], *, is_large: bool = False) -> None:
        self.parts = parts
        self.is_large = is_large  # its pods name so much that nothing about them may be kept longer than they are
        self.reported: dict[int, str] = {}  # by priority: the message that the waiting pods of this shape have in their conditions
        self.shared: ShapeKey | None = None  # of columns that owners of credits share, while that may find a node for these pods
        self.without_amounts: ShapeKey | None = None  # of columns for pods that name a placeholder: `Shapes.named_row`


class RestrictedShapeKey(ShapeKey):
    """The identity of pods that are equal to others but for the nodes to which plugins restrict them.

    They share the columns of these others, and wait apart from them: what refuses them does not refuse the others.
    """

    __slots__ = ("columns", "error", "keys", "restriction")

    def __init__(self, columns: ShapeKey, keys: RestrictionKeys | Status) -> None:
        super().__init__(columns.parts, is_large=columns.is_large)
        self.columns = columns  # the key of the shape
        self.error = keys if isinstance(keys, Status) else None  # why a plugin cannot make sense of these pods
        self.keys = NO_KEYS if isinstance(keys, Status) else keys
        self.restriction: Restriction | None = None  # the last one that was found


def columns_key(key: Hashable) -> ShapeKey | None:
    """Return the key of the shape of pods with this key; None when these have no shape in common."""
    return key.columns if isinstance(key, RestrictedShapeKey) else key if isinstance(key, ShapeKey) else None


def signed_owner(key: ShapeKey) -> Hashable | None:
    """Return the owner of credits that a pod of this key was signed with. Its profile has a plugin that names owners."""
    return key.parts[-1]


class RestrictedFailure(NamedTuple):
    """Why the pods of a restricted key failed last."""

    restriction: Restriction
    verdicts: RowVerdicts
    diagnosis: Diagnosis

    def repeats(self, restriction: Restriction, verdicts: RowVerdicts, total_nodes: int) -> bool:
        """Answer whether such pods fail now for the same reasons."""
        return (
            self.diagnosis.total_nodes == total_nodes
            and self.restriction.plugins == restriction.plugins
            and self.restriction.refusal == restriction.refusal
            and self.verdicts == verdicts
        )


class Shape:
    """What is known about one class of equal pods."""

    __slots__ = (
        "apart",
        "credits",
        "custom",
        "decides",
        "diagnosis",
        "evaluated",
        "evaluation",
        "feasible_dependent",
        "filters",
        "named",
        "normalized",
        "owner",
        "pre_filtered",
        "pre_scored",
        "prepared",
        "restricted",
        "restriction",
        "score_skipped",
        "score_versioned",
        "score_versions",
        "scorers",
        "shared",
        "shown",
        "shown_rows",
        "stale_scores",
        "state",
        "versioned",
        "versions",
        "without_amounts",
    )

    def __init__(self, evaluation: Evaluation, scorers: list[tuple[ScoreNodesPlugin, int]]) -> None:
        self.evaluation = evaluation
        self.state = CycleState()

        self.owner: Hashable | None = None  # whose view of the nodes the columns are of (`Cache.view`); None: as they are
        self.credits = 0  # version of the owner's credits when the shape was prepared
        self.shared = False  # `owner` and `credits` are those of the last pod
        self.shown = 0  # of shared columns: `OwnerView.stamp` of the last pod's view
        self.shown_rows: list[int] = []  # ... the rows that it changed
        self.without_amounts = False  # as strangers see the nodes; without filters by amounts, and without that of the plugin of credits
        self.decides = False  # ... and no filter depends on other pods but by what a placeholder of amounts alone has no part in
        self.prepared = False  # PreFilter has run and the evaluation is configured
        self.versioned: list[Plugin] = []  # those of EvaluationPlan.versioned that have versions for such pods
        self.score_versioned: list[Plugin] = []
        self.versions: list[Hashable] = []  # of `versioned`, when they last answered PreFilter
        self.pre_filtered = PreFiltered()
        self.feasible_dependent: AbstractSet[str] = frozenset()  # scorers whose scores depend on which other nodes are feasible
        self.filters: list[FilterNodesPlugin] = []
        self.evaluated: list[CounterChild] = []  # of each filter: how many nodes it was asked about
        self.diagnosis: Diagnosis | None = None  # of the last failure, while no verdict has changed since

        self.restriction: Restriction | None = None  # of the pod that PreFilter was last answered for; None: all nodes
        self.named: Restriction | None = None  # to the nodes that PreFilter names, if it names any
        self.apart = 0  # rows that filters were asked about apart from the columns since these were last up to date
        self.restricted: WeakKeyDictionary[ShapeKey, RestrictedFailure] | None = None  # of restricted pods, by their keys

        self.pre_scored = False  # PreScore has run since the shape was prepared
        self.score_versions: list[Hashable] = []  # of `score_versioned`, when they last answered PreScore
        self.stale_scores: set[str] = set()  # plugins whose PreScore has to run again; their scores are forgotten already
        self.score_skipped: set[str] = set()  # plugins whose Score is off
        self.scorers = scorers
        self.custom: list[int] = []  # scorers that take part and normalise by themselves
        self.normalized = False  # custom normalisations are true for the feasible rows and their raw scores

    @property
    def feasible_count(self) -> int:
        return 0 if self.pre_filtered.refusal is not None else self.evaluation.feasible_count
