"""The members of a group, placed as a plan says, in the turn of the group (`group_turn`, coscheduling.md §7).

    plan -> each member: PreFilter .. Filter on its node, assume, Reserve -> all placed
     ^          | a node refuses
     +-- undo --+   the plan learns how many the node takes

What found no placement is remembered with the state of the cluster, in which it need not be tried again.

A plan rests on slots that may be too high where more than amounts decide. A pass over all members finds out about every node of the plan;
each pass that ends without a placement lowers some slots, so that there is an end to it. It comes sooner where that would hold the loop.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from koordsched.framework.interface import GroupRefusal
from koordsched.framework.slots import pod_class

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.group_plan import GroupPlan, GroupPlanPlugin
    from koordsched.framework.status import Status
    from koordsched.scheduler.attempt import Attempt
    from koordsched.scheduler.context import SchedulerContext

MOST_TRIES = 3_000
"""Placements of members, plans at what they cost counted in, that one turn makes beyond a first pass: some 0.1 s on the event loop. A
large group has as many as a second pass takes."""
PLAN_KEPT_CHANGING = "no plan stood the test of {tries} placements: {message}"


class FailedPlan(NamedTuple):
    """That there was no placement of these members, and in what state of the cluster (`plan_state`): in the same state there is none."""

    members: Mapping[str, Hashable]  # by key: the uid and class of each
    examples: Mapping[Hashable, str]  # by class: the key of a member
    state: PlanState
    refusal: GroupRefusal  # without its diagnosis, which keeps columns
    may_be_helped: bool  # by evictions

    @classmethod
    def of(cls, members: Mapping[str, Hashable], examples: Mapping[Hashable, str], state: PlanState, refusal: GroupRefusal) -> FailedPlan:
        return cls(members, examples, state, replace(refusal, diagnosis=None), refusal.diagnosis is not None)


class PlanState(NamedTuple):
    """What plans for a group depend on besides its members: another one as soon as a plan may be another (coscheduling.md §13, D15)."""

    log_end: int  # of the node table
    others: tuple[object, ...]

    @classmethod
    def of(cls, context: SchedulerContext, plugin: GroupPlanPlugin, first: PodInfo, classes: Iterable[PodInfo]) -> PlanState:
        """Return the state that the cluster is in. first: the pod that stands for the group. classes: a member of each. O(classes)."""
        cache = context.cache
        versions = [context.profiles[pod.pod.spec.scheduler_name].shapes.versions(pod) for pod in classes]
        others = cache.columns.generation, context.queue.nominator.version, plugin.plan_version(first), versions
        return cls(cache.table.log_end, others)


class Turn(Protocol):
    """The turn of a group, as far as a plan's placement knows it (`group_turn.GroupTurn`)."""

    refused_by_node: Status | None
    """Why the planned node of the last member refused it; None: it was refused whatever its node."""

    async def place_member(self, attempt: Attempt, planned: str = "") -> str:
        """Place a member on the planned node; return why that failed, "" if it did not."""

    def take_back_all(self) -> object:
        """Take back all members that were placed."""

    def refusal(self, member: str, message: str) -> GroupRefusal:
        """Return the refusal of the group for want of a place for this member."""


class PlannedGroup:
    """The placement of members of one group by plans."""

    def __init__(self, turn: Turn, first: Attempt) -> None:
        self._turn = turn
        self._first = first

    async def place(self, plan: GroupPlan, attempts: Mapping[str, Attempt]) -> GroupRefusal | None:
        """Place the members (by key) as the plan says, or none; return why that cannot be. PluginError."""
        tries = cost = 0
        most = len(attempts) + max(len(attempts), MOST_TRIES)
        while True:
            nodes = plan.nodes()
            cost += plan.cost
            if isinstance(nodes, GroupRefusal):
                return nodes
            complete, message = True, ""
            full: set[tuple[str, object]] = set()  # nodes that refused a class of members
            there: Counter[tuple[str, object]] = Counter()
            for key, node in nodes.items():
                attempt = attempts[key]
                place = node, pod_class(attempt.pod)
                if place in full:
                    continue
                tries += 1
                cost += 1
                refused = await self._turn.place_member(attempt, node)
                if not refused:
                    there[place] += 1
                    continue
                if self._turn.refused_by_node is None:
                    refusal = self._turn.refusal(key, refused)
                    self._turn.take_back_all()
                    return refusal
                complete, message = False, refused
                full.add(place)
                plan.refused(key, there[place], self._turn.refused_by_node)
            if complete:
                return None
            self._turn.take_back_all()
            if cost > most:
                return GroupRefusal("", self._first.info.key, PLAN_KEPT_CHANGING.format(tries=tries, message=message), 0)
