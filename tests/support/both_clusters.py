"""The real cluster and the embedded one, asked the same through the port, so that what they answer can be compared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from koordsched.clock import RealClock
from koordsched.cluster.apiserver.adapter import ApiServer, RawRequest
from koordsched.cluster.apiserver.calls import object_path
from koordsched.cluster.apiserver.connection import connect
from koordsched.cluster.apiserver.settings import ConnectionSettings
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import Cluster, ClusterError, Ref
from support.controlplane.plane import ControlPlane

Json = dict[str, Any]
SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


class Both:
    """The real cluster and the embedded one."""

    def __init__(self, real: ApiServer, embedded: MemoryCluster) -> None:
        self.real = real
        self.embedded = embedded

    async def on_each(self, work: Callable[[Cluster], Awaitable[Any]]) -> list[str]:
        """Do the same on both; return what each answered: "" or the error's status and text."""
        return [await answer(work(self.real)), await answer(work(self.embedded))]

    async def stored(self, ref: Ref) -> list[Json]:
        """Return the object as each has it, without what is each server's own."""
        raw = msgspec.json.decode(await self.real.raw(RawRequest("GET", object_path(ref.kind, ref.namespace, ref.name))))
        return [without_servers_own(raw), without_servers_own(self.embedded.raw(ref))]


async def answer(work: Awaitable[Any]) -> str:
    try:
        await work
    except ClusterError as error:
        return f"{error.status} {in_order(error.message)}"
    return ""


def in_order(message: str) -> str:
    """Return a text that lists several mistakes, which an API server names in random order, with them sorted."""
    head, _, listed = message.partition("[")
    return (
        f"{head}[{', '.join(sorted(re.split(r', (?=spec|status)', listed[:-1])))}]"
        if listed.endswith("]") and "is invalid: " in head
        else message
    )


def without_servers_own(raw: Mapping[str, Any]) -> Json:
    return {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key not in SERVERS_OWN}}


def on_both(plane: ControlPlane, tmp_path: Path, script: Callable[[Both], Awaitable[None]]) -> None:
    """Run a script on the test's control plane and an embedded cluster."""

    async def run() -> None:
        clock, kubeconfig = RealClock(), plane.kubeconfig().write(tmp_path / "kubeconfig")
        real = await connect(ConnectionSettings(kubeconfig=str(kubeconfig), qps=5000, burst=5000), clock, Random(1))
        try:
            await script(Both(real, MemoryCluster(clock, random=Random(1))))
        finally:
            await real.close()

    asyncio.run(run())
