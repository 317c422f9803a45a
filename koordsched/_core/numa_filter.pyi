from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_joint import KeptAffinities

class NumaReason(IntEnum):
    """Why a node is refused, in the order in which it is looked at."""

    PASS = 0
    POLICY_MISMATCH = 1  # pod and node have different NUMA policies
    NOT_INTEGER = 2  # CPUs are to be bound, but a fraction of one is requested
    INVALID_RATIO = 3  # the node's amplification cannot be read
    AMPLIFIED_CPU = 4  # too little cpu once that of bound pods is amplified
    INVALID_TOPOLOGY = 5  # CPUs are to be bound (or are amplified), but they are not known
    BIND_CONFLICT = 6  # pod and node require different bind policies
    NOT_WHOLE_CORES = 7  # whole cores are required, but a part of one is requested
    NOT_ENOUGH_CPUS = 8
    MISSING_ZONES = 9  # there is a NUMA policy, but no zones
    INSUFFICIENT = 10  # all zones together have too little of some resources
    UNSATISFIED = 11  # no set of zones would do for some resources
    UNALIGNED = 12  # there are sets, but none that all resources can come from
    HINTS_REFUSED = 13  # another plugin has no set of zones
    TRIAL_REFUSED = 14  # another plugin cannot allocate from the zones chosen

def filter_numa(
    table: NumaTable,
    request: NumaRequest,
    rows: NDArray[np.int32],
    source: NumaHintSource | None = None,
    scoring: NumaScoring | None = None,
    kept: KeptAffinities | None = None,
) -> NDArray[np.int32]:
    """Return a code per row; 0: the row could give the pod the CPUs and NUMA nodes that it asks for. Without the GIL.

    source: the hints of another plugin, merged with those of the zones where Filter aligns; then scoring chooses between sets of zones
    (TypeError without it), and kept takes the affinities found. Equal codes mean equal texts for pods of this request and source.
    O(rows x zones x resources); for rows that are UNALIGNED O(sets of zones).
    """

def reason_of(code: int) -> NumaReason: ...
def resources_of(request: NumaRequest, code: int) -> tuple[str, ...]:
    """Return the names of the resources that an INSUFFICIENT or UNSATISFIED code concerns, sorted; () for other codes."""

def source_code_of(code: int) -> int:
    """Return the source's own code of a HINTS_REFUSED or TRIAL_REFUSED code; 0 for other codes."""
