"""The secure port: its certificates and its gate, both kept true to files and cluster for as long as it is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from koordsched.config import Flags
from koordsched.log import get_logger
from koordsched.server.access import Delegation, World
from koordsched.server.ports import Port
from koordsched.server.tls import ServingCertificates

log = get_logger(__name__)


@asynccontextmanager
async def secure_port(flags: Flags, world: World) -> AsyncIterator[Port]:
    """Make the port that the flags ask for; StartError when a file, a kubeconfig or a name in them cannot be used."""
    delegation = Delegation(flags, world)
    try:
        gate = await delegation.start()
        certificates = ServingCertificates(flags, world.clock.now(), clients_show_theirs=delegation.asks_for_certificates)
        port = Port(flags.bind_address, flags.secure_port, certificates.context, gate, flags.permit_port_sharing)
        async with _beside(certificates.follow(), delegation.follow_files(), delegation.follow_cluster()):
            yield port
    finally:
        await delegation.close()


@asynccontextmanager
async def _beside(*followers: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let these run for the length of a block."""
    tasks = [asyncio.create_task(follower) for follower in followers]
    for task in tasks:
        task.add_done_callback(_say_why)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _say_why(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.exception("certificates and authorities are not followed any more", exc_info=error)
