"""Requests to extenders over real connections: TLS, timeouts, bounds, connections that are used again (framework.md §8)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import pytest_asyncio
from support.builders import node, pod
from support.controlplane.authority import Authority
from support.extender import ExtenderServer, Refusal

from koordsched.api.core import Pod
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.config.types import ExtenderConfig as Config
from koordsched.config.types import ExtenderManagedResource, ExtenderTLSConfig
from koordsched.framework.handle import ExtenderError
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.extenders.transport import MAX_REQUESTS, Transport, TransportSettings, Unanswered

NODES = [node("n1").build(), node("n2").build()]
POD = pod("p").build()

Make = Callable[..., Extender]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    """Make extenders that are closed in the end."""
    made: list[Extender] = []

    def one(url: str, **fields: Any) -> Extender:
        made.append(Extender(Config(url_prefix=url, filter_verb="filter", node_cache_capable=True, **fields)))
        return made[-1]

    yield one
    for extender in made:
        await extender.close()


async def test_one_connection_serves_one_request_after_the_other(make: Make) -> None:
    with ExtenderServer(filter=lambda _: {"NodeNames": ["n1"]}) as server:
        extender = make(server.url + "/")
        for _ in range(5):
            assert (await extender.filter(POD, NODES)).remaining == ("n1",)
        assert (server.connections, len(server.calls("filter"))) == (1, 5)
        assert (server.headers["Content-Type"], server.headers["Accept-Encoding"]) == ("application/json", "identity")


async def test_a_connection_that_the_server_closed_while_idle_costs_no_pod_an_attempt(make: Make) -> None:
    with ExtenderServer(filter=lambda _: {"NodeNames": []}) as server:
        extender = make(server.url)
        await extender.filter(POD, NODES)
        server.hang_up = 1
        await extender.filter(POD, NODES)
        assert (server.connections, len(server.calls("filter"))) == (2, 2)
        server.hang_up = 2
        with pytest.raises(ExtenderError, match="the server closed the connection"):
            await extender.filter(POD, NODES)


async def test_who_does_not_answer_in_time_is_given_up(make: Make) -> None:
    silent = threading.Event()
    with ExtenderServer(filter=lambda _: silent.wait(10) and {}) as server:
        with pytest.raises(ExtenderError, match=rf'Post "{server.url}/filter": no answer within 0.05 s'):
            await make(server.url, http_timeout=0.05).filter(POD, NODES)
        silent.set()


async def test_a_server_that_is_not_there_is_named_with_its_address(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ExtenderError, match=rf'^Post "{url}/filter": connection refused$'):
            await make(url).filter(POD, NODES)


async def test_an_address_that_is_none_is_the_pods_problem_alone(make: Make) -> None:
    with pytest.raises(ExtenderError, match='Post "no url/filter": '):
        await make("no url").filter(POD, NODES)


async def test_another_status_is_an_error_with_what_was_said(make: Make) -> None:
    with ExtenderServer(filter=lambda _: Refusal(503, "too   busy\n" + "x" * 1000)) as server:
        with pytest.raises(ExtenderError) as caught:
            await make(server.url).filter(POD, NODES)
        text = str(caught.value)
        assert text.startswith(f"failed filter with extender at URL {server.url}/filter, code 503: too busy xxx")
        assert len(text) < 400


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    with ExtenderServer(filter=lambda _: b"[" + b" " * (1 << 20)) as server:
        transport = Transport(TransportSettings(timeout=5.0, max_answer=1 << 16))
        with pytest.raises(Unanswered, match="the answer is larger than 65536 bytes"):
            await transport.post(f"{server.url}/filter", b"{}")
        await transport.close()


async def test_no_more_requests_are_under_way_than_allowed(make: Make) -> None:
    def slow(args: Any) -> Any:
        time.sleep(0.02)
        return {"NodeNames": ["n1"]}

    with ExtenderServer(filter=slow) as server:
        extender = make(server.url)
        answers = await asyncio.gather(*(extender.filter(POD, NODES) for _ in range(3 * MAX_REQUESTS)))
        assert len(answers) == 3 * MAX_REQUESTS
        assert server.at_once <= MAX_REQUESTS
        assert server.connections <= MAX_REQUESTS


# TLS


class Tls:
    """A server with a certificate for 127.0.0.1, localhost and kubernetes, and a client that its authority vouches for."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self.authority = authority.certificate
        self.server, self.client = authority.server(), authority.client("scheduler")
        self.folder = folder
        for name, content in (("cert", self.server.certificate), ("key", self.server.key), ("ca", self.authority)):
            (folder / name).write_bytes(content)

    def context(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert", self.folder / "key")
        if asks_for_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.folder / "ca")
        return context


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("authority"))


