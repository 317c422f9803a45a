"""Diagnosis: why no node was feasible for a pod, per node and in the words that kube-scheduler uses (framework.md §2.2)."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.row_refusals import NO_REFUSALS
from koordsched.framework.status import Code, Status
from koordsched.queue.hints import Rejectors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.framework.pod_diagnosis import PreemptionRecord
    from koordsched.framework.row_refusals import RowRefusals, Rows
    from koordsched.framework.simulation import NodeSimulation

NO_NODES = "no nodes available to schedule pods"


class Refusal(msgspec.Struct, frozen=True):
    """One refusal and how many nodes got it."""

    status: Status
    nodes: int


class Diagnosis:
    """The outcome of a cycle without a feasible node.

    Either PreFilter refused the pod as a whole (`pre_filter`), or `refusals` partitions the nodes and `status_of` answers for one row of
    the node table. `plugins` are all that had a part in it; `message` is the text without what PostFilter says. Pods of a shape share it
    while the reasons stay the same; `status_of` and `rows_by_status` may be asked until the cycle ends.
    """

    def __init__(
        self,
        total_nodes: int,
        plugins: frozenset[str],
        refusals: Sequence[Refusal],
        status_of: Callable[[int], Status | None],
    ) -> None:
        self.total_nodes = total_nodes
        self.plugins = plugins
        self.refusals = refusals
        self.status_of = status_of
        self.pre_filter: Status | None = None
        self.exceptions = NO_REFUSALS  # rows of which something else is true than what the shape's filters say
        self.admission_plugin = ""  # the admission plugin that refused the pod, if that is what PreFilter's refusal was
        self.others_may_preempt = False  # whether plugins that know nothing of that refusal may evict for the pod
        self.simulate: Callable[[], NodeSimulation] | None = None  # makes `simulation`
        self.rows_by_status: Callable[[], list[tuple[Status, Rows]]] = list  # the nodes that filters refuse, none where PreFilter did
        self.preemption: PreemptionRecord | None = None  # where evictions for this attempt are noted; None: nowhere
        self.of_shape = True  # whether what was found for this pod holds for every pod of its shape
        self.message = fit_error(total_nodes, count_reasons(refusals))

    @classmethod
    def of_pre_filter(cls, total_nodes: int, plugins: frozenset[str], status: Status) -> Diagnosis:
        """Return the diagnosis of a pod that PreFilter refused: every node carries that status."""
        diagnosis = cls(total_nodes, plugins, (), lambda _row: status)
        diagnosis.pre_filter = status
        diagnosis.message = fit_error(total_nodes, {}, status.message)
        return diagnosis

    @classmethod
    def without_nodes(cls) -> Diagnosis:
        """Return the diagnosis of a pod for which there was no node to look at: no plugin refused it."""
        diagnosis = cls(0, frozenset(), (), lambda _row: None)
        diagnosis.message = NO_NODES
        return diagnosis

    @property
    def quoted(self) -> str:
        """The message as others quote it: a refusal by PreFilter counts the nodes, for each of its reasons."""
        if self.pre_filter is None:
            return self.message
        return fit_error(self.total_nodes, dict.fromkeys(self.pre_filter.reasons, self.total_nodes))

    @cached_property
    def simulation(self) -> NodeSimulation | None:
        """What asks the filters about nodes with other pods on them; None: there is nothing to ask."""
        return None if self.simulate is None else self.simulate()

    @cached_property
    def pending_plugins(self) -> frozenset[str]:
        """Plugins that answered Pending: their events ignore backoff."""
        statuses = [self.pre_filter] if self.pre_filter is not None else [refusal.status for refusal in self.refusals]
        return frozenset(status.plugin for status in statuses if status.code is Code.PENDING)

    @cached_property
    def rejectors(self) -> Rejectors:
        """The plugins that refused the pod, as the queue sees them."""
        pending = self.pending_plugins
        return Rejectors(self.plugins - pending if pending else self.plugins, pending)


def fit_error(total_nodes: int, reasons: Mapping[str, int], pre_filter_message: str = "") -> str:
    """Return kube-scheduler's FitError text. reasons: how many nodes gave each; items are sorted as strings, so `14 x` precedes `3 y`."""
    text = f"0/{total_nodes} nodes are available:"
    if pre_filter_message:
        return f"{text} {pre_filter_message}."
    items = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{text} {', '.join(items)}." if items else text


def counted(refusals: RowRefusals) -> list[Refusal]:
    """Return the refusals with their numbers of nodes."""
    return [Refusal(status, len(rows)) for status, rows in refusals.groups()]


def count_reasons(refusals: Sequence[Refusal]) -> Counter[str]:
    """Return how many nodes gave each reason; a node can give several."""
    counts: Counter[str] = Counter()
    for refusal in refusals:
        for reason in refusal.status.reasons:
            counts[reason] += refusal.nodes
    return counts
