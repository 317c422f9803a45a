"""What keeps the secure port's certificates and authorities true goes on after a bug."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from support.virtual_loop import run_virtual

from koordsched import tasks
from koordsched.config.flags import parse_flags
from koordsched.server.access import ApiConnector, Delegation
from koordsched.server.serving_thread import secure_port
from koordsched.server.tls import ServingCertificates

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock

FOLLOWERS = [
    (ServingCertificates, "follow", "serving certificates"),
    (Delegation, "follow_files", "authority files"),
    (Delegation, "follow_cluster", "authorities of the cluster"),
]


@pytest.mark.parametrize(("owner", "method", "task"), FOLLOWERS)
def test_a_follower_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, task: str) -> None:
    begun: list[float] = []

    async def follow(_self: object) -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) < 3:
            raise KeyError("a bug")
        await asyncio.Event().wait()

    async def connect(*_: Any) -> Any:
        raise AssertionError("there is nothing to connect to")

    async def body(clock: VirtualClock) -> None:
        flags = parse_flags(["--secure-port=10259", "--cert-dir="])
        async with secure_port(flags, ApiConnector(connect, clock, Random(1))):
            await asyncio.sleep(60)
            assert tasks.restarts == {task: 2}
            tasks.restarts.clear()

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(owner, method, follow)
    with capture_logs() as logs:
        run_virtual(body)
    assert len(begun) == 3
    assert [line["err"] for line in logs if line.get("task") == task] == ["KeyError('a bug')"] * 2
