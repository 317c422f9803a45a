from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from koordsched._core.load_facts import NodeLoad
from koordsched._core.table import NodeTable

Amounts = Sequence[int]

EXPIRED_CODE: int
"""The code of `filter_load` for an expired metric."""
LARGEST_AMOUNT: int
"""2^53: estimates and usage must not be larger; capacities are cut to it."""

@final
class PodEstimate:
    """What a pod is estimated to use, and what else the kernels read of it. Equal when all of it is."""

    values: tuple[int, ...]
    is_prod: bool
    is_daemon: bool
    def __init__(self, values: Amounts, *, is_prod: bool, is_daemon: bool) -> None:
        """values: cpu in milli, others in whole units, for each resource of the table's vector. ValueError outside 0 to 2^53."""

@final
class PodLoad:
    """A pod that is counted on a node. Times are seconds since the epoch; deadline -inf: none."""

    estimate: PodEstimate
    key: str
    timestamp: float
    deadline: float
    def __init__(self, estimate: PodEstimate, key: str, timestamp: float, deadline: float = ...) -> None: ...

@final
class LoadTable:
    """The loads of all nodes, by index: ids of the node table's attribute column `index_attribute`, from 1 on."""

    nodes: NodeTable
    index_attribute: int
    width: int
    capacity: int
    filters_expired: bool
    passes_expired: bool
    def __init__(self, nodes: NodeTable, index_attribute: int, width: int, *, filters_expired: bool, passes_expired: bool) -> None:
        """width: resources of the vector, at most 64. filters_expired, passes_expired: what Filter does with expired metrics."""

    def clear_node(self, index: int) -> None:
        """Forget all of an index, making room for it if need be."""

    def set_node(self, index: int, capacity: Amounts, thresholds: Amounts, prod_thresholds: Amounts, *, aggregated: bool) -> None:
        """Take over what a node has, and the percentages that its use must not exceed; 0: none. IndexError for an index never cleared."""

    def set_metric(
        self,
        index: int,
        filter_usage: Amounts | None,
        score_usage: Amounts | None,
        prod_usage: Amounts,
        *,
        measured: bool,
        expired: bool,
        pods: Iterable[PodLoad],
        usages: Mapping[str, tuple[Amounts, bool]],
        update_time: float,
        settled_before: float,
    ) -> None:
        """Take over a metric, and count the node's pods anew. O(pods).

        filter_usage, score_usage None: estimates alone count. prod_usage: without that of pods. usages: by key of the pod what it uses, and
        whether it was reported as a prod pod. settled_before: estimates of reported pods that were scheduled by then do not count.
        """

    def clear_metric(self, index: int) -> None:
        """Forget the metric; sums of pods are kept for nodes with a metric only."""

    def set_expired(self, index: int, expired: bool) -> bool:
        """Let the metric be too old, or not; answer whether that is another answer than before."""

    def add_pod(
        self,
        index: int,
        pod: PodLoad,
        usage: Amounts | None = None,
        as_prod: bool = False,
        *,
        update_time: float,
        settled_before: float,
    ) -> None:
        """Count a pod that came, with what the metric says of it; usage None: nothing. Nothing happens without a metric. O(resources)."""

    def remove_pod(
        self,
        index: int,
        pod: PodLoad,
        usage: Amounts | None = None,
        as_prod: bool = False,
        *,
        update_time: float,
        settled_before: float,
    ) -> None:
        """Take back what `add_pod` or `set_metric` counted of the pod, given the same."""

    def load_of(self, index: int) -> NodeLoad: ...
    def damage(self, index: int, column: int, resource: int, by: int) -> None:
        """Add to a number of a column, for tests of the standing check."""

    @property
    def nbytes(self) -> int: ...

@final
class LoadScoring:
    """How nodes are scored (frameworkext.md §5.4)."""

    def __init__(self, weights: Amounts, dominant: int, *, by_prod_usage: bool) -> None:
        """weights: one for each resource of the vector. dominant: that of the scarcest resource. ValueError for a negative one."""

def filter_load(table: LoadTable, estimate: PodEstimate, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a code per row; 0: no threshold keeps the pod out. Without the GIL, O(rows x resources)."""

def refusal_of(code: int) -> tuple[int, bool]: ...
def score_load(table: LoadTable, estimate: PodEstimate, scoring: LoadScoring, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return 0..100 per row; 0 where there is no metric that counts. Without the GIL, O(rows x resources)."""

class Usage(Protocol):
    @property
    def resources(self) -> Mapping[str, Any]: ...

class ReportedPod(Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> str: ...
    @property
    def pod_usage(self) -> Usage: ...

P = TypeVar("P", bound=ReportedPod)

def plain_amount(quantity: str | float | None, milli: bool) -> int:
    """Return an amount that is written as a whole number, with m where thousandths are asked for or with Ki where they are not; else -1.

    That is how koordlet writes what it measures, and many of these texts come each minute; `api.quantity` reads all others.
    """

def plain_amounts(resources: Mapping[str, str | float], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the amounts of these resources, 0 for those that are not there; None where one is not what `plain_amount` reads."""

def reported_amounts(
    pods: Sequence[P], wanted: Container[str], names: tuple[str, ...], prod: str, read_other: Callable[[P, int], tuple[int, ...]]
) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Return what pods use, by "namespace/name", and whether their priority is `prod`: of those wanted whose usage is not empty, the last
    of each name. O(pods x names).

    read_other: called with a pod and its place where `plain_amounts` does not read all that is said of it.
    """

def last_reported(pods: Sequence[P], namespace: str, name: str) -> P | None:
    """Return the last pod of this name whose usage is not empty."""
