"""From flags to a gate: what is asked with which credentials, what is looked up, what keeps the process from starting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography import x509
from support.controlplane.authority import Authority
from support.reviewing import Reviewer

from koordsched.cluster.apiserver import ConnectError
from koordsched.cluster.port import ServerError
from koordsched.config.flags import parse_flags
from koordsched.server import StartError
from koordsched.server.access import AccessFilter, ApiConnector, Delegation
from koordsched.server.http import HttpRequest

KNOWN, PROXIES = Authority(), Authority()
KUBECONFIGS = ("--authentication-kubeconfig=/n", "--authorization-kubeconfig=/z")


class Fixed:
    """A clock at whose time certificates made now are valid."""

    def perf(self) -> float:
        return 0.0

    def uptime(self) -> float:
        return 0.0

    def now(self) -> float:
        return x509.load_pem_x509_certificate(KNOWN.certificate).not_valid_before_utc.timestamp() + 7200


class Scene:
    """What the flags came to; `settings` are those of each connection."""

    def __init__(self, server: Reviewer, delegation: Delegation, gate: AccessFilter, settings: list[Any]) -> None:
        self.server, self.delegation, self.gate, self.settings = server, delegation, gate, settings

    async def status(self, authority: Authority = KNOWN) -> int:
        """Ask as a master with a certificate of this authority."""
        shown = x509.load_pem_x509_certificates(authority.client("boss", ("system:masters",)).certificate)
        refusal = await self.gate.refusal(HttpRequest.of("GET", "/metrics", chain=tuple(shown)))
        return 0 if refusal is None else refusal.status


@asynccontextmanager
async def made(server: Reviewer, *arguments: str) -> AsyncIterator[Scene]:
    settings: list[Any] = []

    async def connect(asked: Any, _clock: object, _random: object) -> Reviewer:
        settings.append(asked)
        return server

    delegation = Delegation(parse_flags(arguments), ApiConnector(connect, Fixed(), Random(1)))
    following: list[asyncio.Task[None]] = []
    try:
        gate = await delegation.start()
        following = [asyncio.create_task(delegation.follow_files()), asyncio.create_task(delegation.follow_cluster())]
        await asyncio.sleep(0.1)
        yield Scene(server, delegation, gate, settings)
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await delegation.close()


@pytest.fixture(autouse=True)
def _outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


async def test_each_kubeconfig_has_a_connection_of_its_own_which_is_closed_in_the_end() -> None:
    server = Reviewer()
    async with made(server, *KUBECONFIGS) as scene:
        assert [settings.kubeconfig for settings in scene.settings] == ["/n", "/z"]
        assert {(settings.qps, settings.burst) for settings in scene.settings} == {(200.0, 400)}
    assert server.closed


async def test_the_clusters_authorities_are_looked_up_and_followed() -> None:
    server = Reviewer()
    async with made(server, *KUBECONFIGS) as scene:
        assert scene.delegation.asks_for_certificates
        assert await scene.status() == 403  # no authority is known yet: a certificate says nothing
        server.published = {"client-ca-file": KNOWN.certificate.decode()}
        await asyncio.sleep(11)
        assert await scene.status() == 0
        server.published = {"client-ca-file": PROXIES.certificate.decode()}
        await asyncio.sleep(11)
        assert await scene.status() == 401
        server.published = {"client-ca-file": "garbage"}
        await asyncio.sleep(11)
        assert await scene.status(PROXIES) == 0  # what was last readable stays


async def test_a_lookup_that_fails_is_tried_again() -> None:
    server = Reviewer()
    server.published = {"client-ca-file": KNOWN.certificate.decode()}
    server.refusals = [ServerError("down")]
    async with made(server, *KUBECONFIGS) as scene:
        assert await scene.status() == 403
        await asyncio.sleep(11)
        assert await scene.status() == 0


async def test_front_proxies_are_looked_up_with_their_rules() -> None:
    server = Reviewer()
    server.published = {
        "client-ca-file": KNOWN.certificate.decode(),
        "requestheader-client-ca-file": PROXIES.certificate.decode(),
        "requestheader-username-headers": json.dumps(["X-User"]),
        "requestheader-group-headers": json.dumps(["X-Group"]),
        "requestheader-allowed-names": json.dumps(["proxy"]),
    }
    async with made(server, *KUBECONFIGS) as scene:
        proxy = scene.gate.authenticator.trust.front_proxy
        assert proxy is not None
        rules = proxy.rules
        assert (rules.username_headers, rules.group_headers, rules.extra_prefixes, rules.allowed_names) == (
            ("X-User",),
            ("X-Group",),
            (),
            ("proxy",),
        )


async def test_files_go_before_the_cluster_and_are_followed(tmp_path: Path) -> None:
    server, path = Reviewer(), tmp_path / "ca.crt"
    server.published = {"client-ca-file": PROXIES.certificate.decode()}
    path.write_bytes(KNOWN.certificate)
    async with made(server, *KUBECONFIGS, f"--client-ca-file={path}") as scene:
        assert await scene.status() == 0
        path.write_bytes(PROXIES.certificate + b"\n")
        await asyncio.sleep(1.5)
        assert (await scene.status(), await scene.status(PROXIES)) == (401, 0)
        path.write_text("garbage")
        await asyncio.sleep(1.5)
        path.unlink()
        await asyncio.sleep(1.5)
        assert await scene.status(PROXIES) == 0


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [
        ([], False),
        (["--authentication-skip-lookup"], False),
        (["--authentication-skip-lookup", *KUBECONFIGS], False),
        (["--authentication-skip-lookup", "--client-ca-file={ca}"], True),
        (["--requestheader-client-ca-file={ca}"], True),
    ],
)
async def test_clients_are_asked_for_certificates_only_if_these_can_say_something(arguments: list[str], asks: bool, tmp_path: Path) -> None:
    (tmp_path / "ca").write_bytes(KNOWN.certificate)
    async with made(Reviewer(), *(argument.format(ca=tmp_path / "ca") for argument in arguments)) as scene:
        assert scene.delegation.asks_for_certificates is asks


async def test_a_lookup_that_must_succeed_keeps_the_process_from_starting() -> None:
    with pytest.raises(StartError, match=r'^unable to load configmap based request-header-client-ca-file: configmaps ".*" not found$'):
        async with made(Reviewer(), *KUBECONFIGS, "--authentication-tolerate-lookup-failure=false"):
            pass


async def test_a_kubeconfig_that_leads_nowhere_keeps_the_process_from_starting() -> None:
    async def connect(*_: object) -> Reviewer:
        raise ConnectError("kubeconfig /n: is empty")

    delegation = Delegation(parse_flags(KUBECONFIGS), ApiConnector(connect, Fixed(), Random(1)))
    with pytest.raises(StartError, match=r"^--authentication-kubeconfig: kubeconfig /n: is empty$"):
        await delegation.start()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, r"^--client-ca-file .*/ca cannot be read: No such file or directory$"),
        ("x", r"^--client-ca-file .*/ca holds no PEM certificate$"),
    ],
)
async def test_an_authority_that_is_none_keeps_the_process_from_starting(content: str | None, expected: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "ca").write_text(content)
    with pytest.raises(StartError, match=expected):
        async with made(Reviewer(), f"--client-ca-file={tmp_path / 'ca'}"):
            pass
