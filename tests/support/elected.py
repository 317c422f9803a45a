"""What a test of leader election needs beside a server: the lease, and clients of one cluster of which one writes at a time."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from koordsched.api.kinds import LEASE
from koordsched.clock import RealClock
from koordsched.cluster.apiserver import ConnectionSettings
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import NotFound, Ref

LEASE_REF = Ref(LEASE, "kube-system", "kube-scheduler")
WRITES = frozenset({"bind", "create", "delete", "evict", "patch", "update"})


class Leases(MemoryCluster):
    """The API server as the elector sees it."""

    def __init__(self) -> None:
        super().__init__(RealClock(), random=Random(2))
        self.settings: ConnectionSettings | None = None
        self.closed = False

    async def close(self) -> None:
        self.closed = True

    async def check(self) -> None:
        pass

    @property
    def spec(self) -> dict[str, Any]:
        """What the Lease says; nothing while there is none."""
        try:
            found: dict[str, Any] = self.raw(LEASE_REF)["spec"]
        except NotFound:
            return {}
        return found

    async def hold(self, holder: str) -> None:
        """Let another scheduler hold the lease."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
        await self.create(LEASE, {"metadata": {"namespace": "kube-system", "name": "kube-scheduler"}, "spec": spec})


class Client:
    """A cluster as one scheduler reaches it: what it writes is counted."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.written: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in WRITES:
            self.written[name] += 1
        return getattr(self._cluster, name)
