"""Creates the objects of a workload without a limit of requests: all at once over kubernetes-asyncio's client, or at a rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from koordsched.apiclient.client import Client
from koordsched.cluster.apiserver import ApiServer, RawRequest

if TYPE_CHECKING:
    from side_by_side.workload import Item

WRITERS = 32
CREATE_TIMEOUT = 600.0  # a creation waits for its turn where the API server cannot keep up


async def create_all(client: Client, items: Iterable[Item]) -> None:
    """Create them with a few requests under way at any time; the first refusal ends it."""
    rest = iter(items)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(_create_each(client, rest))


async def create_at_rate(server: ApiServer, items: Sequence[Item], rate: float) -> dict[str, float]:
    """Create `rate` of them a second, whatever the answers take; return when each was sent (monotonic seconds), by name.

    This is part of what is measured, on the cores that the competitor uses: so it goes over our own adapter, for a fifth of the CPU.
    """
    sent: dict[str, float] = {}
    requests = [(item.name, RawRequest("POST", item.path, body=msgspec.json.encode(item.body))) for item in items]
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number, (name, request) in enumerate(requests):
            await asyncio.sleep(begun + number / rate - time.monotonic())
            sent[name] = time.monotonic()
            tasks.create_task(server.raw(request))
    return sent


async def create(client: Client, item: Item) -> None:
    await client.request("POST", item.path, item.body, seconds=CREATE_TIMEOUT)
    if item.status:
        await client.request("PATCH", f"{item.path}/{item.name}/status", {"status": item.body["status"]}, seconds=CREATE_TIMEOUT)


async def _create_each(client: Client, rest: Iterable[Item]) -> None:
    for item in rest:
        await create(client, item)
