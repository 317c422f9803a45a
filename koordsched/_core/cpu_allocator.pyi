from collections.abc import Mapping, Sequence

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpuset import CpuTopology

NOT_ENOUGH_CPUS: str
UNSATISFIED: str  # followed by a space and the bind policy's name

class CpuShortage(Exception):
    """The request cannot be met; the text is the reason (nodenumaresource.md §6)."""

class NodeCpus:
    """The holders of the CPUs of a machine, and allocation of free CPUs (nodenumaresource.md §3, §6, §7).

    A CPU is free while it has fewer than `max_ref_count` holders. The state is a multiset: it does not depend on the order in which holders
    came and went. Exclusive policies are those of all holders of a CPU, where Koordinator keeps that of the last; they differ only while
    a CPU has several. CPU sets are integers; CPUs that the topology lacks are ignored.
    """

    max_ref_count: int

    def __init__(self, topology: CpuTopology, max_ref_count: int = 1) -> None: ...
    @property
    def topology(self) -> CpuTopology: ...
    def copy(self) -> NodeCpus:
        """Return the same holders in an object of their own."""

    def add(self, cpus: int, exclusive: int) -> None:
        """Add a holder of these CPUs under an exclusive policy (0: none, 1: of cores, 2: of NUMA nodes)."""

    def remove(self, cpus: int, exclusive: int) -> None:
        """Take a holder away that was added with the same arguments; CPUs without a holder stay so."""

    @property
    def bound(self) -> int:
        """The CPUs that have a holder."""

    def ref_count(self, cpu: int) -> int:
        """Return the number of a CPU's holders."""

    def exclusive_of(self, cpu: int) -> int:
        """Return the exclusive policy that a CPU is held under, the wider one if its holders' differ."""

    def free(self, reserved: int = 0, restored: Sequence[int] = ()) -> int:
        """Return the CPUs that may have one more holder and are not reserved.

        Each restored set counts as one holder fewer of each of its CPUs (the CPUs of a reservation's owner, of a victim).
        """

    def allocate(
        self,
        request: CpuRequest,
        reserved: int = 0,
        preferred: int = 0,
        restored: Sequence[int] = (),
        numa_amounts: Mapping[int, int] | None = None,
    ) -> int:
        """Return free CPUs for a request (§6); nothing is recorded. CpuShortage when there are not enough, or not of the kind required.

        `preferred` CPUs are restored, and taken before others. numa_amounts: milli cpu by NUMA id that the CPUs must come from, exactly;
        fractions of a CPU do not count. O(CPUs).
        """

    def take(self, available: int, request: CpuRequest) -> int:
        """Return some of the available CPUs by the accumulator alone (§7). CpuShortage when there are too few."""
