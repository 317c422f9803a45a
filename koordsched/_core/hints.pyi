from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import Hint, Machine, Merged, NumaSplit, Restored

class NumaView:
    """What one node's zones have for one request, as it was when this was made. An index that was never set is a node without zones."""

    def __init__(
        self, table: NumaTable, request: NumaRequest, index: int, scoring: NumaScoring, restored: Restored | None = None
    ) -> None: ...
    @property
    def bind(self) -> bool:
        """Whether the pod gets CPUs of its own on this node."""

    @property
    def bind_policy(self) -> int:
        """The policy that holds: the pod's required one, else the node's, else the pod's preferred one."""

    @property
    def required(self) -> bool:
        """Whether that policy must be kept."""

    @property
    def cpus(self) -> int:
        """How many CPUs the pod is bound to, if it is."""

    @property
    def machine(self) -> Machine:
        """The zones, the NUMA policy that holds and the exclusivity, as `merge_hints` takes them."""

    def affinity(self) -> Merged:
        """Return the zones to take from if no other plugin has hints: what merging `hints` alone comes to, without making them.

        Without a NUMA policy, and on a machine of one zone under SingleNUMANode, admitted without a mask. BestEffort is always admitted;
        only `distribute` finds out whether its mask has enough. On nodes of more than 8 zones the mask may be wider than the narrowest one.
        """

    def hints(self) -> dict[str, list[Hint]]:
        """Return, for each requested resource that some zone has, the sets of zones it could come from, smaller ones first.

        On nodes of up to 8 zones all; on others those of the smallest size that has any, and the widest. {}: no zone has any of them. Lists
        are shared between resources: not to be changed.
        """

    def distribute(self, mask: int) -> NumaSplit:
        """Split the request over these zones; what no zone of the node has is ignored (nodenumaresource.md §8)."""
