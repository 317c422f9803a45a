"""The standing check of a scheduler on the embedded cluster, run by hand, and what it counted."""

from __future__ import annotations

from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scheduler.debugger import StandingCheck
from koordsched.scheduler.debugger.standing_check import TURNS
from support.stages import metric


def standing_check(world: EmbeddedCluster) -> StandingCheck:
    scheduler = world.scheduler
    return StandingCheck(scheduler._sources(), scheduler._informers, scheduler.metrics)


async def check_all(world: EmbeddedCluster, check: StandingCheck | None = None) -> None:
    """Let the check compare everything once."""
    check = check or standing_check(world)
    for _ in range(TURNS):
        await check.check_part()


def drift(world: EmbeddedCluster, kind: str) -> float:
    return metric(world, f'koord_scheduler_cache_drift_total{{kind="{kind}"}}')


def all_drift(world: EmbeddedCluster) -> str:
    """Return all that was counted, as the text format has it."""
    lines = world.scheduler.metrics.text().decode().splitlines()
    return "\n".join(line for line in lines if line.startswith("koord_scheduler_cache_drift_total"))
