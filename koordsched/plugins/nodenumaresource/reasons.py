"""Every refusal text of the plugin, and what the codes of `_core.numa_filter` mean (nodenumaresource.md §15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.numa_filter import NumaReason, reason_of, resources_of
from koordsched.framework.status import Status, error, unresolvable, unschedulable
from koordsched.framework.topologymanager import UNALIGNED, UNSATISFIED

if TYPE_CHECKING:
    from koordsched._core.numa import NumaRequest, NumaTable

FRACTIONAL_CPUS = unresolvable("the requested CPUs must be integer")
POLICY_MISMATCH = unresolvable("node(s) NUMA Topology policy not match")
INVALID_TOPOLOGY = "node(s) invalid CPU Topology"
NOT_ENOUGH_CPUS = "not enough cpus available to satisfy request"
INSUFFICIENT = "Insufficient NUMA {resource}"
NO_ZONES = unresolvable("insufficient resources on NUMA Node")
NO_TOPOLOGY_TO_RESERVE = error(INVALID_TOPOLOGY)

FIXED = {
    NumaReason.POLICY_MISMATCH: POLICY_MISMATCH,
    NumaReason.NOT_INTEGER: FRACTIONAL_CPUS,
    NumaReason.INVALID_RATIO: unresolvable("node(s) invalid CPU amplification ratio"),
    NumaReason.AMPLIFIED_CPU: unschedulable("Insufficient amplified cpu"),
    NumaReason.INVALID_TOPOLOGY: unresolvable(INVALID_TOPOLOGY),
    NumaReason.BIND_CONFLICT: unresolvable("node(s) cpu bind policy conflicts with pod's required cpu bind policy"),
    NumaReason.NOT_WHOLE_CORES: unresolvable("node(s) requested cpus not multiple cpus per core"),
    NumaReason.NOT_ENOUGH_CPUS: unschedulable(NOT_ENOUGH_CPUS),
    NumaReason.MISSING_ZONES: unresolvable("node(s) missing NUMA resources"),
}
MISSING_ZONES = FIXED[NumaReason.MISSING_ZONES]
SHORT_OF_CPUS = FIXED[NumaReason.NOT_ENOUGH_CPUS]

NUMBERED = 15
"""The reason of codes that `NumberedRefusals` gives out; no NumaReason, which takes the lowest four bits of a code."""
_REASON_BITS = 4
_REASON_MASK = (1 << _REASON_BITS) - 1


def insufficient(resources: tuple[str, ...]) -> Status:
    """Return the refusal for want of these resources, one reason each."""
    return unschedulable(*(INSUFFICIENT.format(resource=name) for name in resources))


def explain(code: int, table: NumaTable, request: NumaRequest) -> Status:
    """Return the refusal that a code of `filter_numa` stands for."""
    reason = reason_of(code)
    if reason is NumaReason.INSUFFICIENT:
        return insufficient(resources_of(request, code))
    if reason is NumaReason.UNSATISFIED:
        return unschedulable(*(UNSATISFIED.format(resource=name) for name in resources_of(request, code)))
    if reason is NumaReason.UNALIGNED:
        return unschedulable(UNALIGNED.format(summary=table.summary_of(code)))
    return FIXED[reason]


class NumberedRefusals:
    """Refusals of nodes that were looked at one by one, numbered as they appear: codes that no kernel gives out."""

    def __init__(self) -> None:
        self._numbers: dict[Status, int] = {}
        self._statuses: list[Status] = []

    def code(self, status: Status) -> int:
        """Return the refusal's code."""
        found = self._numbers.get(status)
        if found is None:
            found = self._numbers[status] = len(self._statuses)
            self._statuses.append(status)
        return found << _REASON_BITS | NUMBERED

    def status(self, code: int) -> Status | None:
        """Return the refusal of a code; None when it is a kernel's."""
        return self._statuses[code >> _REASON_BITS] if code & _REASON_MASK == NUMBERED else None