def accepting(tls: Tls, **how: bool) -> ExtenderServer:
    return ExtenderServer(tls=tls.context(**how), filter=lambda _: {"NodeNames": ["n1"]})


async def test_an_authority_is_trusted_from_a_file_or_as_data(make: Make, tls: Tls) -> None:
    with accepting(tls) as server:
        for settings in (ExtenderTLSConfig(ca_file=str(tls.folder / "ca")), ExtenderTLSConfig(ca_data=tls.authority)):
            assert (await make(server.url, tls_config=settings).filter(POD, NODES)).remaining == ("n1",)


async def test_a_server_without_a_trusted_certificate_is_not_asked(make: Make, tls: Tls) -> None:
    with accepting(tls) as server:
        for fields in ({}, {"tls_config": ExtenderTLSConfig()}):
            with pytest.raises(ExtenderError, match="certificate"):
                await make(server.url, **fields).filter(POD, NODES)
        assert server.asked == []


async def test_https_without_an_authority_and_insecure_trust_every_server(make: Make, tls: Tls) -> None:
    with accepting(tls) as server:
        for fields in ({"enable_https": True}, {"tls_config": ExtenderTLSConfig(insecure=True)}):
            assert (await make(server.url, **fields).filter(POD, NODES)).remaining == ("n1",)


async def test_the_servers_name_may_be_another_than_its_address(make: Make, tls: Tls) -> None:
    with accepting(tls) as server:
        named = ExtenderTLSConfig(ca_data=tls.authority, server_name="kubernetes")
        assert (await make(server.url, tls_config=named).filter(POD, NODES)).remaining == ("n1",)
        other = ExtenderTLSConfig(ca_data=tls.authority, server_name="elsewhere")
        with pytest.raises(ExtenderError, match="elsewhere"):
            await make(server.url, tls_config=other).filter(POD, NODES)


async def test_a_server_that_asks_for_a_certificate_gets_ours(make: Make, tls: Tls) -> None:
    with accepting(tls, asks_for_client=True) as server:
        shown = ExtenderTLSConfig(ca_data=tls.authority, cert_data=tls.client.certificate, key_data=tls.client.key)
        assert (await make(server.url, tls_config=shown).filter(POD, NODES)).remaining == ("n1",)
        with pytest.raises(ExtenderError):
            await make(server.url, tls_config=ExtenderTLSConfig(ca_data=tls.authority)).filter(POD, NODES)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (ExtenderTLSConfig(ca_file="/nowhere/ca"), "extenders[2].tlsConfig.caFile: /nowhere/ca: No such file or directory"),
        (ExtenderTLSConfig(ca_data=b"no certificate"), "extenders[2].tlsConfig.caFile: the data: holds no PEM certificate"),
        (
            ExtenderTLSConfig(ca_data=b"x", insecure=True),
            "extenders[2].tlsConfig: specifying a root certificates file with the insecure flag is not allowed",
        ),
        (ExtenderTLSConfig(cert_data=b"x"), "extenders[2].tlsConfig.certFile: a client certificate and its key go together"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: ExtenderTLSConfig, said: str) -> None:
    with pytest.raises(ConnectError) as caught:
        Extender(Config(url_prefix="https://e", tls_config=settings), "extenders[2]")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("requests", "limits", "init", "wanted"),
    [
        ({}, {}, {}, False),
        ({"cpu": "1"}, {"cpu": "1"}, {}, False),
        ({"example.com/gpu": 1}, {}, {}, True),
        ({}, {"example.com/gpu": 1}, {}, True),
        ({}, {}, {"example.com/gpu": 1}, True),
    ],
)
def test_an_extender_is_asked_about_pods_that_name_a_resource_that_it_manages(
    requests: Any, limits: Any, init: Any, *, wanted: bool
) -> None:
    managed = (ExtenderManagedResource(name="example.com/gpu"),)
    extender = Extender(Config(url_prefix="http://e", managed_resources=managed), transport=cast("Transport", object()))
    containers = [{"name": "main", "resources": {"requests": requests, "limits": limits}}]
    inits = [{"name": "init", "resources": {"requests": init}}]
    made = msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": inits}}, Pod)
    assert extender.wants(made) is wanted
    assert Extender(Config(url_prefix="http://e"), transport=cast("Transport", object())).wants(made)
