"""What the adapter sends and says, to the letter: servers, proxies and operators read it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec
import pytest
from structlog.testing import capture_logs
from support.virtual_loop import run_virtual

from koordsched.api.core import Pod
from koordsched.api.kinds import EVENT, LEASE, NODE, NODE_METRIC, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.clock import RealClock, VirtualClock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings, http1, oidc
from koordsched.cluster.apiserver.connection import connect as connect_with
from koordsched.cluster.apiserver.credentials import CredentialError
from koordsched.cluster.apiserver.decoding import KindDecoder
from koordsched.cluster.apiserver.errors import SentRequest, Untrusted, transport_error, unreadable_answer
from koordsched.cluster.apiserver.http1 import ConnectionPool, Server
from koordsched.cluster.apiserver.kubeconfig import read_kubeconfig
from koordsched.cluster.apiserver.limiter import Priority, RateLimiter
from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings
from koordsched.cluster.apiserver.target import Pem, TlsSettings, in_cluster_target
from koordsched.cluster.apiserver.tls import Material, make_context
from koordsched.cluster.apiserver.wire import NoAnswer, NotSent, NotTrusted, WireError, max_body, wire_error
from koordsched.cluster.port import Binding, OutcomeUnknown, Patch, Ref, ServerError, Unreadable

NGINX = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nginx", "namespace": "web", "uid": "u1", "resourceVersion": "7"}}

# Requests


class Listener:
    """Answers each request with the same bytes, and keeps all bytes that came."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
        self.heard.append(head + body)
        answer = msgspec.json.encode(NGINX)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("proxied", [False, True])
async def test_a_request_to_the_letter(kubeconfig: Any, connected: Any, proxied: bool) -> None:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = "http://api.example.org:8080" if proxied else f"http://127.0.0.1:{port}"
    cluster = {"proxy_url": f"http://127.0.0.1:{port}"} if proxied else {}
    user = {"token": "t", "as": "root", "as-uid": "0", "as-groups": ["g"], "as-user-extra": {"Scopes/x": ["view"]}}
    api = await connected(kubeconfig=kubeconfig(f"{address}/k8s", user, **cluster), user_agent="agent/1")
    await api.get(Ref(POD, "web", "nginx"))
    await api.patch(Ref(POD, "web", "nginx"), Patch({"a": 1}))
    host = address.removeprefix("http://")
    path = f"{address if proxied else ''}/k8s/api/v1/namespaces/web/pods/nginx"
    common = f"Host: {host}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
    who = "User-Agent: agent/1\r\nImpersonate-User: root\r\nImpersonate-Uid: 0\r\nImpersonate-Group: g\r\n"
    who += "Impersonate-Extra-Scopes%2Fx: view\r\n"
    token = "Authorization: Bearer t\r\n"
    if not proxied:
        common = f"Accept: application/json\r\nAccept-Encoding: identity\r\nHost: {host}\r\n"
    get, patch = (heard.decode() for heard in listener.heard)
    assert get == f"GET {path} HTTP/1.1\r\n{common}{who}{token}\r\n"
    kind = "Content-Type: application/merge-patch+json\r\n"
    assert patch == f'PATCH {path} HTTP/1.1\r\n{common}{who}{kind}{token}Content-Length: 7\r\n\r\n{{"a":1}}'
    server.close()
    await server.wait_closed()


async def test_a_decision_is_asked_about_before_a_proxy_gets_it_and_nothing_else_is(server: Any, connected: Any, kubeconfig: Any) -> None:
    asked: list[int] = []
    path = kubeconfig("http://api.example.org:8080", proxy_url=server.url)
    api = await connected(kubeconfig=path, may_decide=lambda: asked.append(len(server.seen)))
    server.answers((200, NGINX))
    await api.get(Ref(POD, "web", "nginx"))
    assert asked == []
    await api.bind(Binding("web", "nginx", "u1", "node-1"))
    assert asked == [1]


async def test_connections_notice_a_peer_that_is_gone(server: Any) -> None:
    port = int(server.url.rsplit(":", 1)[1])
    pool = ConnectionPool(Server("127.0.0.1", port, ""), 1, 5.0, 1000)
    await pool.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", None, 5.0)
    [connection] = pool._all
    assert connection._transport is not None
    assert connection._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
    pool.close()


async def test_an_error_of_the_connection_is_the_reason_in_the_systems_words() -> None:
    connection = http1.HttpConnection(1000, memoryview(bytearray(1000)))
    connection._waiter = waiter = asyncio.get_running_loop().create_future()
    connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
    assert waiter.result() == "connection reset by peer"
    connection._waiter = waiter = asyncio.get_running_loop().create_future()
    connection.connection_lost(None)
    assert waiter.result() == "the server closed the connection"


# Errors


