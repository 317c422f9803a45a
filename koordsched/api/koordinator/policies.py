"""Policies of CPU and NUMA allocation. Their texts are in `pods` and `nodes`.

The numbers are what columns and kernels carry: enumerators in `numa.pxd`, `cpu_accumulator.pxd` and `cpu_availability.pxd` of `_core`; a
policy is added in both places.
"""

from enum import IntEnum


class CpuBindPolicy(IntEnum):
    """Which CPUs a pod is bound to. NONE: its CPUs may be any."""

    NONE = 0
    FULL_PCPUS = 1  # whole cores
    SPREAD_BY_PCPUS = 2  # one CPU of a core


class CpuExclusivePolicy(IntEnum):
    """With whom of the same policy a pod would rather not share a core or a NUMA node."""

    NONE = 0
    PCPU_LEVEL = 1
    NUMA_NODE_LEVEL = 2


class AllocateStrategy(IntEnum):
    """Which NUMA nodes and sockets are taken from first."""

    LEAST = 0  # the emptiest
    MOST = 1  # the fullest
    DISTRIBUTE_EVENLY = 2  # as many CPUs from each NUMA node as the others (opt-in, nodenumaresource.md D12)


class NumaTopologyPolicy(IntEnum):
    """How strictly a pod's resources must come from few NUMA nodes."""

    NONE = 0
    BEST_EFFORT = 1
    RESTRICTED = 2
    SINGLE_NUMA_NODE = 3


class NumaExclusive(IntEnum):
    """Whether pods of one NUMA node and pods of several may share one."""

    NONE = 0
    PREFERRED = 1
    REQUIRED = 2
