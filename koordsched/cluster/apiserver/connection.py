"""From the operator's settings to a connected adapter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.cluster.apiserver.adapter import ApiServer
from koordsched.cluster.apiserver.credentials import Fixed
from koordsched.cluster.apiserver.identity import Identity
from koordsched.cluster.apiserver.kubeconfig import read_kubeconfig, server_url
from koordsched.cluster.apiserver.settings import ConnectError, ConnectionSettings
from koordsched.cluster.apiserver.target import Target, in_cluster_target
from koordsched.cluster.apiserver.transport import ApiTransport

if TYPE_CHECKING:
    from random import Random

    from koordsched.clock import Clock


async def connect(settings: ConnectionSettings, clock: Clock, random: Random) -> ApiServer:
    """Return an adapter with its first credential in hand; nothing is asked of the API server yet (see `ApiServer.check`).

    ConnectError: the settings, the kubeconfig, a certificate or the credential plugin is wrong. The adapter is to be closed.
    """
    target = await asyncio.to_thread(_target, settings)
    identity = Identity(target, clock, random)
    await identity.start()
    return ApiServer(ApiTransport(target, identity, settings), identity, settings, random)


def _target(settings: ConnectionSettings) -> Target:
    """Choose as client-go does: the kubeconfig, with --master over its server; --master alone, nameless; else the pod's own cluster."""
    if settings.kubeconfig:
        return read_kubeconfig(settings.kubeconfig, settings.master)
    if not settings.master:
        return in_cluster_target(settings.service_account)
    try:
        return Target(server=server_url(settings.master, secure=False), credentials=Fixed())
    except ValueError:
        raise ConnectError(f"--master: not the address of an API server: {settings.master}") from None
