"""The choice of a node for a pod that may not go everywhere, in its scheduling cycle (frameworkext.md §4 step 4).

After PreFilter two plugins may have a say for the pod alone: FindOneNode decides on its only node, and of the nodes that PreferNodes names
the first one that passes all filters gets the pod. These, and restrictions to some nodes (`framework.restriction`), are searched here at a
cost in proportion to the nodes in question; where none of this concerns the pod, `Cycle.find_node` goes on from the columns of all nodes.
The outcome is that of a search over a cluster whose other nodes all refuse the pod.

Reads the cache as it is: nothing may await between a question to this class and the assumption of the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koordsched.config.extension_points import PRE_FILTER
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.restriction import Restriction, rows_named
from koordsched.framework.row_refusals import NO_REFUSALS, NO_ROWS
from koordsched.framework.sampling import nodes_to_find, uniform_index
from koordsched.framework.status import SKIPS, PluginError, Status
from koordsched.scheduler.extenders.asking import AllowedNodes

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from koordsched.cache.cache import Cache
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.sampling import Sampler
    from koordsched.framework.shapes import Shape
    from koordsched.scheduler.attempt import Attempt
    from koordsched.scheduler.explanations.decision_log import DecisionLog
    from koordsched.scheduler.metrics import Metrics
    from koordsched.scheduler.nominated_nodes import NominatedNodes

FIND_ONE_NODE, PREFER_NODES = "FindOneNodePlugin", "PreferNodesPlugin"  # what metrics call these roles


class Choice(NamedTuple):
    """To which nodes a pod is restricted (None: to none), and the row among them that a preferred node has and that passes all filters."""

    restriction: Restriction | None
    preferred: int | None = None


class RestrictedSearch:
    """Finds nodes for the pods of all profiles."""

    def __init__(
        self, cache: Cache, nominated: NominatedNodes, sampler: Sampler, rng: random.Random, *, decisions: DecisionLog, metrics: Metrics
    ) -> None:
        self._decisions = decisions
        self._observe_evaluated, self._observe_feasible = metrics.observe_evaluated, metrics.observe_feasible
        self._cache = cache
        self._nominated = nominated
        self._sampler = sampler
        self._random = rng

    def choose(self, attempt: Attempt, shape: Shape) -> Choice | Diagnosis:
        """Ask FindOneNode, and if that skips PreferNodes, about a pod that PreFilter lets pass. A diagnosis: the pod is refused."""
        profile, restriction = attempt.profile, shape.restriction
        if profile.find_one_node is not None:
            found = self._find_one_node(attempt, restriction)
            if isinstance(found, str):
                return Choice(Restriction(rows_named(self._cache, (found,)), (), chosen_by=profile.find_one_node.name))
            if found.code is not SKIPS:
                return self._refused(found, profile.find_one_node.name)
        if profile.prefer_nodes is not None:
            names = self._prefer_nodes(attempt)
            if not isinstance(names, Status):
                row = self._first_that_fits(attempt, shape, names)
                if row is not None:
                    return Choice(Restriction(np.array([row], np.int32), ()), row)
            elif names.code is not SKIPS:
                return self._refused(names, profile.prefer_nodes.name)
        return Choice(restriction)

    def to_planned(self, attempt: Attempt, restriction: Restriction | None) -> Restriction:
        """Return the restriction to the node that the plan of the pod's group has for it, to none if the pod may not go there."""
        plugin = attempt.profile.group_turn
        assert plugin is not None, "plans come from a plugin"
        rows = rows_named(self._cache, (attempt.planned,))
        if restriction is not None and not all(map(restriction.has, rows.tolist())):
            rows = NO_ROWS
        return Restriction(rows, (), chosen_by=plugin.name)

    def _find_one_node(self, attempt: Attempt, restriction: Restriction | None) -> str | Status:
        plugin, timings = attempt.profile.find_one_node, attempt.profile.timings
        assert plugin is not None
        nodes = self._cache.nodes() if restriction is None else self._cache.select(restriction.rows)
        started = timings.perf()
        answer = plugin.find_one_node(attempt.state, attempt.pod, nodes)
        timings.executed(plugin.name, FIND_ONE_NODE, answer if isinstance(answer, Status) else None, timings.perf() - started)
        return answer

    def _prefer_nodes(self, attempt: Attempt) -> Sequence[str] | Status:
        plugin, timings = attempt.profile.prefer_nodes, attempt.profile.timings
        assert plugin is not None
        started = timings.perf()
        answer = plugin.prefer_nodes(attempt.state, attempt.pod)
        timings.executed(plugin.name, PREFER_NODES, answer if isinstance(answer, Status) else None, timings.perf() - started)
        return answer

    def _first_that_fits(self, attempt: Attempt, shape: Shape, names: Sequence[str]) -> int | None:
        restriction = shape.restriction
        for name in names:
            node = self._cache.node(name)
            if node is None or (restriction is not None and not restriction.has(node.row)):
                continue
            if self._nominated.fits(attempt.profile, shape, attempt.pod, node):
                return node.row
        return None

    def _refused(self, status: Status, plugin: str) -> Diagnosis:
        """Return the diagnosis of a refusal as PreFilter's; PluginError if the status is none."""
        if not status.rejected:
            raise PluginError(status.with_plugin(plugin), PRE_FILTER.label)
        diagnosis = Diagnosis.of_pre_filter(self._cache.table.live_count, frozenset({plugin}), status.with_plugin(plugin))
        diagnosis.of_shape = False
        return diagnosis

    def find(
        self, attempt: Attempt, shape: Shape, restriction: Restriction, nominated: int | None, *, asking: bool
    ) -> int | Diagnosis | tuple[Rows, int | None]:
        """Return the row for a pod that is restricted to some nodes, why there is none, or the rows that extenders have to be asked about.

        The parameters are those of this moment in `Cycle.find_node`, and the steps the same, over the rows of the restriction alone.
        """
        pod, profile, answer = attempt.pod, attempt.profile, attempt.answer
        shapes = profile.shapes
        verdicts = shapes.filter_restricted(shape, pod, restriction)
        profile.timings.filtered_at = profile.timings.perf()
        refused = self._nominated.refusals(profile, shape, pod, verdicts)
        if self._decisions.switches.filters:
            of_filters = shapes.diagnoses.refusals_restricted(shape, pod, restriction, verdicts, refused)
            self._decisions.filtered(pod, of_filters)
        rows = verdicts.feasible
        if refused is not NO_REFUSALS:
            rows = np.setdiff1d(rows, refused.rows, assume_unique=True)
        extra: dict[int, int] = {}
        if answer is not None:
            allowed = AllowedNodes(verdicts, refused, nominated)
            extra = answer.candidates(self._cache, allowed)
            if not extra:
                of_filters = shapes.diagnoses.refusals_restricted(shape, pod, restriction, verdicts, refused)
                return answer.diagnosis(of_filters, self._cache, allowed)
            rows = np.array(sorted(extra), np.int32)
        elif nominated is None and not len(rows):
            if restriction.of_pod:
                diagnosis = shapes.diagnoses.refusals_restricted(shape, pod, restriction, verdicts, refused)
                diagnosis.of_shape = False  # another pod of the shape may be sent elsewhere
                return diagnosis
            return shapes.diagnoses.of_restricted(shape, pod, restriction, verdicts, refused)
        elif profile.percentage_of_nodes_to_score:
            wanted = nodes_to_find(len(restriction.rows), profile.percentage_of_nodes_to_score)
            rows = rows if wanted is None else self._sampler.sample(rows, wanted, restriction.rows)
        if asking and answer is None:
            return rows, nominated
        self._observe_evaluated(len(restriction.rows))
        self._observe_feasible(len(rows))
        if len(rows) == 1:
            return int(rows[0])
        if self._decisions.switches.top_scores > 0:
            self._decisions.scored(shapes, shape, pod, rows)
        attempt.state, totals = shapes.totals(shape, pod, rows)
        if extra:
            totals += [extra[row] for row in rows.tolist()]
        best = (totals == totals.max()).nonzero()[0]
        return int(rows[best[uniform_index(self._random, len(best))]])
