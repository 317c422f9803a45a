"""Answers: why a pod of a running scheduler has no node, what would let it run, and where a pod would go that is not there yet.

Made on the scheduler's loop beside its cycles, in slices (`koordsched.slices`): a cycle never waits for more than a slice and the trial
that it ends with. What refuses the pod, its scores, and each trial are of one state of the cluster each. Between two slices the cluster may
change: then every change that is to be stated is tried once more at the end, and left out if it does not suffice any more; a pod that got a
node meanwhile is said to have it. Nothing is assumed and nothing written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from koordsched.api.core import Pod
from koordsched.api.kinds import POD, PRIORITY_CLASS
from koordsched.api.podinfo import PodInfo
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.limits import LimitsPlugin
from koordsched.framework.pod_diagnosis import FailedNodes, names_of
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.framework.status import PluginError
from koordsched.scheduler.suggestions.changes import NOWHERE
from koordsched.scheduler.suggestions.column_trials import ColumnTrials
from koordsched.scheduler.suggestions.explanation import (
    PENDING,
    PLACED,
    RUNNING,
    Explanation,
    NodeScores,
    of_pending,
    of_placed,
    reasons_of,
    suggested,
)
from koordsched.scheduler.suggestions.possible_changes import possible_changes
from koordsched.scheduler.suggestions.preparation import Preparation, looks_at_pods
from koordsched.scheduler.suggestions.search import smallest_changes
from koordsched.slices import SLICE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.groups import PriorityClass
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.shapes import Shape, Shapes
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.explanations.explainer import Explainer
    from koordsched.scheduler.origins import LivePods
    from koordsched.scheduler.suggestions.changes import Change, Sized, TrialOutcome
    from koordsched.slices import Slices

Json = dict[str, Any]

MOST_SECONDS = 0.04
"""What is said of scores and nodes comes on top of it."""
TRIAL_SECONDS = 0.001
"""What a trial takes on 5,000 nodes."""
SHOWN_SCORES = 20
DRY_RUN = "dry-run"


class AnswerOptions(msgspec.Struct, frozen=True):
    """What is asked of a pod. changes: whether changes are looked for; scores: of how many of the best nodes."""

    changes: bool = True
    scores: int = SHOWN_SCORES


class SlicedTrials:
    """Trials beside a loop that others need: each begins with a pause if the slice has been long enough."""

    def __init__(self, columns: ColumnTrials, work: Slices, preparation: Preparation, most_seconds: float) -> None:
        self._columns = columns
        self._work = work
        self._preparation = preparation
        self._most_seconds = most_seconds

    @property
    def is_exhausted(self) -> bool:
        return self._work.worked > self._most_seconds

    async def run(self, changes: Sequence[Sized] = ()) -> TrialOutcome:
        await self._work.pause(TRIAL_SECONDS)
        if changes and looks_at_pods(self._columns.body["spec"]):
            pod = self._columns.changed_pod(changes)
            if pod is not None:
                await self._preparation.run(pod)
                await self._work.pause(TRIAL_SECONDS)
        return self._columns.estimate(changes) or NOWHERE

    def likely_level(self, change: Change, others: Sequence[Sized]) -> int:
        return self._columns.likely_level(change, others)

    def narrowed(self, change: Change, node: str) -> Change | None:
        return self._columns.narrowed(change, node)


class Answers:
    """Explains pods of one scheduler. most_seconds: of work for one, after which no further change is tried."""

    def __init__(self, context: SchedulerContext, pods: LivePods, explainer: Explainer) -> None:
        self._context = context
        self._pods = pods
        self._explainer = explainer
        self.most_seconds = MOST_SECONDS
        self._apart: dict[str, Shapes] = {}

    async def of_pod(self, key: str, asked: AnswerOptions, work: Slices) -> Explanation | None:
        """Explain a pod of the cluster; None: there is none of this name."""
        stored = self._pods.at(key)
        if stored is None:
            return None
        if stored.spec.node_name:
            return of_placed(key, stored.spec.node_name, RUNNING, None)
        diagnosis = self._explainer.diagnose(key, stored)
        conditions = (each for each in stored.status.conditions if each.type == "PodScheduled" and each.status == "False")
        found = of_pending(diagnosis, next((each.message for each in conditions), ""))
        info = self._context.queue.get(key)
        if info is None or diagnosis.node:
            return found
        if not diagnosis.failed_nodes and not diagnosis.pre_filter_message:
            await work.pause()
            found = msgspec.structs.replace(found, scores=self._scores(info.pod_info, asked.scores))
        if asked.changes:
            preparation = self._preparation(info.pod_info, work)
            await preparation.run(info.pod_info)
            found = await self._with_changes(found, info.pod_info, _body_of(stored), work, preparation)
        now = self._pods.at(key)
        if now is None:
            return None
        return of_placed(key, now.spec.node_name, RUNNING, None) if now.spec.node_name else found

    async def of_dry_run(self, body: Json, asked: AnswerOptions, work: Slices) -> Explanation:
        """Explain a pod that is not there, as if it were submitted now; one of its name that is pending is left out of account.

        body: a valid pod. QuantityError when its amounts cannot be read.
        """
        metadata = body["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        known = self._context.queue.get(key)
        uid = f"{DRY_RUN}/{key}" if known is None else known.uid
        body = {**body, "metadata": {**metadata, "uid": uid}}
        pod = PodInfo(self._context.informers.of(POD).transformed(msgspec.convert(body, Pod)))
        preparation = self._preparation(pod, work)
        await preparation.run(pod)
        await work.pause(SLICE_SECONDS)  # a slice of its own for what comes now
        found = self._placement(pod, key, asked)
        if found.state != PENDING or not asked.changes:
            return found
        return await self._with_changes(found, pod, _body_of(pod.pod), work, preparation)

    async def priority_classes(self) -> Sequence[PriorityClass]:
        """Return the classes of the cluster, which nothing here watches. ClusterError."""
        return cast("Sequence[PriorityClass]", (await self._context.cluster.list(PRIORITY_CLASS)).items)

    def columns(self, pod: PodInfo, body: Json) -> ColumnTrials:
        """Return what tries changes of a pending pod. body: the pod as JSON has it, its uid included."""
        return ColumnTrials(self._context, self._apart, pod, body)

    # What would be decided

    def _placement(self, pod: PodInfo, key: str, asked: AnswerOptions) -> Explanation:
        """Return what becomes of a pod that is tried now, without its changes."""
        profile = self._context.profiles.get(pod.pod.spec.scheduler_name)
        if profile is None:
            message = f"scheduler {pod.pod.spec.scheduler_name!r} is responsible for it, which this one is not"
            return Explanation(pod=key, state=PENDING, message=message)
        for plugin in profile.pre_enqueue:
            status = plugin.pre_enqueue(pod) if profile.group_turn is None or plugin.name != profile.group_turn.name else None
            if status is not None:
                return Explanation(pod=key, state=PENDING, message=status.message)
        try:
            if profile.admission is not None:
                limiting = next((each for each in profile.made.values() if isinstance(each, LimitsPlugin)), None)
                if limiting is None:
                    refused = profile.admission.refusal(pod)
                else:
                    with limiting.counted_as(pod):
                        refused = profile.admission.refusal(pod)
                if refused is not None:
                    return Explanation(pod=key, state=PENDING, message=refused.message)
            return self._on_nodes(profile.name, pod, key, asked)
        except PluginError as error:
            return Explanation(pod=key, state=PENDING, message=str(error))

    def _on_nodes(self, profile: str, pod: PodInfo, key: str, asked: AnswerOptions) -> Explanation:
        if not self._context.cache.table.live_count:
            return Explanation(pod=key, state=PENDING, message=Diagnosis.without_nodes().message)
        shapes = self._shapes(profile)
        owner = shapes.owner(pod)
        with shapes.view(pod):
            shape, verdicts = self._filtered(shapes, pod)
            if shape.restriction is not None:
                diagnosis = shapes.diagnoses.refusals_restricted(shape, pod, shape.restriction, verdicts, NO_REFUSALS)  # type: ignore[arg-type]
            else:
                diagnosis = shapes.diagnoses.refusals(shape, pod, NO_REFUSALS)
            failed = [FailedNodes(status, names_of(rows, self._context.cache.infos)) for status, rows in diagnosis.rows_by_status()]
            rows = verdicts.feasible_rows() if diagnosis.pre_filter is None else ()
            if not len(rows):
                return Explanation(pod=key, state=PENDING, message=diagnosis.message, reasons=reasons_of(failed))
            scores = self._scores_of(shapes, shape, pod, rows, asked.scores)  # type: ignore[arg-type]
            shapes.put_back(shape)
        del owner  # what it was held for
        return Explanation(pod=key, state=PLACED, node=scores[0].node, reasons=reasons_of(failed), scores=scores)

    def _scores(self, pod: PodInfo, most: int) -> list[NodeScores]:
        """Return the scores of the nodes that take a pod now, the best ones first."""
        try:
            shapes = self._shapes(pod.pod.spec.scheduler_name)
            pod = pod.with_pod(pod.pod)
            owner, pod.shape = shapes.owner(pod), None
            with shapes.view(pod):
                shape, verdicts = self._filtered(shapes, pod)
                rows = verdicts.feasible_rows()
                found = self._scores_of(shapes, shape, pod, rows, most) if len(rows) else []
                shapes.put_back(shape)
            del owner  # what it was held for
            return found
        except PluginError:
            return []

    def _filtered(self, shapes: Shapes, pod: PodInfo) -> tuple[Shape, FilterVerdicts]:
        shape = shapes.pre_filter(pod)
        if shape.restriction is not None:
            return shape, shapes.filter_restricted(shape, pod, shape.restriction)
        shapes.filter(shape, pod)
        return shape, shape.evaluation

    def _scores_of(self, shapes: Shapes, shape: Shape, pod: PodInfo, rows: Rows, most: int) -> list[NodeScores]:
        by_plugin = shapes.breakdown(shape, pod, rows)
        totals = sum((column for _, column in by_plugin), np.zeros(len(rows), np.int64))
        best = np.argsort(-totals, kind="stable")[:most]
        names = names_of(rows[best], self._context.cache.infos)
        columns = {plugin: column[best].tolist() for plugin, column in by_plugin}
        found = [
            NodeScores(name, int(totals[place]), {plugin: column[i] for plugin, column in columns.items()})
            for i, (name, place) in enumerate(zip(names, best.tolist(), strict=True))
        ]
        return sorted(found, key=lambda each: (-each.total, each.node))

    def _shapes(self, profile: str) -> Shapes:
        found = self._apart.get(profile)
        if found is None:
            found = self._apart[profile] = self._context.profiles[profile].shapes.apart()
        return found

    # What would let it run

    def _preparation(self, pod: PodInfo, work: Slices) -> Preparation:
        profile = self._context.profiles.get(pod.pod.spec.scheduler_name)
        return Preparation(() if profile is None else profile.made.values(), work)

    async def _with_changes(self, found: Explanation, pod: PodInfo, body: Json, work: Slices, preparation: Preparation) -> Explanation:
        columns, table = self.columns(pod, body), self._context.cache.table
        began = table.log_end
        trials = SlicedTrials(columns, work, preparation, self.most_seconds)
        if (await trials.run()).node:
            return found  # it fits as it is: it waits for its turn
        changes = await possible_changes(self._context, pod, body, columns.needs, work)
        suggestions = await smallest_changes(trials, changes)
        incomplete = trials.is_exhausted
        if table.log_end != began:
            suggestions = [each for each in suggestions if (await trials.run(each.changes)).node]
        shown = sorted(map(suggested, suggestions), key=lambda each: len(each.changes))
        return msgspec.structs.replace(found, changes=shown, trials=columns.count, incomplete=incomplete)


def _body_of(pod: Pod) -> Json:
    """Return a pod as JSON has it, as far as scheduling reads it, without its status."""
    body: Json = msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(pod, status=type(pod.status)())))
    body.setdefault("spec", {})
    body["metadata"].setdefault("namespace", "default")
    return body
