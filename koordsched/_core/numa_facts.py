"""What a `NumaTable` is given about nodes and pods, and what merges of hints work on: plain values.

Amounts are keyed by resource id (those of the node table), zones by NUMA id (0..63). A "zone" is a NUMA node whose amounts are known;
CPUs may also lie in NUMA nodes that are no zone, so the counts of a whole node can exceed the sum over its zones. Policies are the numbers
of numa.pxd (BIND_, NUMA_, EXCLUSIVE_), 0 being none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MALFORMED_RATIO = -1.0  # NumaNode.checked_ratio that cannot be read


class TopologyState(IntEnum):
    """What is known of a node's CPUs."""

    NONE = 0  # the node was not described
    INVALID = 1  # it was described, but not its CPUs
    VALID = 2


class NumaStatus(IntEnum):
    """Which pods have CPUs on a NUMA node."""

    IDLE = 0  # none
    SINGLE = 1  # only pods whose CPUs all lie there
    SHARED = 2  # also pods with CPUs elsewhere


class CpuCounts(NamedTuple):
    """CPUs of a node or of one of its NUMA nodes, counted."""

    bound: int = 0  # some pod is bound to them
    free: int = 0  # may still be given out: neither reserved nor bound as often as allowed
    full: int = 0  # free, and so are all others of their core
    first: int = 0  # cores with a free CPU


class NumaNode(NamedTuple):
    """What changes with the node or its topology."""

    topology: TopologyState = TopologyState.NONE
    cpus_per_core: int = 1
    zones: Mapping[int, Mapping[int, int]] = {}  # NUMA id -> resource id -> amount, amplified
    bind_policy: int = 0  # demanded of every pod that requests cpu
    numa_policy: int = 0
    ratio: float = 1.0  # by which cpu in `zones` and in the node's allocatable is amplified; <= 1: not at all
    checked_ratio: float = 1.0  # that which the node itself states, or MALFORMED_RATIO


class ZoneUsage(NamedTuple):
    """What pods have of one NUMA node."""

    allocated: Mapping[int, int] = {}  # resource id -> amount, not amplified
    cpus: CpuCounts = CpuCounts()
    status: NumaStatus = NumaStatus.IDLE


class NumaUsage(NamedTuple):
    """What changes with the node's pods."""

    cpus: CpuCounts = CpuCounts()  # of the whole node
    zones: Mapping[int, ZoneUsage] = {}  # a NUMA node that is not named is unused and has no free CPUs


class NumaPolicies(NamedTuple):
    """What a pod asks for beyond amounts (nodenumaresource.md §4)."""

    bind_policy: int = 0  # 0: the pod itself does not ask to be bound
    required_bind_policy: int = 0
    numa_policy: int = 0
    exclusive: int = 0  # 0: the pod names none


class Restored(NamedTuple):
    """What a pod may take besides what is free on one node: that of its reservations and victims (nodenumaresource.md §8, §12)."""

    reusable: Mapping[int, Mapping[int, int]] = {}  # NUMA id -> resource id -> amount that counts as not allocated
    cpus: NumaUsage | None = None  # the CPU counts with the CPUs given back; None: as in the table. Its amounts are not read
    available: Mapping[int, Mapping[int, int]] | None = None  # all there is for the pod, whatever is free; None: what is free


class Hint(NamedTuple):
    """One set of NUMA nodes that could serve a request (nodenumaresource.md §9)."""

    mask: int | None  # bit i: NUMA node i; None: any
    score: int = 0
    preferred: bool = False


class HintAnswer(NamedTuple):
    """What a `hint_source.HintTable` answers about one row."""

    named: frozenset[str] = frozenset()  # the resources that have these hints; none: any NUMA nodes would do
    hints: Sequence[tuple[int, int]] = ()  # mask and score, smaller masks first, then by members; the narrowest are preferred
    code: int = 0  # > 0: the node is refused as a whole
    refused: Mapping[int, int] = {}  # mask (0: no affinity) -> code of the trial that fails


class Machine(NamedTuple):
    """The facts of one node that restrict a merge of hints. Masks have bit i for NUMA node i."""

    policy: int
    exclusive: int
    zones: int  # all NUMA nodes
    shared: int = 0  # those of NumaStatus.SHARED
    single: int = 0  # those of NumaStatus.SINGLE


class Merged(NamedTuple):
    """The result of a merge of hints."""

    mask: int | None  # the NUMA nodes to take from; None: no affinity
    admitted: bool
    unsatisfied: tuple[str, ...] = ()  # resources for which no set of NUMA nodes would do, by name
    summary: str = ""  # what was asked for, if it could not be aligned


class NumaSplit(NamedTuple):
    """How a request is split over NUMA nodes, or why it is not (nodenumaresource.md §8)."""

    amounts: dict[int, dict[int, int]]  # NUMA id -> resource id -> amount > 0
    short: tuple[str, ...] = ()  # resources of which there is not enough, by name
    lacks_cpus: bool = False  # there would be enough cpu, but not as CPUs that the pod can be bound to
