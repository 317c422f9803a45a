from collections.abc import Iterable
from typing import NamedTuple

from koordsched._core.numa_facts import CpuCounts

class CpuPlace(NamedTuple):
    """Where a CPU sits. Core ids may repeat from socket to socket."""

    id: int
    core: int
    socket: int
    node: int

class CpuTopology:
    """The online CPUs of a machine (nodenumaresource.md §2). Immutable; equal when all CPUs sit alike; hashable.

    CPU sets are integers, bit i being CPU i; CPUs that the topology lacks are left out of any set it is given. ValueError for more than
    4096 CPUs, a CPU twice, a CPU id outside 0..4095, a NUMA node outside 0..63 and core or socket ids that are negative or no int32.
    """

    def __init__(self, details: Iterable[CpuPlace]) -> None: ...
    @property
    def details(self) -> tuple[CpuPlace, ...]:
        """All CPUs, ascending by id."""

    @property
    def all(self) -> int:
        """All CPUs as a set."""

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The NUMA ids, ascending."""

    @property
    def num_cpus(self) -> int: ...
    @property
    def num_cores(self) -> int: ...
    @property
    def num_nodes(self) -> int:
        """NUMA nodes; one that spans sockets counts once a socket, as in Koordinator."""

    @property
    def num_sockets(self) -> int: ...
    @property
    def cpus_per_core(self) -> int:
        """The most online threads that a core has; 0 without CPUs (D19)."""

    @property
    def cpus_per_node(self) -> int: ...
    @property
    def cpus_per_socket(self) -> int: ...
    @property
    def is_uneven(self) -> bool:
        """Whether some core has fewer online threads than `cpus_per_core`."""

    @property
    def is_valid(self) -> bool:
        """Whether there are CPUs."""

    def cpus_of_node(self, node: int) -> int:
        """Return the CPUs of a NUMA node; 0 for one that is not there."""

    def full_cores(self, cpus: int) -> int:
        """Return the CPUs of those cores of which all online threads are among the given CPUs. O(CPUs)."""

    def counts(self, bound: int, free: int) -> dict[int, CpuCounts]:
        """Count these CPUs by NUMA id; `full` and `first` are of the free ones. O(CPUs)."""

    def first_of_cores(self, cpus: int) -> int:
        """Return the lowest of the CPUs of each core. O(CPUs)."""
