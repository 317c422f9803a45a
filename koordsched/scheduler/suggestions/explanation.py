"""Explanation: what is said of one pod, as one object of names and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.framework.pod_diagnosis import node_details

if TYPE_CHECKING:
    from koordsched.framework.pod_diagnosis import FailedNodes, PodDiagnosis
    from koordsched.scheduler.explanations.decision_log import SearchRecord
    from koordsched.scheduler.suggestions.search import Suggestion

PENDING, PLACED, RUNNING, REJECTED = "pending", "would be placed", "runs", "rejected"


class Reason(msgspec.Struct, frozen=True, rename="camel"):
    """One refusal. might_help: whether evictions could."""

    plugin: str
    reason: str
    count: int
    nodes: Sequence[str]
    eviction_might_help: bool


class NodeScores(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    total: int
    plugins: dict[str, int]


class SuggestedChange(msgspec.Struct, frozen=True, rename="camel"):
    """Changes that together let the pod run. fits: on how many nodes, 0 where that is not known; node: the one that it was given."""

    text: str
    changes: Sequence[dict[str, Any]]
    fits: int
    node: str


class Explanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """message: what the pod's condition says. waiting: what it waits for now. scores: best first.

    reasons: of the nodes that refuse it, those of the most nodes first. left_out: other pending pods, which could come first where a change
    makes room. incomplete: not all changes were tried. notes: what was taken for granted.
    """

    pod: str
    state: str
    node: str = ""
    message: str = ""
    waiting: str = ""
    reasons: Sequence[Reason] = ()
    scores: Sequence[NodeScores] = ()
    changes: Sequence[SuggestedChange] = ()
    left_out: int = 0
    trials: int = 0
    incomplete: bool = False
    notes: Sequence[str] = ()


def of_pending(diagnosis: PodDiagnosis, message: str) -> Explanation:
    """Return the explanation of a pod without a node. message: of its condition, "" where it has none yet."""
    return Explanation(
        pod=f"{diagnosis.namespace}/{diagnosis.name}",
        state=PENDING,
        node=diagnosis.node,
        message=message or diagnosis.message,
        waiting=diagnosis.waiting,
        reasons=reasons_of(diagnosis.failed_nodes),
    )


def of_placed(pod: str, node: str, state: str, decision: SearchRecord | None) -> Explanation:
    """Return the explanation of a pod that has a node."""
    if decision is None:
        return Explanation(pod=pod, state=state, node=node)
    return Explanation(pod=pod, state=state, node=node, reasons=reasons_of(decision.failed_nodes), scores=scores_of(decision))


def reasons_of(failed: Sequence[FailedNodes]) -> list[Reason]:
    details = (
        Reason(each.failed_plugin, each.reason, len(each.failed_nodes), each.failed_nodes, each.preempt_might_help)
        for each in node_details(failed)
    )
    return sorted(details, key=lambda each: (-each.count, each.plugin, each.reason))


def scores_of(decision: SearchRecord) -> list[NodeScores]:
    columns = {plugin: column.tolist() for plugin, column in decision.scores}
    found = [
        NodeScores(node, sum(column[i] for column in columns.values()), {plugin: column[i] for plugin, column in columns.items()})
        for i, node in enumerate(decision.nodes)
    ]
    return sorted(found, key=lambda each: (-each.total, each.node))


def suggested(suggestion: Suggestion) -> SuggestedChange:
    text = ", and ".join(change.text(level) for change, level in suggestion.changes)
    changes = [{"kind": change.kind, **change.fields(level)} for change, level in suggestion.changes]
    return SuggestedChange(text, changes, suggestion.outcome.fits, suggestion.outcome.node)


def only_node(found: Explanation, node: str) -> Explanation:
    """Return what concerns one node."""
    reasons = [msgspec.structs.replace(each, count=1, nodes=(node,)) for each in found.reasons if node in each.nodes]
    return msgspec.structs.replace(found, reasons=reasons, scores=[each for each in found.scores if each.node == node])
