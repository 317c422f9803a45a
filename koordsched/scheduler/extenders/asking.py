"""What extenders are asked about a pod, what they answer, and what follows from it (framework.md §5 and §8).

The step of a pod's scheduling cycle in which they take part is `Cycle._ask_extenders`. The cluster may change while an extender thinks:
nodes go, other schedulers take or give back room, the pod itself is deleted or updated. Why the outcome is right all the same:

- No other pod is scheduled meanwhile: the scheduling loop awaits the answer. Whatever changes comes from the cluster and has its event.
- With the answer the cycle begins again, on the pod and the nodes as they are then, and from there on awaits nothing until the pod is
  assumed. A node that is gone or does not fit any more is not chosen, and a pod that is gone is not placed.
- A node that became feasible meanwhile was not asked about and is not chosen. If that leaves none, the pod is refused by `Extender`, which
  every event may help: what made the node feasible is an event that the pod missed in flight, so it is tried again.
- What is found for one pod is not kept for its shape: an extender sees the pod itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched.api.core import Node, Pod
from koordsched.framework.diagnosis import Diagnosis, counted
from koordsched.framework.handle import EXTENDER
from koordsched.framework.row_refusals import RowRefusals
from koordsched.framework.status import Code, Status
from koordsched.queue.events import EventHint, EventResource, QueueingHint
from koordsched.queue.hints import ALWAYS_QUEUE

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.row_verdicts import FilterVerdicts

NOT_ASKED_ABOUT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), EXTENDER)


class AllowedNodes(NamedTuple):
    """Where a filtered pod may go, at one moment."""

    verdicts: FilterVerdicts | None  # of the filters; None: PreFilter refuses the pod
    refused: RowRefusals  # feasible rows that have to keep room for nominated pods
    nominated: int | None  # row of the node that was made free for the pod, if the pod fits there

    def __contains__(self, row: object) -> bool:
        if row == self.nominated:
            return True
        return isinstance(row, int) and row not in self.refused and self.verdicts is not None and self.verdicts.is_feasible(row)


class ExtenderQuestion(msgspec.Struct, frozen=True):
    """The nodes that a pod may go to. nominated: the one that was made free for it, if it fits there: it is asked about first, alone."""

    nodes: list[Node]
    nominated: Node | None


class ExtenderAnswer(msgspec.Struct, frozen=True):
    """The nodes that remain, why each of the others does not, and what is added to their totals, all by name."""

    remaining: list[str]
    refused: dict[str, Status]
    scores: dict[str, int] = {}

    def candidates(self, cache: Cache, allowed: AllowedNodes) -> dict[int, int]:
        """Return the rows of the nodes that remain and are still allowed, each with what is added to its total."""
        found = ((name, cache.node(name)) for name in self.remaining)
        return {node.row: self.scores.get(name, 0) for name, node in found if node is not None and node.row in allowed}

    def diagnosis(self, of_filters: Diagnosis, cache: Cache, allowed: AllowedNodes) -> Diagnosis:
        """Return why no node is a candidate: what filters say of nodes, with what extenders say of those that filters allow."""
        if of_filters.pre_filter is not None:
            return of_filters
        found = ((status, cache.node(name)) for name, status in self.refused.items())
        of_extenders = RowRefusals.of({node.row: status for status, node in found if node is not None and node.row in allowed})

        def status_of(row: int) -> Status | None:
            return of_extenders.get(row) or of_filters.status_of(row) or NOT_ASKED_ABOUT

        refusals = [*of_filters.refusals, *counted(of_extenders)]
        joined = Diagnosis(of_filters.total_nodes, of_filters.plugins | {EXTENDER}, refusals, status_of)
        joined.of_shape = False
        joined.exceptions = of_filters.exceptions.joined(of_extenders)
        joined.simulation = of_filters.simulation
        joined.rows_by_status = lambda: [*of_filters.rows_by_status(), *of_extenders.groups()]
        return joined


def _unless_only_its_condition(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Skip the update by which the scheduler itself wrote why the pod waits: nothing else would be the reason to try it again."""
    if not isinstance(old, Pod) or not isinstance(new, Pod) or new.metadata.uid != pod.uid:
        return QueueingHint.QUEUE
    same = (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.nominated_node_name == new.status.nominated_node_name
    )
    return QueueingHint.SKIP if same else QueueingHint.QUEUE


HINTS = tuple(
    EventHint(known.event, _unless_only_its_condition) if known.event.resource is EventResource.POD else known for known in ALWAYS_QUEUE
)
"""Which events retry a pod that an extender refused: all, since what an extender looks at is not known (framework.md §3.5)."""
