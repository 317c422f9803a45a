"""The secure port: its certificates and its gate, both kept true to files and cluster for as long as it is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from koordsched.config import Flags
from koordsched.server.access import Delegation, World
from koordsched.server.ports import Port
from koordsched.server.tls import ServingCertificates
from koordsched.tasks import Tasks


@asynccontextmanager
async def secure_port(flags: Flags, world: World) -> AsyncIterator[Port]:
    """Make the port that the flags ask for; StartError when a file, a kubeconfig or a name in them cannot be used."""
    delegation, following = Delegation(flags, world), Tasks(world.random)
    try:
        gate = await delegation.start()
        certificates = ServingCertificates(flags, world.clock.now(), clients_show_theirs=delegation.asks_for_certificates)
        port = Port(flags.bind_address, flags.secure_port, certificates.connection, gate, flags.permit_port_sharing)
        following.keep("serving certificates", certificates.follow)
        following.keep("authority files", delegation.follow_files)
        following.keep("authorities of the cluster", delegation.follow_cluster)
        yield port
    finally:
        await following.end()
        await delegation.close()
