"""Any server may answer: too much, no UTF-8 and values that are no header end in an error that says so."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.apiserver import ConnectError, exec_plugin
from koordsched.cluster.apiserver.credentials import CredentialError, TokenFile, escaped_header_key, header_flaw
from koordsched.cluster.apiserver.exec_plugin import MAX_OUTPUT, ExecPlugin
from koordsched.cluster.apiserver.headers import HeaderCache
from koordsched.cluster.apiserver.oidc import MAX_ANSWER, Oidc, OidcSettings
from koordsched.cluster.apiserver.target import Pem
from koordsched.cluster.apiserver.wire import MAX_REFUSAL
from koordsched.cluster.port import Binding, Conflict, Gone, Invalid, OutcomeUnknown, Patch, Ref, ServerError, TooManyRequests
from koordsched.server.access.reviews import TOKEN_REVIEW

if TYPE_CHECKING:
    from pathlib import Path

    from koordsched.cluster.apiserver import ApiServer

EXEC = "client.authentication.k8s.io/v1"
LIMIT = 10_000
LARGE = {"metadata": {"name": "n", "resourceVersion": "1", "annotations": {"a": "x" * LIMIT}}}
BINDING = Binding("d", "p", "u", "n")
LIBRARY = pytest.mark.filterwarnings("ignore:.*deprecated and will be removed in:DeprecationWarning")


def node(name: bytes, version: bytes) -> bytes:
    return b'{"metadata":{"name":"' + name + b'","resourceVersion":"' + version + b'"}}'


# Amounts


@pytest.mark.parametrize("proxied", [False, True])
async def test_an_answer_that_is_too_large_is_not_taken(server: Any, connected: Any, kubeconfig: Any, proxied: bool) -> None:
    where = kubeconfig("http://api.invalid", proxy_url=server.url) if proxied else kubeconfig(server.url)
    api = await connected(kubeconfig=where, max_answer=LIMIT)
    server.answers((200, LARGE))
    with pytest.raises(ServerError, match=rf"/api/v1/nodes: 200, but the answer cannot be read: it is larger than {LIMIT} bytes$"):
        await api.list(NODE)
    with pytest.raises(OutcomeUnknown, match=f"it is larger than {LIMIT} bytes"):
        await api.patch(Ref(NODE, "", "n"), Patch({}))
    await api.bind(BINDING)  # the answer is not read
    server.answers((200, {"metadata": {"resourceVersion": "1"}}))
    assert (await api.list(NODE)).resource_version == "1"


async def test_a_refusal_that_is_too_large_is_still_that_refusal(api: ApiServer, server: Any) -> None:
    server.answers((409, b"no " * MAX_REFUSAL))
    with pytest.raises(Conflict, match=r"^no no ") as raised:
        await api.bind(BINDING)
    assert len(raised.value.message) < 400


async def test_an_event_that_is_too_large_asks_for_a_new_list(server: Any, connected: Any) -> None:
    api = await connected(master=server.url, max_answer=LIMIT)
    whole = msgspec.json.encode({"type": "ADDED", "object": LARGE})
    for sent in (whole, whole[:-1]):  # its end comes at once, or never

        async def watch(request: web.Request, sent: bytes = sent) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for start in range(0, len(sent), 1000):
                await response.write(sent[start : start + 1000])
            return response

        server.answer = watch
        with pytest.raises(Gone, match=f"^nodes: an event of the watch is larger than {LIMIT} bytes$"):
            async for _ in api.watch(NODE, resource_version="1"):
                pass


# Bytes that are no UTF-8


async def test_an_object_with_bytes_that_are_no_text_cannot_be_read(api: ApiServer, server: Any) -> None:
    server.answers((200, node(b"\xff", b"1")))
    with pytest.raises(ServerError, match=r"/api/v1/nodes/n: 200, but the answer cannot be read: 'utf-8' codec"):
        await api.get(Ref(NODE, "", "n"))


async def test_of_a_list_only_the_object_with_such_bytes_is_left_out(api: ApiServer, server: Any) -> None:
    server.answers((200, b'{"metadata":{"resourceVersion":"7"},"items":[' + node(b"\xff", b"1") + b"," + node(b"b", b"2") + b"]}"))
    page = await api.list(NODE)
    assert ([item.metadata.name for item in page.items], page.resource_version) == (["b"], "7")
    server.answers((200, b'{"metadata":{"resourceVersion":"\xff"}}'))
    with pytest.raises(ServerError, match="cannot be read"):
        await api.list(NODE)


async def test_of_a_watch_only_the_event_with_such_bytes_is_left_out(api: ApiServer, server: Any) -> None:
    events = [(b"ADDED", b"\xff", b"1"), (b"AD\xff", b"a", b"1"), (b"ADDED", b"b", b"2")]
    server.answers((200, b"".join(b'{"type":"%b","object":%b}\n' % (kind, node(name, version)) for kind, name, version in events)))
    names = [event.object.metadata.name async for batch in api.watch(NODE, resource_version="1") for event in batch]
    assert names == ["b"]


async def test_a_refusal_with_such_bytes_is_still_that_refusal(api: ApiServer, server: Any) -> None:
    server.answers((409, b'{"kind":"Status","message":"\xff"}'))
    with pytest.raises(Conflict, match="Status"):
        await api.bind(BINDING)


@pytest.mark.parametrize("retry_after", ["inf", "nan", "1e999", "-3", "Wed, 21 Oct 2026 07:28:00 GMT", "1_0", "1.5"])
async def test_a_time_to_wait_that_is_none_is_the_default(api: ApiServer, server: Any, retry_after: str) -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": retry_after})

    server.answer = busy
    with pytest.raises(TooManyRequests) as raised:
        await api.list(POD)
    assert raised.value.retry_after == 1.0


@pytest.mark.parametrize(("asked", "waited"), [(7, 7.0), (-1, 0.0), (10**15, 120.0), (1e300, 120.0)])
async def test_no_answer_makes_a_caller_wait_for_ever(api: ApiServer, server: Any, asked: float, waited: float) -> None:
    server.answers((429, {"code": 429, "message": "busy", "details": {"retryAfterSeconds": asked}}))
    with pytest.raises(TooManyRequests) as raised:
        await api.list(POD)
    assert raised.value.retry_after == waited


async def test_a_review_with_values_of_the_wrong_type_is_an_error(api: ApiServer, server: Any) -> None:
    server.answers((201, {"status": {"authenticated": True, "user": {"username": "u", "extra": {"a": ["x"], "b": ["y", 5]}}}}))
    with pytest.raises(OutcomeUnknown, match=r"status\.user\.extra\[b\]\[1\]: Invalid value: 5: must be a string"):
        await api.create(TOKEN_REVIEW, {"spec": {"token": "t"}})


# Headers


@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        ("plain ~ text", ""),
        ("a\rb", "holds a line break (character 2)"),
        ("\n", "holds a line break (character 1)"),
        ("ab\0", "holds a NUL (character 3)"),
        ("a\tb", "holds a tab (character 2)"),
        ("\x7f", "holds a control character (character 1)"),
        ("é", "holds a character that is not ASCII (character 1)"),
    ],
)
def test_what_keeps_a_value_from_being_a_header_is_reported_without_the_value(value: str, flaw: str) -> None:
    assert header_flaw(value) == flaw


def test_keys_of_impersonation_are_written_as_client_go_does() -> None:
    assert escaped_header_key("example.com/Key%1 é") == "example.com%2FKey%251%20%C3%A9"


class Unchecked:
    """An identity out of a source that looks at nothing."""

    version = 1
    authorization = "Bearer a\r\nX-Evil: 1"


def test_nothing_else_is_written_either() -> None:
    identity: Any = Unchecked()
    headers = HeaderCache([("Host", "h")], identity)
    for _ in range(2):
        with pytest.raises(Invalid, match=r"^the request cannot be sent: its header 'Authorization' holds a line break \(character 9\)$"):
            headers.text("")
    identity.version, identity.authorization = 2, "Bearer fine"
    assert b"Authorization: Bearer fine\r\n" in headers.text("")
    with pytest.raises(Invalid, match="'Bad Name' is no name of a header"):
        HeaderCache([("Bad Name", "h")], identity).text("")


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "a\0b", "a\nb", "é"])
async def test_a_token_that_is_no_header_never_becomes_a_request(
    server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, token: str
) -> None:
    flaw = header_flaw(token)
    (tmp_path / "token").write_bytes(token.encode())
    answer = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": token}})
    plugin = script(tmp_path, f"print({answer!r})")
    oidc = {"name": "oidc", "config": {"idp-issuer-url": "http://i", "client-id": "c", "id-token": token}}
    users: list[tuple[dict[str, Any], str]] = [
        ({"token": token}, f"users[u].user.token: {flaw}"),
        ({"tokenFile": "token"}, f"users[u].user.tokenFile: {tmp_path}/token: the token {flaw}"),
        ({"exec": {"apiVersion": EXEC, "command": plugin}}, f'users[u].user.exec: the credential plugin "{plugin}": the token {flaw}'),
        ({"auth-provider": oidc}, f"users[u].user.auth-provider.config.id-token: the token {flaw}"),
        ({"token": "t", "as": token}, f"users[u].user.as: {flaw}"),
        ({"token": "t", "as": "u", "as-groups": ["g", token]}, f"users[u].user.as-groups[1]: {flaw}"),
        ({"token": "t", "as": "u", "as-user-extra": {"k": [token]}}, f"users[u].user.as-user-extra[k][0]: {flaw}"),
    ]
    for user, reported in users:
        with pytest.raises(ConnectError) as raised:
            await connected(kubeconfig=kubeconfig(server.url, user))
        assert str(raised.value).endswith(reported)
    assert server.seen == []


@pytest.mark.parametrize("address", ["https://h\r\nX:y", "https://é", "https://h\0", "https://h:port", "https://h:99999", "https://:1"])
async def test_an_address_that_cannot_be_sent_is_none(connected: Any, kubeconfig: Any, address: str) -> None:
    with pytest.raises(ConnectError, match=r"clusters\[k\]\.cluster\.server: not the URL of an API server: "):
        await connected(kubeconfig=kubeconfig(address))
    with pytest.raises(ConnectError, match=r"^--master: not the address of an API server: "):
        await connected(master=address)


# Sources of credentials


def script(folder: Path, body: str) -> str:
    path = folder / "plugin.py"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("after", ["", "sys.stdout.flush(); time.sleep(60)"])
async def test_a_plugin_that_prints_without_end_is_ended(tmp_path: Path, after: str) -> None:
    body = f"import sys, time\nsys.stdout.write('x' * {2 * MAX_OUTPUT})\n{after}"
    with pytest.raises(CredentialError, match=f"printed more than {MAX_OUTPUT} bytes$"):
        await ExecPlugin(where="w", command=script(tmp_path, body), api_version=EXEC).fetch()


async def test_a_plugin_is_ended_although_much_of_what_it_printed_was_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = exec_plugin._beginning

    async def read_slowly(stream: asyncio.StreamReader) -> bytes:
        output = await read(stream)
        await asyncio.sleep(0.3)  # the pipe's transport pauses: its buffer is full
        return output

    monkeypatch.setattr(exec_plugin, "_beginning", read_slowly)
    body = f"import sys\nsys.stdout.write('x' * {4 * MAX_OUTPUT})"
    with pytest.raises(CredentialError, match=f"printed more than {MAX_OUTPUT} bytes$"):
        async with asyncio.timeout(20):
            await ExecPlugin(where="w", command=script(tmp_path, body), api_version=EXEC).fetch()


async def test_a_plugin_that_complains_at_length_is_quoted_by_the_end_of_it(tmp_path: Path) -> None:
    body = "import sys\nsys.stderr.write('x' * 3_000_000 + ' the reason')\nsys.exit(1)"
    with pytest.raises(CredentialError, match=r"exited with 1: x+ the reason$") as raised:
        await ExecPlugin(where="w", command=script(tmp_path, body), api_version=EXEC).fetch()
    assert len(str(raised.value)) < 1000


async def test_a_plugin_that_prints_no_text_is_reported(tmp_path: Path) -> None:
    body = 'import sys\nsys.stdout.buffer.write(b\'{"kind": "\\xff"}\')'
    with pytest.raises(CredentialError, match="printed no ExecCredential: 'utf-8' codec"):
        await ExecPlugin(where="w", command=script(tmp_path, body), api_version=EXEC).fetch()


async def test_files_without_end_are_not_read_to_their_end() -> None:
    with pytest.raises(ConnectError, match=r"^w: /dev/zero: larger than "):
        Pem("w", "/dev/zero").read()
    with pytest.raises(CredentialError, match=r"^w: /dev/zero: larger than "):
        await TokenFile("w", "/dev/zero").fetch()
    with pytest.raises(ConnectError, match="embedded null byte"):
        Pem("w", "a\0b").read()


@LIBRARY
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"x" * (MAX_ANSWER + 1), f"the answer of URL/token cannot be read: it is larger than {MAX_ANSWER} bytes"),
        (b'{"id_token":"\xff"}', "the answer of URL/token cannot be read: 'utf-8' codec"),
        (b"[]", "the answer of URL/token cannot be read: Expected `object`, got `array`"),
        (b"{}", "Object missing required field `id_token`"),
        (b'{"id_token":5}', "Expected `str`, got `int` - at `$.id_token`"),
    ],
)
async def test_an_issuer_with_a_malformed_answer_is_named(server: Any, answer: bytes, why: str) -> None:
    async def issuer(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"{server.url}/token"}) if request.method == "GET" else web.Response(body=answer)

    server.answer = issuer
    with pytest.raises(CredentialError) as raised:
        await Oidc("w", OidcSettings(server.url, "id", "secret", refresh_token="r")).fetch()
    assert str(raised.value).startswith(f"w: {server.url} gives no new id-token: {why.replace('URL', server.url)}")


@LIBRARY
async def test_an_issuer_that_cannot_be_reached_or_refuses_is_reported_in_plain_words(server: Any) -> None:
    async def fetch(url: str) -> str:
        with pytest.raises(CredentialError) as raised:
            await Oidc("w", OidcSettings(url, "id", "secret", refresh_token="r")).fetch()
        return str(raised.value)

    server.answers((403, b"no"))
    refused = "oidc: failed to query well-known metadata endpoint: code 403: Forbidden"
    assert await fetch(server.url) == f"w: {server.url} gives no new id-token: {refused}"
    await server.stop()
    assert await fetch(server.url) == f"w: {server.url} gives no new id-token: connection refused"


@LIBRARY
async def test_an_issuers_token_that_is_no_header_is_refused(server: Any) -> None:
    server.answers((200, {"token_endpoint": f"{server.url}/token", "id_token": "a\nb"}))
    with pytest.raises(CredentialError, match=rf"^w: the id-token of {server.url}: the token holds a line break \(character 2\)$"):
        await Oidc("w", OidcSettings(server.url, "id", "secret", refresh_token="r")).fetch()
