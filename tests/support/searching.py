"""What shapes say of a pod, whether or not it is restricted to some nodes: for tests that look at no whole scheduling cycle."""

from __future__ import annotations

from koordsched.api.podinfo import PodInfo
from koordsched.framework.shapes import Shapes


def feasible_rows(shapes: Shapes, pod: PodInfo) -> list[int]:
    """Return the rows that the pod may go to, nominated pods aside."""
    shape = shapes.pre_filter(pod)
    if shape.restriction is not None:
        return [int(row) for row in shapes.filter_restricted(shape, pod, shape.restriction).feasible]
    shapes.filter(shape, pod)
    return shape.evaluation.feasible_rows().tolist() if shape.feasible_count else []


def totals(shapes: Shapes, pod: PodInfo) -> dict[int, int]:
    """Return the total of each row that the pod may go to."""
    shape = shapes.pre_filter(pod)
    if shape.restriction is not None:
        rows = shapes.filter_restricted(shape, pod, shape.restriction).feasible
        return dict(zip(rows.tolist(), shapes.totals(shape, pod, rows)[1].tolist(), strict=True)) if len(rows) else {}
    shapes.filter(shape, pod)
    if not shape.feasible_count:
        return {}
    shapes.pre_score(shape, pod)
    shapes.score(shape, pod)
    return {row: shape.evaluation.scores(row)[1] for row in shape.evaluation.feasible_rows().tolist()}
