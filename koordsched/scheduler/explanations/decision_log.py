"""DecisionLog: the scores of the best nodes as a table, and what filters refuse, for operators who watch decisions (frameworkext.md §4.4).

Both are read from the columns of the search at its end. Of the refusals, one line a node, only names are taken there; the lines are written
later. The texts are Koordinator's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.config.extension_points import FILTER
from koordsched.framework.pod_diagnosis import FailedNodes, names_of
from koordsched.log import Verbatim, get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.shapes import Shape, Shapes
    from koordsched.scheduler.explanations.log_queue import LogQueue
    from koordsched.scheduler.explanations.switches import DebugSwitches

log = get_logger(__name__)


class SearchRecord(msgspec.Struct):
    """What one search found: the nodes that filters refuse, and what each plugin gives the others, weighted, in the order of `nodes`.

    No scores where fewer than two nodes take the pod.
    """

    failed_nodes: Sequence[FailedNodes] = ()
    nodes: Sequence[str] = ()
    scores: Sequence[tuple[str, NDArray[np.int64]]] = ()


class DecisionLog:
    """Writes what a search found, or keeps it. `switches` say whether it is asked at all."""

    def __init__(self, switches: DebugSwitches, cache: Cache, queue: LogQueue) -> None:
        self.switches = switches
        self.queue = queue  # of refusals
        self.kept: dict[str, SearchRecord] | None = None  # by pod key, the last one: where they are kept, and not written
        self._cache = cache

    def filtered(self, pod: PodInfo, diagnosis: Diagnosis) -> None:
        """Log each node that a filter refused, the nodes that nominated pods keep from the pod among them."""
        failed = [FailedNodes(status, names_of(rows, self._cache.infos)) for status, rows in diagnosis.rows_by_status()]
        if self.kept is not None:
            self.kept[pod.key] = SearchRecord(failed)
        elif failed:
            self.queue.put(pod.key, lambda: refusal_lines(pod.key, failed))

    def scored(self, shapes: Shapes, shape: Shape, pod: PodInfo, rows: Rows) -> None:
        """Log the best of these feasible rows with what each plugin gave them. PluginError."""
        scores, nodes = shapes.breakdown(shape, pod, rows), names_of(rows, self._cache.infos)
        if self.kept is None:
            log.info(Verbatim(score_table(self.switches.top_scores, pod.key, nodes, scores)))
        else:
            decision = self.kept.setdefault(pod.key, SearchRecord())
            decision.nodes, decision.scores = nodes, scores


def refusal_lines(pod: str, failed: Sequence[FailedNodes]) -> Iterator[str]:
    """Yield one line a node."""
    for part in failed:
        status = part.status
        for node in part.nodes:
            yield (
                f'Failed to filter for Pod "{pod}" on Node "{node}", failedPlugin: {status.plugin}, '
                f"schedulingPhaseBeingInvoked: {FILTER.label}, reason: {status.message}"
            )


def score_table(top: int, pod: str, nodes: Sequence[str], scores: Sequence[tuple[str, NDArray[np.int64]]]) -> str:
    """Return the header line and a Markdown table of the `top` best nodes. scores: of each plugin, weighted, in the order of nodes."""
    plugins = [plugin for plugin, _ in scores]
    totals = sum((column for _, column in scores), np.zeros(len(nodes), np.int64))
    best = sorted(range(len(nodes)), key=lambda i: (-totals[i], nodes[i]))[:top]
    lines = [
        f"Top{top} scores for Pod: {pod}, feasibleNodes: {len(nodes)}, plugins:[{' '.join(plugins)}]",
        _cells("#", "Pod", "Node", "Score", *plugins),
        "| --- | --- | --- |" + " ---:|" * (1 + len(plugins)),
    ]
    lines += [
        _cells(str(i), pod, nodes[j], *(str(column[j]) for column in (totals, *(found for _, found in scores)))) for i, j in enumerate(best)
    ]
    return "\n".join(lines)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
