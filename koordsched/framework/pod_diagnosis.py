"""PodDiagnosis: why a pod has no node, or which one it has, as one object that is shown in many ways (frameworkext.md §4.2).

It is made of what the columns say at one moment, and holds names and texts only, so that it can be kept. The log of `--debug-diagnosis`,
the status of ScheduleExplanations and `/apis/v1/explain` are renderings of it (`scheduler.explanations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.explanations import NodeFailedDetail, NodePossibleVictims, PossibleVictim
from koordsched.framework.status import Code, Status

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.row_refusals import Rows

NodeDetails = tuple[NodeFailedDetail, ...]


class FailedNodes(msgspec.Struct, frozen=True):
    """Nodes that one refusal refused, in any order."""

    status: Status
    nodes: Sequence[str]


class PodDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one pod at one moment. Every pod has one, whether it was tried or never came to a cycle.

    `message` is what its condition says. `pre_filter_message` is set where the pod was refused as a whole, before any node was looked at;
    else `failed_nodes` partitions the nodes that refuse it. `question` names what the answer is about: the pod, its Reservation, or its
    gang group. A pod that failed only because of another member of its group is no root cause.
    """

    namespace: str
    name: str
    uid: str
    question: str
    timestamp: float  # seconds since the epoch
    node: str = ""  # where it is bound, assumed, or waits on Permit
    message: str = ""
    waiting: str = ""  # what it waits for now, and since when; "" for a pod that is bound
    nominated_node: str = ""
    pre_filter_message: str = ""
    topology_key: str = ""  # the layer in which a gang has to gather
    is_root_cause: bool = True
    placed_members: int = 0  # of its gang, that had a node when it failed
    slots: Mapping[str, int] = {}  # by node: how many members of its gang have, or would find, a place there
    failed_nodes: Sequence[FailedNodes] = ()
    preemption: PreemptionRecord | None = None

    @property
    def details(self) -> NodeDetails:
        """The refusals by plugin, reason and whether evictions might help, sorted."""
        return node_details(self.failed_nodes)


class PreemptionRecord:
    """What one attempt to make room found: attached to a `Diagnosis` before PostFilter, written by the preemption engine.

    Nothing of it is there where no attempt was made.
    """

    def __init__(self) -> None:
        self.plugin = ""  # that made the attempt, "" for none
        self.trigger = ""  # the key of the pod that failed
        self.pods = 0  # for which room was wanted
        self.placed = 0  # for which it was found
        self.message = ""  # why no room was made, "" if it was
        self.nominated: dict[str, str] = {}  # by pod key: its node
        self.victims: tuple[NodePossibleVictims, ...] = ()
        self.failed_nodes: Sequence[FailedNodes] = ()  # that refuse the pod even without its possible victims

    @property
    def details(self) -> NodeDetails:
        return node_details(self.failed_nodes)

    def made_room(self, nominated: Mapping[str, str], victims: Mapping[str, Sequence[PodInfo]]) -> None:
        """Note the nodes, by pod key, and the victims by node."""
        self.nominated = dict(nominated)
        self.placed = len(nominated)
        self.victims = tuple(NodePossibleVictims(node, _named(pods)) for node, pods in sorted(victims.items()) if pods)


def _named(victims: Iterable[PodInfo]) -> tuple[PossibleVictim, ...]:
    named = (PossibleVictim(pod.pod.metadata.namespace, pod.pod.metadata.name, pod.uid) for pod in victims)
    return tuple(sorted(named, key=lambda victim: (victim.name, victim.namespace)))


def names_of(rows: Rows, infos: Sequence[NodeInfo | None]) -> list[str]:
    """Return the names of the nodes of these rows."""
    return [info.name for info in map(infos.__getitem__, rows.tolist()) if info is not None]


def node_details(failed: Iterable[FailedNodes]) -> NodeDetails:
    """Return nodes grouped by (plugin, reason, whether evictions might help); these sorted, the last one with true first."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for part in failed:
        status = part.status
        might_help = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        groups.setdefault((status.plugin, status.message, might_help), []).extend(part.nodes)
    order = sorted(groups, key=lambda group: (group[0], group[1], not group[2]))
    return tuple(
        NodeFailedDetail(plugin, reason, might_help, tuple(sorted(groups[plugin, reason, might_help])))
        for plugin, reason, might_help in order
    )
