"""The plain port answers all clients, so it answers nothing that is dear or changes something."""

from __future__ import annotations

import pytest

from koordsched.config.flags import parse_flags
from koordsched.server.http import HttpRequest
from koordsched.server.serving_thread import PlainPortFilter, plain_port


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/debug/compare"),
        ("GET", "/debug/cache?limit=1"),
        ("GET", "/debug/pprof"),
        ("GET", "/%64ebug/pprof/heap"),
        ("GET", "/debug"),
        ("PUT", "/debug/flags/v"),
        ("DELETE", "/metrics"),
        ("DELETE", "/metrics/slis"),
        ("POST", "/apis/v1/explain"),
    ],
)
async def test_what_is_dear_or_changes_something_is_refused_and_the_secure_port_is_named(method: str, target: str) -> None:
    refusal = await PlainPortFilter(10259).refusal(HttpRequest.of(method, target))
    assert refusal is not None
    assert refusal.status == 403
    assert refusal.body == b"the plain port answers health, metrics and cheap reads only: ask the secure port, 10259\n"


@pytest.mark.parametrize(
    "target",
    ["/healthz", "/livez/ping", "/readyz?verbose", "/metrics", "/metrics/resources", "/configz", "/apis/v1/__services__", "/debugging"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
async def test_what_is_cheap_is_answered(method: str, target: str) -> None:
    assert await PlainPortFilter(10259).refusal(HttpRequest.of(method, target)) is None


async def test_a_secure_port_that_is_off_is_said() -> None:
    refusal = await PlainPortFilter(0).refusal(HttpRequest.of("GET", "/debug/cache"))
    assert refusal is not None
    assert b"--secure-port=0 turns off" in refusal.body


def test_the_port_is_that_of_the_flags() -> None:
    port = plain_port(parse_flags(["--port=1234", "--address=127.0.0.1"]))
    assert (port.url, port.tls) == ("http://127.0.0.1:1234", None)
    assert port.filter is not None
