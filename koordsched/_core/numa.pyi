from collections.abc import Collection, Mapping, Sequence

from koordsched._core.numa_facts import CpuCounts, NumaNode, NumaPolicies, NumaUsage
from koordsched._core.table import NodeTable

MAX_SUMMARIES: int

class NumaTable:
    """Columns over the NUMA nodes ("zones") of all nodes. Resource ids are those of the node table.

    A node stands under the value that its row has in an attribute column (`index_attribute`), so that facts may come before the node and
    stay after it. Rows whose index was never set are nodes that were never described. Amounts are cut to 0..2^56. Not thread-safe.
    """

    def __init__(self, nodes: NodeTable, index_attribute: int) -> None: ...
    @property
    def nodes(self) -> NodeTable: ...
    @property
    def index_attribute(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def demanding(self) -> int:
        """How many nodes may matter to a pod that asks for amounts only: they have a policy, or cpu is amplified there."""

    def set_node(self, index: int, node: NumaNode) -> None:
        """Replace what is known of the node; its usage becomes 0 (`set_usage` follows).

        ValueError for a zone outside 0..63 and for less than one CPU a core, IndexError for an index below 1.
        """

    def clear_node(self, index: int) -> None:
        """Forget the node, as if it had never been described."""

    def set_usage(self, index: int, usage: NumaUsage) -> None:
        """Replace what pods have of the node. Zones that it does not have are ignored. IndexError when no such index was ever set."""

    def set_allocated(self, index: int, numa: int, amounts: Mapping[int, int]) -> None:
        """Replace the amounts that pods have of one zone, by resource id. A zone that the node does not have is ignored. IndexError."""

    def set_counts(self, index: int, counts: Mapping[int, CpuCounts]) -> None:
        """Write how many CPUs each zone has, and the node, which is the sum; zones that are not there have none."""

    def save_usage(self, index: int) -> NumaCells:
        """Return what pods have of the node, for `restore_usage`. IndexError when no such index was ever set."""

    def restore_usage(self, cells: NumaCells) -> None:
        """Let pods have what they had. ValueError when the node has got other zones since."""

    def node_of(self, index: int) -> NumaNode:
        """Return what `set_node` was given, without amounts of 0; for tests and debugging. IndexError."""

    def usage_of(self, index: int) -> NumaUsage:
        """Return what `set_usage` was given, without amounts of 0; for tests and debugging. IndexError."""

    def summary_of(self, code: int) -> str:
        """Return the text of the hints that could not be aligned, for an UNALIGNED code of `numa_filter`; "" beyond MAX_SUMMARIES texts."""

class NumaCells:
    """What pods have of one node."""

class NumaRequest:
    """What a pod requests (raw, > 0; cpu in milli) and how. names[resource id] is a resource's name.

    A pod that names a NUMA policy and no exclusivity requires exclusivity (nodenumaresource.md §1). A request is used with one table only.
    ValueError for an amount <= 0 and for more than 48 resources.
    """

    def __init__(self, amounts: Mapping[int, int], names: Sequence[str], policies: NumaPolicies) -> None: ...
    @property
    def names(self) -> tuple[str, ...]:
        """The requested resources' names in the order of their ids."""

    @property
    def cpu(self) -> int: ...

class NumaScoring:
    """How nodes and sets of NUMA nodes are scored: MOST, the fuller the better, else the emptier.

    weights by resource id, numa_weights (None: the same) those for sets of NUMA nodes; a resource in only_requested counts only for pods
    that request it. ValueError for a weight <= 0, a sum of weights from 2^32 on and more than 16 resources.
    """

    def __init__(
        self,
        weights: Mapping[int, int],
        node_strategy: int,
        numa_strategy: int,
        only_requested: Collection[int] = (),
        numa_weights: Mapping[int, int] | None = None,
    ) -> None: ...
