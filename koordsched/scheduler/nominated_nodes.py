"""Nominated nodes in a pod's scheduling cycle (framework.md §5.1 items 4 and 5): the node that was made free for the pod itself, and the
room that the nodes of other nominated pods have to keep for those.

Reads the cache as it is: nothing may await between a question to this class and the assumption of the pod.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from koordsched.framework.row_refusals import NO_REFUSALS, NO_ROWS, RowRefusals
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.profile import Profile
    from koordsched.framework.restriction import Restriction
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.shapes import Shape
    from koordsched.queue.nominator import Nominator

log = get_logger(__name__)


class NominatedNodes:
    """Answers for pods for which PreFilter has run."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator

    def own_row(self, profile: Profile, shape: Shape, pod: PodInfo, restriction: Restriction | None) -> int | None:
        """Return the row of the node that was made free for this pod, if the pod fits there: it is then the only candidate.

        Even if the pod is restricted to other nodes: what these were named for may be what was made free (framework.md §5.1.4). The shape's
        columns are not needed for it.
        """
        name = pod.pod.status.nominated_node_name or self._nominator.node_of(pod.uid)
        node = self._cache.node(name) if name else None
        if node is None:
            return None
        if restriction is not None and not restriction.has(node.row):
            log.warning("the node that a pod is nominated for is none of those it is restricted to", pod=pod.key, node=name)
        return node.row if self.fits(profile, shape, pod, node) else None

    def fits(self, profile: Profile, shape: Shape, pod: PodInfo, node: NodeInfo) -> bool:
        """Answer whether a node passes all filters, also with the pods of at least the pod's priority that are nominated there."""
        others = self._nominator.ahead(pod, node.name) if len(self._nominator) else ()
        if others and profile.shapes.simulation(shape).simulate_on_node(pod, node, add=others) is not None:
            return False
        return profile.shapes.filter_row(shape, pod, node.row)

    def refusals(self, profile: Profile, shape: Shape, pod: PodInfo, verdicts: FilterVerdicts) -> RowRefusals:
        """Return the feasible rows that refuse the pod when the pods nominated for them, of at least its priority, are counted there.

        verdicts: which rows are feasible.
        """
        if not len(self._nominator):
            return NO_REFUSALS
        rows = verdicts.feasible_among(self._nominator.by_row().nonempty_rows()) if shape.pre_filtered.refusal is None else NO_ROWS
        if not len(rows):
            return NO_REFUSALS
        simulation = profile.shapes.simulation(shape)
        fit = simulation.fit_filter(pod)
        refused = NO_REFUSALS
        if fit is not None:
            # Where nominated pods matter only by their requests, amounts are compared for all rows at once.
            beyond_amounts = self._nominator.rows_beyond_amounts()
            compared = rows[np.isin(rows, beyond_amounts, invert=True)] if beyond_amounts else rows
            codes = self._nominator.shortages(compared, pod, fit.request)
            short = codes != 0
            refused = RowRefusals.of_codes(compared[short], codes[short], partial(simulation.explain, fit.f, pod))
            if not fit.alone:
                rows = np.setdiff1d(rows, refused.rows, assume_unique=True)
            elif beyond_amounts:
                rows = rows[np.isin(rows, beyond_amounts)]
            else:
                return refused
        by_row = {}
        for row in rows.tolist():  # amounts do not decide alone: all filters are asked
            node = self._cache.infos[row]
            others = [] if node is None else self._nominator.ahead(pod, node.name)
            refusal = simulation.simulate_on_node(pod, node, add=others) if others and node is not None else None
            if refusal is not None:
                by_row[row] = refusal
        return refused.joined(RowRefusals.of(by_row))
