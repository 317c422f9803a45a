from collections.abc import Callable, Sequence
from typing import Any

from koordsched._core.numa import NumaRequest, NumaTable
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

class ReservedCpus(ReservedSource):
    """Which reservations have the CPUs that pods of one shape ask for, which are not designated. Knows no node with a NUMA policy."""

    def __init__(
        self,
        table: NumaTable,
        request: NumaRequest,
        exclusive: int,
        strategy_of: Callable[[Any], int],
        infos: Sequence[Any],
        nodes: dict[str, Any],
        given: dict[str, Any],
        known: dict[str, LeftCpus],
        compile_left: Callable[[str], LeftCpus],
        texts: list[str],
        *,
        demanded: bool,
    ) -> None:
        """exclusive: the pods' policy. strategy_of: whence CPUs of a node are taken first. infos: the names of rows. nodes: by name, what
        is known of CPUs (`NodeAllocations`). given: by uid the reservations that were given something. known: what these have left, filled
        by `compile_left` when it is asked for. Whoever has these keeps them up to date. texts: of refusals; codes are places there, from 1
        on. demanded: the pod may only go where it is given a reservation, which texts then say.
        """
