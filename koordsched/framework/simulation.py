"""Simulation: what a profile's filters say of nodes if other pods were there, or some of those that run there were not.

`NodeSimulation` is what asks; a `Diagnosis` holds one for the pods that it is about. Callers: the choice of a node, for nominated pods, and
PostFilter plugins, for pods to evict. The implementation is `shape_simulation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.removal_filter import RemovalFilter
from koordsched._core.table import Request
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals, Rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from koordsched._core.pod_index import PodIndex
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.status import Status


class FitFilter(NamedTuple):
    """The filter that compares a request with what is free, NodeResourcesFit as a rule."""

    f: int  # its place among the filters that run for the pod
    name: str
    request: Request
    alone: bool  # pods on nodes matter to no other filter


class DryRunFilters(NamedTuple):
    """The filters that the dry run of preemption asks besides comparing amounts, in running order; they run after the one that does."""

    places: Sequence[int]  # their f
    kernels: tuple[RemovalFilter, ...]
    alone: bool  # pods on nodes matter to no filter but these and the one that compares amounts


class OtherVerdicts(msgspec.Struct):
    """What filters say of rows that another filter is the first to refuse."""

    passing: Rows = NO_ROWS  # they pass all other filters, whichever pods there are removed
    refused: list[RowRefusals] = msgspec.field(default_factory=list)  # they stay refused, whichever pods there are removed
    uncertain: list[Rows] = msgspec.field(default_factory=list)  # it depends on which pods are removed: see `simulate_on_node`


class NodeSimulation(Protocol):
    """Asks the filters of a profile for the pods of one shape, as long as the shape's verdicts are what they are now.

    Filters are named by their place f among those that run for the pod. What PreFilter says of which nodes come into question stays as it
    was. Nothing awaits, nothing is kept in the cache. PluginError when a plugin answers with an error.
    """

    rows: Rows | None
    """The rows to which PreFilter restricts the pod, ascending; None: it may go to all nodes. The methods answer about other rows too."""

    @property
    def local(self) -> bool:
        """Whether what the filters say of a node is the same whatever pods run on other nodes."""

    def simulate_on_node(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo] = (), remove: Iterable[PodInfo] = ()) -> Status | None:
        """Return why the pod could not go to the node with these pods more and those less, None if it could."""

    def filter_node(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return why the pod cannot go to the node as the cache has it now, also while the cache simulates; None if it can."""

    # For all nodes at once

    def explain(self, f: int, pod: PodInfo, code: int) -> Status:
        """Return the refusal that a filter's code stands for."""

    def possible_rows(self, pod: PodInfo) -> Rows:
        """Return the rows, of those that the pod may go to, that let it pass or refuse it with Unschedulable; in no order."""

    def unschedulable_rows(self, pod: PodInfo) -> Mapping[tuple[int, int], Rows]:
        """Return the rows that filters refuse with Unschedulable, by filter and code; computed once."""

    def fit_filter(self, pod: PodInfo, *, besides_credits: bool = False) -> FitFilter | None:
        """Return the filter that compares a request with what is free; None when no such filter runs, or the pod has credits.

        besides_credits: also for a pod with credits, of which the caller does not compare amounts on `rows_with_credits`.
        """

    def rows_with_credits(self) -> list[int]:
        """Return the rows that the pod's owner of credits sees otherwise than the table has them."""

    def dry_run_filters(self, pod: PodInfo, fit: FitFilter, victims: PodIndex) -> DryRunFilters:
        """Return the filters that can be asked while pods of the index are removed."""

    def other_verdicts(self, f: int, pod: PodInfo, rows: Rows, known: Collection[int] = (), until: int | None = None) -> OtherVerdicts:
        """Return what the other filters say of rows that filter f is the first to refuse, if pods are removed until f lets them pass.

        known: filters whose answers then are known already. until: only filters that run before this one are asked.
        """

    def affected_by_removals(self, f: int, pod: PodInfo, rows: Rows, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return on which rows filter f, which answers codes now, could answer otherwise if pods that run there were removed."""