@pytest.mark.parametrize(
    ("method", "error", "expected", "text"),
    [
        ("GET", NotTrusted("bad"), Untrusted, "http://h:1 is not trusted: bad; is the certificate authority (CA) the right one?"),
        ("PUT", NotTrusted("bad"), Untrusted, "http://h:1 is not trusted: bad; is the certificate authority (CA) the right one?"),
        ("POST", NotSent("down"), ServerError, "http://h:1 cannot be reached: down"),
        ("HEAD", NoAnswer("gone"), ServerError, "HEAD http://h:1/a: no answer: gone"),
        ("GET", NoAnswer("gone"), ServerError, "GET http://h:1/a: no answer: gone"),
        ("POST", NoAnswer("gone"), OutcomeUnknown, "POST http://h:1/a: no answer: gone"),
    ],
)
def test_a_request_without_an_answer(method: str, error: WireError, expected: type[Exception], text: str) -> None:
    found = transport_error(SentRequest(method, "http://h:1/a?b=c"), error)
    assert (type(found), found.message) == (expected, text)
    if isinstance(found, ServerError):
        assert found.status == 0


@pytest.mark.parametrize(("method", "expected"), [("GET", Unreadable), ("POST", OutcomeUnknown)])
def test_an_answer_that_cannot_be_understood(method: str, expected: type[Exception]) -> None:
    found = unreadable_answer(SentRequest(method, "http://h/a"), 201, "it broke off")
    assert (type(found), found.message) == (expected, f"{method} http://h/a: 201, but the answer cannot be read: it broke off")


def test_only_answers_of_success_may_be_large() -> None:
    refusal = 2**20
    sizes = {status: max_body(status, 5 * refusal) for status in (199, 200, 299, 300, 404)}
    assert sizes == {199: refusal, 200: 5 * refusal, 299: 5 * refusal, 300: refusal, 404: refusal}
    assert max_body(500, 10) == 10


def _untrusted() -> Exception:
    error = ssl.SSLCertVerificationError(1, "bad")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (_untrusted(), NotTrusted),
        (aiohttp.ConnectionTimeoutError("late"), NotSent),
        (ValueError("no address"), NotSent),
        (aiohttp.ServerDisconnectedError(), NoAnswer),
        (ConnectionResetError(104, "reset"), NoAnswer),
    ],
)
def test_what_an_exception_says_of_the_request(error: Exception, expected: type[WireError]) -> None:
    assert type(wire_error(error)) is expected


# Where to connect


@pytest.mark.parametrize(("host", "server"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")])
def test_the_address_of_the_own_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, server: str) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    target = in_cluster_target(str(tmp_path))
    assert target.server == server
    assert target.tls == TlsSettings(authority=Pem("in-cluster", str(tmp_path / "ca.crt")))
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConnectError) as raised:
        in_cluster_target(str(tmp_path))
    assert str(raised.value) == f"in-cluster: {tmp_path}/ca.crt is missing; is automountServiceAccountToken false?"


@pytest.mark.parametrize("missing", ["HOST", "PORT"])
def test_outside_of_a_cluster_it_is_said_what_to_give(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    for name in ("HOST", "PORT"):
        monkeypatch.setenv(f"KUBERNETES_SERVICE_{name}", "" if name == missing else "1")
    with pytest.raises(ConnectError) as raised:
        in_cluster_target(str(tmp_path))
    assert str(raised.value) == (
        "no cluster: neither a kubeconfig (clientConnection.kubeconfig, --kubeconfig) nor --master is given, and this is no pod of one "
        "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set)"
    )


@pytest.mark.parametrize(
    ("master", "server"),
    [("h:8080", "http://h:8080"), ("http://h", "http://h"), ("https://h/", "https://h"), ("https://h/a/", "https://h/a")],
)
async def test_the_master_alone_is_asked_without_credentials_and_plainly_unless_it_says_otherwise(master: str, server: str) -> None:
    api = await connect_with(ConnectionSettings(master=master), RealClock(), Random(1))
    assert api.server == server
    pools = api._transport._pools.values()
    secure = server.startswith("https")
    assert {pool._server for pool in pools} == {Server("h", 8080 if "8080" in master else 443 if secure else 80, "h")}
    assert api._transport._identity.authorization == ""
    assert (api._transport._identity.context is not None) is secure
    await api.close()


def test_a_long_value_is_cut_after_80_characters(kubeconfig: Any) -> None:
    for length, shown in ((80, "x" * 80), (81, "x" * 80 + "...")):
        text = "ftp://".ljust(length, "x")
        with pytest.raises(ConnectError, match=r"not the URL of an API server: ") as raised:
            read_kubeconfig(kubeconfig(text))
        assert str(raised.value).endswith(f"clusters[k].cluster.server: not the URL of an API server: {'ftp://' + shown[6:]}")


def test_two_plugins_are_one_too_many(kubeconfig: Any) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}, "auth-provider": {"name": "oidc"}}
    with pytest.raises(ConnectError) as raised:
        read_kubeconfig(path := kubeconfig("https://h", user))
    assert str(raised.value) == f"kubeconfig {path}: users[u].user: only one of exec and auth-provider can be used"


