"""Why no node is feasible for a shape: its verdicts as a Diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.diagnosis import Diagnosis, Refusal
from koordsched.framework.prefilter import NodeNamesFilter
from koordsched.framework.row_refusals import RowRefusals

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.shape import Shape
    from koordsched.framework.status import Status


def diagnose(shape: Shape, pod: PodInfo, overruled: RowRefusals, total: int) -> Diagnosis:
    """Return the diagnosis of a filtered shape over `total` nodes. overruled: what only nominated pods keep from being feasible."""
    refusal, restricting = shape.pre_filtered.refusal, shape.pre_filtered.restricting
    if refusal is not None:
        return Diagnosis.of_pre_filter(total, frozenset(restricting | {refusal.plugin} - {""}), refusal)

    def status(f: int, code: int) -> Status:
        return shape.filters[f].explain(shape.state, pod, code).with_plugin(shape.filters[f].name)

    def status_of(row: int) -> Status | None:
        if row in overruled:
            return overruled.get(row)
        f, code = shape.evaluation.verdict(row)
        return None if f < 0 else status(f, code)

    refusals = [Refusal(status(f, code), count) for f, code, count in shape.evaluation.histogram()]
    refusals += counted(overruled)
    plugins = {refusal.status.plugin for refusal in refusals} - {NodeNamesFilter.name} | restricting
    diagnosis = Diagnosis(total, frozenset(plugins), refusals, status_of)
    diagnosis.exceptions = overruled
    return diagnosis


def counted(refusals: RowRefusals) -> list[Refusal]:
    """Return the refusals with their numbers of nodes."""
    return [Refusal(status, len(rows)) for status, rows in refusals.groups()]
