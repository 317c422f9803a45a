from typing import Any, Protocol

from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import Merged, NumaSplit
from koordsched._core.reserved_source import ReservedSource

RESERVED_CODE: int
"""Set in codes of what a reservation lacks, for pods that demand one."""

class LeftCpus:
    """What a reservation has left of the CPUs that it was given."""

    def __init__(self, cpus: int, exclusive: int, *, restricted: bool) -> None:
        """exclusive: the policy under which it holds them. restricted: its owners get what it has, and nothing else."""

    @property
    def cpus(self) -> int: ...
    @property
    def exclusive(self) -> int: ...
    @property
    def restricted(self) -> bool: ...

class CpuHoldings(Protocol):
    """What pods hold of CPUs and NUMA nodes: `NumaState`. nodes: by name. given: by uid the reservations that were given something."""

    @property
    def nodes(self) -> dict[str, Any]: ...
    @property
    def given(self) -> dict[str, Any]: ...
    def compiled(self, placeholder: str) -> LeftCpus: ...
    def show_left(self, uid: str) -> None:
        """Let a reservation that holds nothing hold what it has left."""

    def hide_left(self, uid: str) -> None:
        """Undo `show_left`."""

class AlignmentAnswers(Protocol):
    """What the kernel asks of the plugin about the pods of one shape.

    others: how many other plugins have hints for the pod; more than 1: some of them no kernel can ask.
    """

    others: int

    def strategy_on(self, node: Any) -> int:
        """Return whence CPUs of a node are taken first."""

    def hints(self, reservation: str | None) -> NumaHintSource | None:
        """Return the hints of the other plugin for the pod that is given the reservation."""

    def explain(self, code: int) -> Any:
        """Return the refusal that a code of `joint_affinity` stands for."""

    def unmerged(self, merged: Merged) -> Any:
        """Return the refusal that a merge came to."""

    def short(self, split: NumaSplit) -> Any:
        """Return the refusal that a split came to."""

    def number(self, refusal: Any) -> int:
        """Return the code of a refusal, or of a text that is one, below RESERVED_CODE."""

class ReservedCpus(ReservedSource):
    """Which reservations have the CPUs, and amounts in NUMA nodes, that pods of one shape ask for, which are not designated.

    It does not know rows on which a NUMA policy holds where hints are merged otherwise than by `joint_affinity`: those under BestEffort if
    another plugin has hints, and all of them if no kernel can ask for these.
    """

    def __init__(
        self,
        table: NumaTable,
        request: NumaRequest,
        scoring: NumaScoring,
        exclusive: int,
        infos: list[Any],
        holdings: CpuHoldings,
        answers: AlignmentAnswers,
        *,
        demanded: bool,
    ) -> None:
        """exclusive: the pods' policy. infos: the names of rows.

        demanded: the pod may only go where it is given a reservation, which texts then say.
        """
