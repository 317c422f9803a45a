"""What the log says of what an API server sent, and of credentials: whole lines, for who searches the log for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs
from support.controlplane.authority import Authority
from support.virtual_loop import run_virtual, running

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.clock import Clock, RealClock, VirtualClock
from koordsched.cluster.apiserver import identity
from koordsched.cluster.apiserver.credentials import Credential, CredentialError
from koordsched.cluster.apiserver.decoding import KindDecoder
from koordsched.cluster.apiserver.identity import Identity
from koordsched.cluster.apiserver.target import Pem, Target, TlsSettings


def line(event_type: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": event_type, "object": obj}) + b"\n"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "web", "resourceVersion": "2"}, "spec": spec}


def failed(event: str, **keys: object) -> dict[str, object]:
    return {"event": event, "log_level": "error", **keys}


def heard(lines: bytes, kind: Any = POD) -> tuple[list[Any], Counter[str]]:
    """Return what is logged when a watch says this, and what is counted."""
    unreadable: Counter[str] = Counter()
    with capture_logs() as logs:
        KindDecoder(kind, unreadable).batch(lines)
    return list(logs), unreadable


def test_a_line_that_is_no_event() -> None:
    text = "an event of a watch cannot be read and is left out"
    error = "Object missing required field `object`"
    assert heard(b'{"type":"ADDED"}\n') == ([failed(text, kind="pods", error=error)], {"pods": 1})
    group = RESERVATION.plural_group
    assert heard(b'{"type":"ADDED"}\n', RESERVATION) == ([failed(text, kind=group, error=error)], {group: 1})


def test_an_event_of_an_unknown_type() -> None:
    assert heard(line("RENAMED", pod("a"))) == ([failed("an event of an unknown type is left out", kind="pods", type="RENAMED")], {})


def test_an_object_that_cannot_be_read() -> None:
    error = 'Pod "web/a" is invalid: spec.nodeName: Invalid value: 5: must be a string'
    line_ = failed("an object cannot be read and is left out", kind="pods", object="web/a", error=error)
    assert heard(line("MODIFIED", pod("a", nodeName=5))) == ([line_], {"pods": 1})


async def test_an_item_of_a_list_without_a_name_that_can_be_read() -> None:
    unreadable: Counter[str] = Counter()
    with capture_logs() as logs:
        page = await KindDecoder(POD, unreadable).page(b'{"metadata":{"resourceVersion":"9"},"items":[7]}')
    (reported,) = logs
    assert (reported["event"], reported["kind"], reported["object"]) == ("an object cannot be read and is left out", "pods", "")
    assert (page.items, unreadable) == ([], {"pods": 1})


async def test_a_streaming_list_that_breaks_off(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, streaming_lists=True)

    async def answer(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "9"}, "items": []})
        return web.json_response({"kind": "Status", "code": 500, "message": "etcd is away"}, status=500)

    server.answer = answer
    with capture_logs() as logs:
        await api.list(NODE)
    (reported,) = logs
    text = "no streaming list this time; listing in pages"
    assert reported == {"event": text, "log_level": "info", "kind": "nodes", "error": f"GET {server.url}/api/v1/nodes: 500: etcd is away"}


# Credentials


class Source:
    """Gives out a credential that lives for 100 s, once; then it raises."""

    poll_seconds = None

    def __init__(self, clock: Clock, error: Exception) -> None:
        self._clock = clock
        self._error: Exception | None = None
        self._later = error

    async def fetch(self) -> Credential:
        if self._error is not None:
            raise self._error
        self._error = self._later
        return Credential(authorization="Bearer t", expires=self._clock.now() + 100)


@pytest.mark.parametrize(
    ("error", "keys"),
    [
        (CredentialError("no mood"), {"log_level": "warning", "error": "no mood"}),
        (KeyError("a bug"), {"log_level": "error", "error": "KeyError('a bug')", "exc_info": True}),
    ],
)
def test_credentials_that_cannot_be_renewed(error: Exception, keys: dict[str, object]) -> None:
    async def body(clock: VirtualClock) -> str:
        held = Identity(Target(server="http://h", credentials=Source(clock, error)), clock, Random(1))
        await held.start()
        async with running(held.run()):
            await asyncio.sleep(80.5)
        return held.authorization

    with capture_logs() as logs:
        assert run_virtual(body) == "Bearer t"
    assert logs == [{"event": "credentials cannot be renewed; the old ones are used until that works", **keys}]


async def test_certificates_that_become_malformed(clock: RealClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "FILES_SECONDS", 0.01)
    path = tmp_path / "ca.crt"
    path.write_bytes(Authority().certificate)
    target = Target(server="https://h", credentials=Source(clock, KeyError("not yet")), tls=TlsSettings(authority=Pem("ca", str(path))))
    held = Identity(target, clock, Random(1))
    await held.start()
    async with running(held.run()), asyncio.timeout(10):
        with capture_logs() as logs:
            path.write_bytes(b"half a file")
            while not logs:  # noqa: ASYNC110  # nothing announces a log line
                await asyncio.sleep(0.01)
    text = "changed certificates cannot be used; the old ones are kept"
    assert logs[0] == {"event": text, "log_level": "warning", "error": f"ca: {path}: holds no PEM certificate"}