@pytest.mark.parametrize("given", ["certificate", "key"])
@pytest.mark.parametrize(("where", "shown"), [("", "the client certificate"), ("users[u].user.client-key", "users[u].user.client-key")])
def test_half_a_client_certificate_is_named_by_what_was_given(given: str, where: str, shown: str) -> None:
    with pytest.raises(ConnectError) as raised:
        make_context(TlsSettings(key=Pem(where)), Material(**{given: b"x"}))
    missing = "key" if given == "certificate" else "certificate"
    assert str(raised.value) == f"{shown}: a client certificate and its key go together; the {missing} is missing"


def test_certificates_are_checked_as_go_does() -> None:
    context = make_context(TlsSettings(), Material())
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


# Time


def test_a_request_waits_for_what_its_token_lacks() -> None:
    async def body(clock: VirtualClock) -> None:
        limiter, passed, begun = RateLimiter(2.0, 1), [], clock.now()

        async def send() -> None:
            await limiter.acquire(Priority.HIGH)
            passed.append(round(clock.now() - begun, 6))

        await send()
        await asyncio.sleep(0.25)  # half a token
        await asyncio.gather(send(), send())
        assert passed == [0.0, 0.5, 1.0]

    run_virtual(body)


@pytest.mark.filterwarnings("ignore:.*deprecated and will be removed in:DeprecationWarning")  # kubernetes-asyncio on aiohttp 3.14
async def test_an_issuer_that_says_nothing_is_given_up(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence(_request: Any) -> Any:
        await asyncio.sleep(10)

    server.answer = silence
    monkeypatch.setattr(oidc, "TIME_LIMIT_SECONDS", 0.05)
    async with asyncio.timeout(5):
        with pytest.raises(CredentialError) as raised:
            await Oidc("w", OidcSettings(server.url, "id", "secret", refresh_token="r")).fetch()
    assert str(raised.value) == f"w: {server.url} gives no new id-token: i/o timeout"


# Objects


@pytest.mark.parametrize("metadata", [{}, {"resourceVersion": ""}, {"resourceVersion": 5}])
def test_a_bookmark_without_a_version_is_left_out_with_its_reason(metadata: dict[str, Any]) -> None:
    line = msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata, "spec": 5}})
    with capture_logs() as logs:
        assert KindDecoder(POD).batch(line).events == []
    text = "an event of a watch cannot be read and is left out"
    assert logs == [{"event": text, "log_level": "error", "kind": "pods", "error": "it has no metadata.resourceVersion"}]


async def test_large_pods_share_what_is_equal_however_they_come() -> None:
    large = {f"key-{number}": "v" for number in range(200)}
    body: dict[str, Any] = {**NGINX, "spec": {"nodeSelector": large, "containers": [{"name": "c"}]}}
    decoder, raw = KindDecoder(POD), msgspec.json.encode(body)
    named = msgspec.json.encode({key: value for key, value in body.items() if key not in {"apiVersion", "kind"}})
    [listed] = (await decoder.page(b'{"metadata":{"resourceVersion":"9"},"items":[%b]}' % named)).items
    [event] = decoder.batch(b'{"type":"ADDED","object":%b}\n' % raw).events
    odd = msgspec.json.encode({**body, "spec": {**body["spec"], "tolerations": None}})
    [slow] = decoder.batch(
        b'{"type":"ADDED","object":%b}\n{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n' % odd
    ).events[:1]
    pods = [decoder.object(raw), listed, event.object, slow.object, decoder.object(odd)]
    assert all(isinstance(pod, Pod) and (pod.api_version, pod.kind) == ("v1", "Pod") for pod in pods)
    assert len({id(pod.spec.node_selector) for pod in pods if isinstance(pod, Pod)}) == 1


async def test_what_is_no_pod_is_as_it_came() -> None:
    node = {"metadata": {"name": "n", "resourceVersion": "1"}}
    found = KindDecoder(NODE).object(msgspec.json.encode(node))
    assert (found.api_version, found.kind, found.metadata.name) == ("v1", "Node", "n")
    kind = NODE_RESOURCE_TOPOLOGY
    other: Any = KindDecoder(kind).object(msgspec.json.encode({**node, "status": {"a": 1}}))
    assert (other.api_version, other.kind, other.raw["status"]) == (kind.api_version, kind.kind, {"a": 1})


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (POD, "/api/v1/pods"),
        (NODE, "/api/v1/nodes"),
        (LEASE, "/apis/coordination.k8s.io/v1/leases"),
        (EVENT, "/apis/events.k8s.io/v1/events"),
        (NODE_METRIC, "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"),
    ],
)
async def test_a_kind_of_a_group_has_its_own_path(server: Any, connected: Any, kind: Any, path: str) -> None:
    api = await connected(master=server.url)
    server.answers((200, {"metadata": {"resourceVersion": "9"}, "items": []}))
    await api.list(kind)
    assert [seen.path for seen in server.seen] == [path]
