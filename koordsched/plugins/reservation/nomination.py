"""Which reservations of a node suit a pod, and which of them it is given (reservation.md §8, §9).

Amounts are compared here; whether a reservation has the CPUs and devices that the pod needs, the plugins say that allocate them
(`framework.reservation_filters`). Filter lets a node pass where one reservation suits in all respects, or where the pod may and can do
without; Reserve gives the pod one that suits. The plugins are asked only where that may say more than their own filters, which look at a
node without all reservations of the pod: where the pod matches several, or one that is Restricted, and one of them holds something of
theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.reservations import UNDECIDED, refusal_of
from koordsched.framework.reservation_filters import MatchedOnNode, ReservationFilters
from koordsched.framework.row_refusals import StatusCodes
from koordsched.framework.status import unschedulable
from koordsched.plugins.reservation.info import RESTRICTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched._core.reservations import Shortages
    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes, ReservationFilterPlugin
    from koordsched.framework.status import Status
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.matching import Matcher
    from koordsched.plugins.reservation.state import ReservationState

UNSUITED = 1 << 29
"""Added to the number of a refusal by a ReservationFilterPlugin: a code that `Shortages` does not give out."""
WITHOUT = -1
"""In place of a slot: the node with no reservation at all."""


class Prepared:
    """What Filter and Score read of pods of a shape that match reservations."""

    __slots__ = ("matcher", "request", "requests", "shortages")

    def __init__(self, matcher: Matcher, request: Request, requests: Mapping[str, int], shortages: Shortages) -> None:
        self.matcher = matcher
        self.request = request
        self.requests = requests  # by name, as in `PodResources`
        self.shortages = shortages


class ReservationChoice:
    """Chooses for the pods of one profile."""

    def __init__(self, cache: Cache, state: ReservationState) -> None:
        self.filters = ReservationFilters(())
        self._cache = cache
        self._state = state
        self._refusals = StatusCodes()

    # Filter, within the view that hides all reservations of the pod

    def check(self, cycle: CycleState, pod: PodInfo, prepared: Prepared, nodes: Nodes, codes: Codes) -> None:
        """Refuse rows where amounts suffice and no reservation suits.

        All rows are answered in one call, but for those about which some plugin has to be asked itself: these go one by one.
        """
        plugins, pairs = self.filters.allocating(pod), self._state.pairs(prepared.matcher)
        if not plugins or not len(pairs):
            return
        sources = None if self._cache.simulating else self.filters.sources(plugins, cycle, pod)
        if sources is None:
            places = np.flatnonzero(np.isin(nodes.rows, pairs.rows) & (codes == 0))
        else:
            required = prepared.matcher.demand.required
            answers = self._state.table.unsuited(prepared.request, nodes.rows, codes, pairs, sources, required=required)
            refusals = answers[answers > 0]
            while len(refusals):  # of which few differ
                answer = int(refusals[0])
                codes[answers == answer] = self._code_of(self.filters.explain(plugins, cycle, pod, answer))
                refusals = refusals[refusals != answer]
            places = np.flatnonzero(answers == UNDECIDED)
        for i in places.tolist():
            refusal = self._refusal_on(plugins, cycle, pod, prepared, nodes.info(int(nodes.rows[i])))
            if refusal is not None:
                codes[i] = self._code_of(refusal)

    def _refusal_on(
        self, plugins: Sequence[ReservationFilterPlugin], cycle: CycleState, pod: PodInfo, prepared: Prepared, node: NodeInfo
    ) -> Status | None:
        """Answer for one row as `ReservationTable.unsuited` does, by asking the plugins themselves."""
        matched = [self._state.by_uid[uid] for uid in self._state.pairs(prepared.matcher).uids_of(node.row)]
        if not _matters(plugins, matched):
            return None
        on_node = MatchedOnNode(cycle, pod, node.name, [info.uid for info in matched])
        return self._refusal(plugins, prepared, on_node, matched, node.row)

    def _code_of(self, refusal: Status) -> int:
        return UNSUITED | self._refusals.code_of(refusal if refusal.rejected else unschedulable(*refusal.reasons))

    def explain(self, code: int) -> Status:
        """Return the refusal of a code with UNSUITED."""
        return self._refusals.status_of(code & ~UNSUITED)

    def _refusal(
        self,
        plugins: Sequence[ReservationFilterPlugin],
        prepared: Prepared,
        on_node: MatchedOnNode,
        matched: Sequence[ReservationInfo],
        row: int,
    ) -> Status | None:
        """Return why none of these reservations suits, nor the node without them where the pod may do without."""
        table, request, required = self._state.table, prepared.request, prepared.matcher.demand.required
        pairs = self._state.pairs(prepared.matcher)
        refusal: Status | None = None
        for info in matched:
            if not required and not table.touches(info.slot, request):
                continue
            node, inside = table.fits_hidden(info.slot, request, row, pairs)
            if not inside and (not node or (table.skips_fit and len(matched) == 1)):
                refusal = self.filters.refusal(plugins, on_node, info.uid)
                if refusal is None:
                    return None
        if required or (refusal is not None and any(table.fits_hidden(WITHOUT, request, row, pairs))):
            return refusal
        return self.filters.refusal(plugins, on_node, None)

    # Reserve

    def nominate(self, cycle: CycleState, pod: PodInfo, prepared: Prepared, row: int, node_name: str) -> ReservationInfo | None:
        """Return the reservation for a pod that the row counts already; None: it goes without.

        The only one that a pod with affinity matches is given to it as it is; of others those that suit: the smallest order, the highest
        score, the oldest, the first name. O(reservations of the node).
        """
        matched = self._matched(node_name, prepared.matcher)
        if not matched:
            return None
        required = prepared.matcher.demand.required
        if required and len(matched) == 1:
            return matched[0]
        table, request = self._state.table, prepared.request
        skips_fit = table.skips_fit and len(matched) == 1
        fitting = []
        for info in matched:
            if required or table.touches(info.slot, request):
                node, inside = table.fits(info.slot, request, row, counted=True)
                if not inside and (skips_fit or not node):
                    fitting.append(info)
        plugins = self.filters.allocating(pod)
        if not _matters(plugins, matched):
            plugins = ()
        sources = self.filters.sources(plugins, cycle, pod)
        on_node = MatchedOnNode(cycle, pod, node_name, [info.uid for info in matched])
        suiting = []
        for info in sorted(fitting, key=lambda info: (not info.order, info.order, info.created, info.name)):
            answer = UNDECIDED if sources is None else refusal_of(row, info.uid, sources)
            if answer == 0 or (answer == UNDECIDED and self.filters.refusal(plugins, on_node, info.uid) is None):
                if info.order:
                    return info
                suiting.append(info)
        if not suiting:
            return None
        if len(suiting) == 1:
            return suiting[0]
        scores = self.filters.scores(plugins, on_node, [info.uid for info in suiting])
        return max(suiting, key=lambda info: table.score(info.slot, request) + scores[info.uid])

    def _matched(self, node_name: str, matcher: Matcher) -> list[ReservationInfo]:
        """Return the reservations of a node that the matcher's pods match; mostly they match one that they name, wherever it is."""
        matched = matcher.matched
        if len(matched) == 1:
            (only,) = matched.values()
            return [only] if only.node_name == node_name else []
        return [info for info in self._state.on_node(node_name) if info.uid in matched]


def _matters(plugins: Sequence[ReservationFilterPlugin], matched: Sequence[ReservationInfo]) -> bool:
    """Answer whether the plugins have to be asked which of these reservations of a node suit."""
    if len(matched) == 1 and matched[0].policy != RESTRICTED:
        return False
    return any(plugin.is_held_by(info.uid) for plugin in plugins for info in matched)
