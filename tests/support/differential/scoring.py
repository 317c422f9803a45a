"""What each plugin adds to each node's total, worked out from raw scores by the definitions: a check of the columns, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.interface import Normalize
from koordsched.framework.shapes import Shape


class Score(NamedTuple):
    """One plugin's score of one node on its way into the total."""

    raw: int
    normalised: int
    weighted: int


def scores_of(cache: Cache, shape: Shape, pod: PodInfo, names: dict[int, str]) -> dict[str, dict[str, Score]]:
    """Work out from raw scores what each plugin adds to each total, one node at a time and by the definitions: a check of the columns."""
    rows = list(names)
    found: dict[str, dict[str, Score]] = {name: {} for name in names.values()}
    evaluation = shape.evaluation
    for s, (plugin, weight) in enumerate(shape.scorers):
        if not evaluation.is_enabled(s):
            continue
        raw = {row: evaluation.scores(row)[0][s] for row in rows}
        normalised = normalise(cache, (shape, s), pod, raw)
        for row, name in names.items():
            found[name][plugin.name] = Score(raw[row], normalised[row], weight * normalised[row])
    for row, name in names.items():
        total = sum(score.weighted for score in found[name].values())
        assert total == evaluation.scores(row)[1], f"{name}: plugins add up to {total}, the total is {evaluation.scores(row)[1]}"
    return found


def normalise(cache: Cache, scorer: tuple[Shape, int], pod: PodInfo, raw: dict[int, int]) -> dict[int, int]:
    """Normalise one scorer's raw scores (framework.md §5.3)."""
    shape, s = scorer
    plugin, largest = shape.scorers[s][0], max(raw.values())
    match plugin.normalize:
        case Normalize.NONE:
            return raw
        case Normalize.DEFAULT:
            return {row: 100 * score // largest if largest else 0 for row, score in raw.items()}
        case Normalize.DEFAULT_REVERSE:
            return {row: 100 - 100 * score // largest if largest else 100 for row, score in raw.items()}
    rows = np.array(list(raw), np.int32)
    nodes = cache.select(rows)
    scores = plugin.normalize_scores(shape.state, pod, nodes, np.array(list(raw.values()), np.int64))
    return dict(zip(raw, scores.tolist(), strict=True))
