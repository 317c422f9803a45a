"""The scheduling cycle: the way of a pod from the queue to its node, in the order in which things happen (framework.md §5 and §6).

    pop -> PreFilter -> Filter -> (extenders) -> PreScore -> Score -> Reserve -> Permit    `schedule`
                          | no node                                     |
                          v                                             v
                      PostFilter -> failure, back to the queue      the binding cycle: `binding_cycle`

The scheduling cycle runs without awaiting, so nothing changes under it, unless extenders or PostFilter take part: then the loop awaits
them before the next pod. The binding cycle runs beside it, and the next pod is scheduled on assumed state meanwhile. Whatever goes wrong
after the pod was assumed is undone in one place, `BindingCycles.undo`. Pods that are placed together or not at all go these steps in one
turn: `group_turn`. A plugin that raises has a bug: that costs its pod an attempt and is logged with a traceback, and the scheduler goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.cache.cache import CacheError
from koordsched.cluster.event_series import EventText
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.handle import ExtenderError
from koordsched.framework.interface import NextPodPlugin
from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.framework.row_verdicts import NO_VERDICTS
from koordsched.framework.sampling import Sampler, nodes_to_find, uniform_index
from koordsched.framework.shape import ShapeKey
from koordsched.framework.status import PluginError, internal_error
from koordsched.log import get_logger
from koordsched.scheduler.attempt import Attempt
from koordsched.scheduler.binding_cycle import BindingCycles
from koordsched.scheduler.extenders.asking import AllowedNodes, ExtenderQuestion
from koordsched.scheduler.failure import CLEAR_NOMINATION, Failure, hand_over, refreshed
from koordsched.scheduler.group_turn import GroupTurns
from koordsched.scheduler.nominated_nodes import NominatedNodes
from koordsched.scheduler.restricted_search import RestrictedSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from koordsched.api.core import Node
    from koordsched.framework.interface import GangTurn, GroupTurnPlugin, PostFilterResult
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.shapes import Shape
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.explanations.explanations import Explanations
    from koordsched.scheduler.extenders.chain import ExtenderChain
    from koordsched.scheduler.failure import FailureHandler
    from koordsched.scheduler.origins import LivePods

log = get_logger(__name__)

NEXT_POD = "NextPod"
"""What metrics call the asking of that role, with whether it named a pod as the status."""
PODS_A_TURN = 16  # pods scheduled before other tasks get their turn: few enough that binds and watches never starve


class Cycle:
    """Takes pods from the queue to their nodes."""

    def __init__(
        self,
        context: SchedulerContext,
        failures: FailureHandler,
        pods: LivePods,
        extenders: ExtenderChain | None = None,
        *,
        explanations: Explanations,
        checked: bool = True,
        make_binding: Callable[..., BindingCycles] = BindingCycles,
    ) -> None:
        """checked: whether a pod is looked at once more before it is bound."""
        self._context = context
        self._failures = failures
        self._pods = pods
        self._extenders = extenders
        self._cache = context.cache
        self._random = context.random
        self._nominator = context.queue.nominator
        self._nominated = NominatedNodes(context.cache, context.queue.nominator)
        self._sampler = Sampler(context.cache)
        self._switches, self._decisions, self._diagnoses = explanations.switches, explanations.decisions, explanations.attempts
        self._observe_evaluated, self._observe_feasible = context.metrics.observe_evaluated, context.metrics.observe_feasible
        self._restricted = RestrictedSearch(
            context.cache, self._nominated, self._sampler, context.random, decisions=explanations.decisions, metrics=context.metrics
        )
        self.binding = make_binding(context, failures, pods, extenders, checked=checked)
        self.groups = GroupTurns(context, self, self.binding, failures, pods=pods, extenders=extenders, diagnoses=self._diagnoses)
        self._choosing: list[NextPodPlugin] = []  # who may name the next pod, once it runs

    async def run(self) -> None:
        """Pop and schedule for ever."""
        queue, turn = self._context.queue, 0
        plugins = [plugin for profile in self._context.profiles.values() for plugin in profile.made.values()]
        self._choosing = [plugin for plugin in plugins if isinstance(plugin, NextPodPlugin)]
        pop = self.next_pod if self._choosing else queue.pop
        while True:
            info = pop()
            if info is None:
                await queue.wait_not_empty()
                continue
            rest = self.schedule(info)
            if rest is not None:
                await rest
            turn += 1
            if turn % PODS_A_TURN == 0:
                await self.binding.keep_up()

    def next_pod(self) -> QueuedPodInfo | None:
        """Return the pod that a plugin names, or the first of the queue (frameworkext.md §4 item 1)."""
        queue, perf = self._context.queue, self._context.clock.perf
        for plugin in self._choosing:
            asked = perf()
            try:
                named = plugin.next_pod()
            except Exception:
                log.exception("NextPod failed", plugin=plugin.name)
                continue
            self._context.metrics.framework.plugin_execution(plugin.name, NEXT_POD, str(named is not None).lower()).observe(perf() - asked)
            if named is None:
                continue
            info = queue.get(named.pod.key)
            if info is None or info.uid != named.pod.uid or not self._may_be_next(info, plugin):
                continue
            began = perf()
            queue.take(info.key, queue.item_of(named.first))
            self._context.metrics.took_next_pod(perf() - began)
            return info
        return queue.pop()

    def _may_be_next(self, info: QueuedPodInfo, plugin: NextPodPlugin) -> bool:
        profile = self._context.profiles.get(info.profile)
        return (
            profile is not None
            and info.pod_info.pod.metadata.deletion_timestamp is None
            and profile.passes_pre_enqueue(info.pod_info, besides=plugin.name)
        )

    # Scheduling cycle

    def schedule(self, info: QueuedPodInfo, resumed: Attempt | None = None) -> Coroutine[None, None, None] | None:
        """Find a node for a popped pod, assume it there and start binding it, or hand it to the failure path.

        A coroutine that is returned has to be awaited before the next pod is scheduled. resumed: an attempt that extenders have answered.
        """
        context, pod = self._context, info.pod_info
        profile = context.profiles.get(info.profile)
        if profile is None or self._skip(info):
            context.queue.done(info.uid)
            return None
        attempt = resumed or Attempt(info, pod, profile, context.clock.perf())
        try:
            if profile.group_turn is not None and resumed is None:
                gangs = profile.group_turn.group_turn(pod)
                if gangs is not None:
                    return self._group_turn(attempt, profile.group_turn, gangs)
            found = self.search(attempt)
        except Exception as error:  # noqa: BLE001  # it is logged there
            self._failures.handle(self.failure_of(attempt, error))
            return None
        if isinstance(found, ExtenderQuestion):
            return self._ask_extenders(attempt, found)
        if isinstance(found, Diagnosis):
            if found.plugins and profile.post_filter:
                return self._post_filter(attempt, found)
            self._no_node(attempt, found)
            return None
        attempt.node = found
        try:
            context.cache.assume_pod(pod, found)
        except CacheError as error:
            self._failures.handle(Failure(info, profile, str(error), nominate=CLEAR_NOMINATION, started=attempt.started))
            return None
        if self._nominator.nominations:
            context.queue.nominate(pod, "")
        status = profile.run_reserve(attempt.state, pod, found)
        if status is None:
            self.binding.permit(attempt)
        else:
            self.binding.undo(attempt, status)
        return None

    async def _group_turn(self, attempt: Attempt, plugin: GroupTurnPlugin, gangs: Sequence[GangTurn]) -> None:
        if not await self.groups.run(attempt, plugin, gangs):
            rest = self.schedule(attempt.info, attempt)
            if rest is not None:
                await rest

    def _skip(self, info: QueuedPodInfo) -> bool:
        """Answer whether there is nothing to schedule: the pod is being deleted, or it is assumed already."""
        pod = info.pod_info.pod
        if pod.metadata.deletion_timestamp is not None:
            text = EventText("Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {info.key}")
            self._context.events(info.profile).event(pod, text)
            return True
        return self._cache.is_assumed(info.uid)

    def search(self, attempt: Attempt) -> str | Diagnosis | ExtenderQuestion:
        """Run PreFilter, Filter, PreScore and Score, and observe how long that took. Raises what a plugin raises."""
        shapes, timings, resumed = attempt.profile.shapes, attempt.profile.timings, attempt.answer is not None
        started = attempt.searched or attempt.started
        began = self._context.clock.perf() if resumed else started
        found = self.find_for_owner(attempt) if shapes.have_owners else self.find_node(attempt)
        if isinstance(found, ExtenderQuestion):
            timings.interrupt(began)
            return found
        ended = self._context.clock.perf()
        attempt.state = state = attempt.state.clone()
        if timings.recording:
            state.sampled = True
        if resumed:
            timings.resume(began)
        else:
            timings.end_cycle(began, ended)
        if not isinstance(found, Diagnosis):
            self._context.metrics.decided(ended - started)
        return found

    def find_for_owner(self, attempt: Attempt) -> str | Diagnosis | ExtenderQuestion:
        """Return what `find_node` does for a pod that may have capacity of its own on nodes; a stranger has none."""
        pod, profile = attempt.pod, attempt.profile
        key = pod.shape
        if isinstance(key, ShapeKey) and key.without_amounts is not None:
            found = self._find_named(attempt)
            if found is not None:
                return found
        shapes = profile.shapes
        with shapes.search_view(pod) if self._needs_columns_alone(attempt) else shapes.view(pod):
            return self.find_node(attempt)

    def _needs_columns_alone(self, attempt: Attempt) -> bool:
        """Answer whether `find_node` asks about nothing but the rows that have changed, as long as the pod finds a node."""
        profile, switches = attempt.profile, self._switches
        if attempt.planned or profile.names_nodes or profile.percentage_of_nodes_to_score or self._extenders is not None:
            return False
        if switches.filters or switches.top_scores > 0:
            return False
        return not (self._nominator.nominations or attempt.pod.pod.status.nominated_node_name)

    def _find_named(self, attempt: Attempt) -> str | Diagnosis | None:
        """Return the node of the placeholder that the pod names, or why the pod is not admitted; None: `find_node` has to find out."""
        pod, profile = attempt.pod, attempt.profile
        nominated = self._nominator.nominations or pod.pod.status.nominated_node_name
        if nominated or attempt.planned or profile.names_nodes or self._extenders is not None:
            return None
        found = profile.shapes.named_row(pod)
        if found is None:
            return None
        if profile.admission is not None:
            diagnosis = profile.admission.refusal(pod)
            if diagnosis is not None:
                return diagnosis
        row, attempt.state = found
        profile.timings.filtered_at = profile.timings.perf()
        return self._name(row)

    def find_node(self, attempt: Attempt) -> str | Diagnosis | ExtenderQuestion:
        """Return the node for the pod, why there is none, or what extenders have to be asked first. PluginError when a plugin failed.

        Reads the cache as it is, or as the pod's owner of credits sees it: nothing may await between this and the assumption of the pod.
        """
        pod, profile, answer = attempt.pod, attempt.profile, attempt.answer
        shapes, timings = profile.shapes, profile.timings
        if profile.admission is not None and self._cache.table.live_count:
            diagnosis = profile.admission.refusal(pod)
            if diagnosis is not None:
                return diagnosis
        any_nominated = self._nominator.nominations or pod.pod.status.nominated_node_name
        shape = None
        if shapes.have_owners and not any_nominated and not attempt.planned and self._extenders is None:
            shape = shapes.shared(pod)
        if shape is None:
            shape = shapes.pre_filter(pod)
        attempt.state = shape.state
        node_count = self._cache.table.live_count
        if node_count == 0:
            timings.filtered_at = 0.0
            return Diagnosis.without_nodes()

        # One node or a few: that which was nominated for the pod, and what plugins prefer or restrict it to.
        asking = answer is not None or (self._extenders is not None and self._extenders.wants(pod))
        nominated, refused = None, NO_REFUSALS
        if any_nominated or profile.names_nodes or shape.restriction is not None or attempt.planned:
            found = self._find_apart(attempt, shape, asking=asking)
            if shape.shared and isinstance(found, Diagnosis):
                return self._find_by_own_columns(attempt)
            if found is not None and not isinstance(found, int):
                return found
            nominated = found

        # All nodes; those of other nominated pods have to keep room for these.
        feasible_count = shapes.filter(shape, pod)
        timings.filtered_at = timings.perf() if shape.pre_filtered.refusal is None else 0.0
        if any_nominated:
            refused = self._nominated.refusals(profile, shape, pod, shape.evaluation)
        if self._switches.filters:
            self._decisions.filtered(pod, shapes.diagnoses.refusals(shape, pod, refused))
        refused_count = 0 if refused is NO_REFUSALS else len(refused)
        if shape.shared and not feasible_count:
            return self._find_by_own_columns(attempt)
        if answer is None and nominated is None and feasible_count <= refused_count:
            shapes.show_all()
            return shapes.diagnoses.of_shape(shape, pod, refused)
        evaluation = shape.evaluation
        left_out = refused.rows if refused_count else None

        # Extenders: of what they left, what is allowed still.
        candidates: dict[int, int] = {}
        if answer is not None:
            allowed = AllowedNodes(shape.evaluation if shape.pre_filtered.refusal is None else None, refused, nominated)
            candidates = answer.candidates(self._cache, allowed)
            if not candidates:
                return answer.diagnosis(shapes.diagnoses.refusals(shape, pod, refused), self._cache, allowed)
            if len(candidates) == 1:
                self._context.metrics.chose(node_count, 1)
                return self._name(next(iter(candidates)))
            left_out = np.setdiff1d(evaluation.feasible_rows(), np.array(list(candidates), np.int32))
        if left_out is not None:
            shapes.overrule(shape, left_out)
            feasible_count = evaluation.feasible_count
        try:
            # Sampling: part of the nodes is looked at where the operator says so.
            percentage = 0 if candidates else profile.percentage_of_nodes_to_score
            wanted = nodes_to_find(node_count, percentage) if percentage else None
            sample = None if wanted is None else self._sampler.sample(evaluation.feasible_rows(), wanted)
            if asking and not candidates:
                return self._question(evaluation.feasible_rows() if sample is None else sample, nominated)

            # A single feasible node is taken without scoring.
            self._observe_evaluated(node_count)
            self._observe_feasible(feasible_count if sample is None else len(sample))
            if feasible_count == 1:
                return self._name(int(evaluation.feasible_rows()[0]))
            shapes.pre_score(shape, pod)
            shapes.score(shape, pod)
            if self._switches.top_scores > 0:
                self._decisions.scored(shapes, shape, pod, evaluation.feasible_rows() if sample is None else sample)

            # Select host: one of those with the highest total by chance.
            if not candidates and sample is None:
                best, ties = evaluation.best()
                return self._name(evaluation.pick(best, uniform_index(self._random, ties)))
            if sample is None:
                totals = {row: evaluation.scores(row)[1] + extra for row, extra in sorted(candidates.items())}
            else:
                totals = dict(zip(sample.tolist(), self._sampler.totals(shape, pod, sample).tolist(), strict=True))
            highest = max(totals.values())
            rows_of_best = [row for row, total in totals.items() if total == highest]
            return self._name(rows_of_best[uniform_index(self._random, len(rows_of_best))])
        finally:
            if left_out is not None:
                shapes.reinstate(shape, left_out)

    def _find_by_own_columns(self, attempt: Attempt) -> str | Diagnosis | ExtenderQuestion:
        """Find out why there is no node for a pod that shared columns: what is asked about it later is answered by its own."""
        attempt.profile.shapes.share_no_more(attempt.pod)
        return self.find_node(attempt)

    def _name(self, row: int) -> str:
        """Return the name of the row's node."""
        info = self._cache.infos[row]
        if info is None:
            raise LookupError(f"row {row} was chosen but holds no node")
        return info.name

    def _find_apart(self, attempt: Attempt, shape: Shape, *, asking: bool) -> str | Diagnosis | ExtenderQuestion | int | None:
        """Return the outcome of `find_node` where all nodes need not be looked at; else the row of the pod's nominated node if it fits.

        asking: extenders take part in the choice.
        """
        pod, profile = attempt.pod, attempt.profile
        restriction, preferred, nominated = shape.restriction, None, None
        profile.timings.filtered_at = 0.0
        if shape.pre_filtered.refusal is not None:
            return None
        if restriction is not None and restriction.refusal is not None:
            return profile.shapes.diagnoses.of_restricted(shape, pod, restriction, NO_VERDICTS)
        if attempt.planned:
            restriction = self._restricted.to_planned(attempt, restriction)
        elif profile.names_nodes:
            chosen = self._restricted.choose(attempt, shape)
            if isinstance(chosen, Diagnosis):
                return chosen
            restriction, preferred = chosen
        if not attempt.planned and (self._nominator.nominations or pod.pod.status.nominated_node_name):
            nominated = self._nominated.own_row(profile, shape, pod, restriction)
        one = preferred if nominated is None else nominated
        if one is not None and not asking:
            self._context.metrics.chose(1, 1)
            profile.timings.filtered_at = profile.timings.perf()
            return self._name(one)
        if restriction is None:
            return nominated
        found = self._restricted.find(attempt, shape, restriction, nominated, asking=asking)
        if isinstance(found, tuple):
            return self._question(*found)
        return found if isinstance(found, Diagnosis) else self._name(found)

    def _question(self, rows: Rows, nominated: int | None) -> ExtenderQuestion:
        return ExtenderQuestion(self._nodes(rows.tolist()), None if nominated is None else self._nodes([nominated])[0])

    def _nodes(self, rows: list[int]) -> list[Node]:
        infos = (self._cache.infos[row] for row in rows)
        return [info.node for info in infos if info is not None and info.node is not None]

    async def _ask_extenders(self, attempt: Attempt, question: ExtenderQuestion) -> None:
        """Await the extenders' answer, then begin again with it, as the pod and the nodes may have changed meanwhile."""
        assert self._extenders is not None
        info = attempt.info
        try:
            attempt.answer = await self._extenders.ask(attempt.pod, question)
            stored = self._pods.of(info.pod_info)
            if stored is None or stored.metadata.uid != info.uid or stored.spec.node_name:
                self._context.queue.done(info.uid)  # there is nothing left to place
                return
            if stored.spec.scheduler_name != info.profile:
                hand_over(self._context, info, stored)
                return
            if stored.metadata.resource_version != info.pod_info.pod.metadata.resource_version:
                info.pod_info = refreshed(info.pod_info, stored, attempt.profile)
            info.pod_info.shape = attempt.profile.shapes.key(info.pod_info)  # signatures may have changed meanwhile
        except Exception as error:  # noqa: BLE001  # it is logged there
            self._failures.handle(self.failure_of(attempt, error))
            return
        attempt.pod = info.pod_info
        rest = self.schedule(info, attempt)
        if rest is not None:
            await rest

    async def _post_filter(self, attempt: Attempt, diagnosis: Diagnosis) -> None:
        diagnoses, pod = self._diagnoses, attempt.pod
        taken = diagnoses.begin(pod, diagnosis, attempt.profile.group_turn) if diagnoses.is_on else None
        try:
            result, status = await attempt.profile.run_post_filter(attempt.state, attempt.pod, diagnosis)
            text = "" if status is None else status.message
        except Exception as error:
            log.exception("PostFilter failed", pod=attempt.info.key)
            result, text = None, internal_error(error).message
        if taken is not None:
            diagnoses.end(taken, pod, diagnosis, text)
        self._no_node(attempt, diagnosis, text, result)

    def _no_node(self, attempt: Attempt, diagnosis: Diagnosis, text: str = "", result: PostFilterResult | None = None) -> None:
        """Hand a pod without a node to the failure path; text: what PostFilter has to add."""
        self._context.metrics.decided(self._context.clock.perf() - attempt.started)
        message = f"{diagnosis.message} {text}" if text else diagnosis.message
        self._failures.handle(
            Failure(attempt.info, attempt.profile, message, diagnosis=diagnosis, nominate=result, started=attempt.started)
        )

    def failure_of(self, attempt: Attempt, error: Exception) -> Failure:
        """Return what there is to report of a pod whose search for a node ended in an error."""
        info, profile, started = attempt.info, attempt.profile, attempt.started
        if isinstance(error, ExtenderError) or attempt.answer is not None:
            self._context.metrics.decided(self._context.clock.perf() - started)
        if isinstance(error, PluginError):
            profile.timings.fail_cycle(error.point, started)
            return Failure(info, profile, error.status.message, status=error.status, started=started)
        profile.timings.drop_cycle()
        if isinstance(error, ExtenderError):
            return Failure(info, profile, str(error), nominate=CLEAR_NOMINATION, started=started)
        log.exception("scheduling cycle failed", pod=info.key)
        return Failure(info, profile, internal_error(error).message, started=started)
