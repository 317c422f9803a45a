from collections.abc import Callable, Sequence
from typing import Any

from koordsched._core.compiled_holdings import CompiledHoldings
from koordsched._core.hint_source import NumaHintSource
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.pod_index import PodIndex
from koordsched._core.removal_filter import RemovalFilter

HeldInZones = Sequence[tuple[int, int, int]]
"""NUMA id, resource id, amount (>= 0); what the zone does not have is left out."""

class NumaHoldings(CompiledHoldings):
    """What the pods of an index hold of zones."""

    def __init__(self, table: NumaTable, pods: PodIndex, held_by: Callable[[int, list[Any]], Sequence[HeldInZones] | None]) -> None:
        """held_by: (row, pods) -> what each of the pods holds there; None: removing one would not just make free what it holds."""

class NumaRemovals(RemovalFilter):
    """Filter's answers about zones while pods are removed, as `filter_numa` gives them of the row as it would be then.

    It does not know what it would say of rows where the pod gets CPUs of its own, or where cpu is amplified.
    """

    def __init__(
        self,
        holdings: NumaHoldings,
        request: NumaRequest,
        scoring: NumaScoring | None = None,
        source: NumaHintSource | None = None,
        needs: tuple[RemovalFilter, ...] = (),
    ) -> None:
        """source: the hints of another plugin, merged as in `filter_numa`; then needs has the kernel that its columns follow.

        TypeError for a source without a scoring.
        """
