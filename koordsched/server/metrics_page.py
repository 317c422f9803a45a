"""The page of metrics: values are read on the scheduling loop, text is made of them in the serving thread, both in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.metrics import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.metrics import Collector, Family, MetricRules
    from koordsched.server.scheduling_loop import SchedulingLoop
    from koordsched.slices import Slices


async def metrics_page(collectors: Sequence[Collector], rules: MetricRules, loop: SchedulingLoop, work: Slices) -> bytes:
    """Return what the rules let be seen of these collectors, in Prometheus' text format."""

    async def collected() -> list[Family]:
        families: list[Family] = []
        with work:
            for collector in collectors:
                families += collector.collect()
                await work.pause()
        return families

    families = await loop.run(collected)
    pieces = []
    with work:
        for family in families:
            pieces.append(text_of([family], rules))
            await work.pause()
    return b"".join(pieces)
