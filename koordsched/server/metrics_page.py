"""The pages of metrics: values are read on the scheduling loop, text is made of them in the serving thread, both in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.scheduler.measures import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.metrics_core import Metric

    from koordsched.scheduler.measures import Measure
    from koordsched.scheduler.metric_rules import MetricRules
    from koordsched.server.scheduling_loop import SchedulingLoop
    from koordsched.slices import Slices

    Snapshot = Callable[[], Iterable[Metric]]


async def metrics_page(measures: Sequence[Measure], rules: MetricRules, loop: SchedulingLoop, work: Slices) -> bytes:
    """Return what the rules let be seen of these measures, in Prometheus' text format."""

    async def snapshots() -> list[Snapshot]:
        taken = []
        with work:
            for measure in measures:
                taken.append(measure.snapshot())
                await work.pause()
        return taken

    pieces = []
    taken = await loop.run(snapshots)
    with work:
        for snapshot in taken:
            pieces.append(text_of(rules.apply(snapshot())))
            await work.pause()
    return b"".join(pieces)
