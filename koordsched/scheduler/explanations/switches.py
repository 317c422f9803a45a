"""DebugSwitches: which decisions are logged. Set by --debug-scores, --debug-filters and --debug-diagnosis*, changed by PUT /debug/flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koordsched.config.flag_table import Flags


class DebugSwitches:
    """Read and changed on the scheduler's loop."""

    __slots__ = ("blocking", "diagnosis", "filters", "top_scores")

    def __init__(self, flags: Flags) -> None:
        self.top_scores = flags.debug_scores  # of so many nodes; 0 or less: of none
        self.filters = flags.debug_filters
        self.diagnosis = flags.debug_diagnosis
        self.blocking = flags.debug_diagnosis_blocking  # whether the diagnosis is written before the next pod is tried
