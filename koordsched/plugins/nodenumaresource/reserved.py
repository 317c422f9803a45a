"""Which reservations of a node have the CPUs, and the amounts in NUMA nodes, that a pod asks for (nodenumaresource.md §12).

What the kernel (`_core.cpu_reserved`) asks besides its columns, for the pods of one shape, and the refusals that it comes to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.cpu_reserved import RESERVED_CODE
from koordsched.framework.reservation_filters import TRIED
from koordsched.framework.status import Status, unschedulable
from koordsched.framework.topologymanager import merged_status
from koordsched.plugins.nodenumaresource.reasons import SHORT_OF_CPUS, insufficient

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched._core.hint_source import NumaHintSource
    from koordsched._core.numa_facts import Merged, NumaSplit
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.row_refusals import StatusCodes
    from koordsched.framework.topologymanager import NumaHintProvider
    from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations


class AlignmentAnswers:
    """What the kernel asks about the pods of one shape (`_core.cpu_reserved.AlignmentAnswers`)."""

    def __init__(
        self,
        state: CycleState,
        pod: PodInfo,
        providers: list[NumaHintProvider],
        *,
        strategy_on: Callable[[NodeAllocations], int],
        explain: Callable[[int], Status],
        codes: StatusCodes,
    ) -> None:
        """providers: the others with hints for the pod. explain: a code of `joint_affinity`."""
        known = [provider for provider in providers if provider.hint_source(state, pod) is not None]
        self.others = len(providers) if known == providers else len(providers) + 1
        self._pod = pod
        self._question = state.clone()
        self._providers = providers
        self.strategy_on = strategy_on
        self.explain = explain
        self._codes = codes

    def hints(self, reservation: str | None) -> NumaHintSource | None:
        self._question.write(TRIED, reservation or "")
        return self._providers[0].hint_source(self._question, self._pod)

    def unmerged(self, merged: Merged) -> Status | None:
        return merged_status(merged)

    def number(self, refusal: Status | str) -> int:
        """Return the number of a refusal; a text is one for its sake."""
        return self._codes.code_of(unschedulable(refusal) if isinstance(refusal, str) else refusal)

    def short(self, split: NumaSplit) -> Status:
        return insufficient(split.short) if split.short else SHORT_OF_CPUS


def explain_reserved(codes: StatusCodes, code: int) -> Status:
    """Return the refusal of a code of the kernel. codes: those that its answers were numbered with."""
    status = codes.status_of(code & ~RESERVED_CODE)
    return of_reservation(status) if code & RESERVED_CODE else status


def of_reservation(refusal: Status) -> Status:
    """Return the refusal that says of a reservation what this one says of a node."""
    return Status(refusal.code, tuple(f"Reservation(s) {reason}" for reason in refusal.reasons))
