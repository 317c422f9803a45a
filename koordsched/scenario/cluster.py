"""The port between a scenario and the cluster that it runs on.

`scenario.embedded` implements it for the embedded cluster, `scenario.live` for a real API server. Objects go in and come out as JSON.
Every method may raise `ClusterError` as `koordsched.cluster.port` describes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from koordsched.api.kinds import Kind
from koordsched.cluster.port import Ref
from koordsched.config.loading import Launch


class HttpAnswer(msgspec.Struct, frozen=True):
    """What the scheduler's secure port answers; status 0: it does not answer yet."""

    status: int
    body: bytes


class ScenarioCluster(Protocol):
    """A cluster and one scheduler on it, which is not running until `start`."""

    def now(self) -> float:
        """Return the cluster's time in seconds since the epoch."""

    async def start(self) -> None:
        """Start the scheduler; return when it has seen all that exists."""

    async def restart(self) -> None:
        """End the scheduler's process without warning and start another: only the cluster's objects survive."""

    async def sleep(self, seconds: float) -> None: ...

    async def settle(self) -> None:
        """Give the scheduler the chance to react to what was just written; at once where that cannot be known."""

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """Create the object with its status."""

    async def patch(self, ref: Ref, merge: Mapping[str, Any]) -> None:
        """Apply a JSON merge patch; its `status` goes through the status subresource."""

    async def delete(self, ref: Ref) -> None:
        """Delete the object, a pod with grace period 0."""

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        """Return the object, or None when there is none."""

    async def list(self, kind: Kind) -> Sequence[dict[str, Any]]:
        """Return all objects of the kind in all namespaces; none when the cluster does not serve the kind."""

    async def http(self, path: str) -> HttpAnswer:
        """GET a path of the scheduler's secure port."""


class BackendError(Exception):
    """No scenario can run on the backend; the text says why in one line."""


Script = Callable[[ScenarioCluster], Awaitable[None]]


class Backend(Protocol):
    """Makes the clusters that scenarios run on."""

    def run(self, launch: Launch, script: Script) -> None:
        """Run the script on a fresh cluster whose scheduler is started so; clear it away after. BackendError."""

    def notes(self) -> Sequence[str]:
        """Return what else the user should know about what ran, a line each: plugins that the scheduler does not have."""


def named(ref: Ref) -> str:
    """Return kind and name of an object, for a message."""
    return f"{ref.kind.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind.kind} {ref.name}"
