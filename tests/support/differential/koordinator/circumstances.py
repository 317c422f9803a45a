"""A case that differs, as the rules see it that know what differs deliberately."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from support.differential.choosing import Json
from support.differential.ours import Judgement
from support.differential.reference import Decision


class Circumstances(NamedTuple):
    """A case that differs: what was on the cluster, the pod, both answers, and the annotations that the pod got from each."""

    config: Json
    objects: Sequence[Json]
    pod: Json
    theirs: Decision
    ours: Judgement
    got: Mapping[str, str]
    given: Mapping[str, str]
    differences: Sequence[str]

    def feasible(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the nodes that were feasible for the reference, and for ours; a single one is not scored."""
        theirs = frozenset(self.theirs.scores) or frozenset({self.theirs.node} - {""})
        return theirs, frozenset(self.ours.scores) or frozenset(self.ours.best)


Rule: TypeAlias = Callable[[Circumstances], bool]
