"""Plans of groups: for each member the node it goes to, decided over all nodes before any member is placed (coscheduling.md §7).

A plan is made from slots (`NodeSlots`), which may be upper bounds. So the turn of the group places the members as planned, and what a node
refuses is reported to the plan, which is asked again: it then knows better. Called by the scheduling cycle; nothing awaits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from koordsched.framework.interface import GroupTurnPlugin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.interface import GroupRefusal
    from koordsched.framework.slots import NodeSlots
    from koordsched.framework.status import Status

    SlotCount = Callable[[PodInfo, int, Collection[str]], NodeSlots]
    """Returns the slots of all nodes for pods like this one, at most so many a node, without what is nominated for pods of these uids."""


class GroupPlan(Protocol):
    """Where the members of one group go.

    cost: what `nodes` has cost the last time, in placements of one member: so that plans and placements end after so long.
    """

    cost: int

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        """Return the node of each member (by key, namespace/name) in the order in which they are placed, or why there is no plan."""

    def refused(self, member: str, before: int, status: Status) -> None:
        """Take note that the member's node refused it while so many members of its class were there, and why. `nodes` is asked again."""


class GroupPlanPlugin(GroupTurnPlugin):
    """Says where the members of a group go, beside which pods are placed together."""

    @abstractmethod
    def has_plan(self, first: PodInfo) -> bool:
        """Answer whether the group of the popped pod is placed by a plan; else each member goes where it scores best."""

    @abstractmethod
    def plan_version(self, first: PodInfo) -> object:
        """Return what `plan` depends on besides the members, the nodes and what is nominated: as long as that is equal too, a group for
        which there was no plan is not planned again (coscheduling.md §13, D15)."""

    @abstractmethod
    def plan(self, first: PodInfo, members: Sequence[PodInfo], count: SlotCount) -> GroupPlan | GroupRefusal:
        """Return the plan for these members of the group of the popped pod, or why there is none. PluginError, as `count` raises it."""
