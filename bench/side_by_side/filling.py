"""Creates the objects of a workload, all at once or at a rate, over our own adapter without a limit of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from koordsched.cluster.apiserver import ApiServer, RawRequest

if TYPE_CHECKING:
    from side_by_side.workload import Item

WRITERS = 32


async def create_all(cluster: ApiServer, items: Iterable[Item]) -> None:
    """Create them with a few requests under way at any time; the first refusal ends it."""
    rest = iter(items)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(_create_each(cluster, rest))


async def create_at_rate(cluster: ApiServer, items: Sequence[Item], rate: float) -> dict[str, float]:
    """Create `rate` of them a second, whatever the answers take; return when each was sent (monotonic seconds), by name."""
    sent: dict[str, float] = {}
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number, item in enumerate(items):
            await asyncio.sleep(begun + number / rate - time.monotonic())
            sent[item.name] = time.monotonic()
            tasks.create_task(create(cluster, item))
    return sent


async def create(cluster: ApiServer, item: Item) -> None:
    await cluster.raw(RawRequest("POST", item.path, body=item.body))


async def _create_each(cluster: ApiServer, rest: Iterable[Item]) -> None:
    for item in rest:
        await create(cluster, item)
