"""Who we are, while running: tokens that expire, rotate and are refused."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.apiserver import ConnectError
from koordsched.cluster.apiserver.credentials import CredentialError
from koordsched.cluster.apiserver.exec_plugin import ExecPlugin
from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings
from koordsched.cluster.port import Binding, Forbidden, OutcomeUnknown, Unauthorized

if TYPE_CHECKING:
    from pathlib import Path

EXEC = "client.authentication.k8s.io/v1"
BINDING = Binding("web", "nginx", "u1", "node-1")
LIBRARY = pytest.mark.filterwarnings(
    "ignore:.*deprecated and will be removed in:DeprecationWarning"
)  # kubernetes-asyncio 36.1.0 on aiohttp 3.14

# Prints the token t1, t2, ... that lives for `seconds`; what was asked of it goes to a file beside it.
COUNTING = """
import datetime, json, os, pathlib, sys
state = pathlib.Path(__file__).with_suffix(".runs")
runs = len(state.read_text().splitlines()) + 1 if state.exists() else 1
with state.open("a") as file:
    print(os.environ["KUBERNETES_EXEC_INFO"], file=file)
expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=float(sys.argv[1]))
status = {{"token": f"t{{runs}}", "expirationTimestamp": expires.isoformat().replace("+00:00", "Z")}}
if {fails!r} and runs == {fails!r}:
    sys.exit("no\\nmood")
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def write_plugin(folder: Path, body: str) -> str:
    path = folder / "plugin.py"
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def counting(folder: Path, seconds: float, fails: int = 0) -> dict[str, Any]:
    """Return the user entry of a plugin whose tokens live for so long and whose run number `fails` fails."""
    return {"exec": {"apiVersion": EXEC, "command": write_plugin(folder, COUNTING.format(fails=fails)), "args": [str(seconds)]}}


class Door:
    """Lets in who shows an accepted token, and refuses all others with 401."""

    def __init__(self, *accepted: str) -> None:
        self.accepted = set(accepted)
        self.shown: list[str] = []

    async def __call__(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.shown.append(token)
        if token in self.accepted:
            return web.Response(body=b'{"metadata":{"resourceVersion":"1"}}')
        return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}, status=401)


async def test_a_token_that_is_refused_is_reported_in_one_line_without_a_second_try(server: Any, connected: Any, kubeconfig: Any) -> None:
    api = await connected(kubeconfig=kubeconfig(server.url, {"token": "old"}))
    door = server.answer = Door("new")
    with pytest.raises(Unauthorized) as raised:
        await api.check()
    assert raised.value.message == f"{server.url} does not accept the credentials (Unauthorized); the token may be expired or wrong"
    assert door.shown == ["old"]


async def test_who_may_not_ask_for_the_version_is_known_all_the_same(server: Any, connected: Any, kubeconfig: Any) -> None:
    api = await connected(kubeconfig=kubeconfig(server.url, {"token": "t"}))
    server.answers((403, {"kind": "Status", "code": 403, "message": "forbidden"}))
    await api.check()
    with pytest.raises(Forbidden):
        await api.list(POD)


async def test_a_rotated_token_file_is_read_again_after_a_refusal(server: Any, connected: Any, kubeconfig: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    api = await connected(kubeconfig=kubeconfig(server.url, {"tokenFile": "token"}))
    door = server.answer = Door("one")
    await api.bind(BINDING)
    token.write_text("two\n")
    door.accepted = {"two"}
    await api.bind(BINDING)
    async for _ in api.watch(NODE, resource_version="1"):
        pass
    assert door.shown == ["one", "one", "two", "two"]
    assert api.traffic.retries == 1
    assert api.traffic.requests["bind", "pods"] == 2


async def test_a_watch_that_is_refused_is_asked_for_again_with_the_new_token(
    server: Any, connected: Any, kubeconfig: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    api = await connected(kubeconfig=kubeconfig(server.url, {"tokenFile": "token"}))
    token.write_text("two")
    door = server.answer = Door("two")
    async for _ in api.watch(NODE, resource_version="1"):
        pass
    assert door.shown == ["one", "two"]


async def test_a_second_try_without_an_answer_is_reported_as_such(server: Any, connected: Any, kubeconfig: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    api = await connected(kubeconfig=kubeconfig(server.url, {"tokenFile": "token"}))
    door = Door("two")

    async def slam(request: web.Request) -> web.Response:
        answer = await door(request)
        if answer.status == 200:
            assert request.transport is not None
            request.transport.abort()
        return answer

    server.answer = slam
    token.write_text("two")
    with pytest.raises(OutcomeUnknown, match=rf"^POST {server.url}/api/v1/.*: no answer: "):
        await api.bind(BINDING)
    assert door.shown == ["one", "two"]


async def test_many_refusals_at_once_cost_one_renewal(server: Any, connected: Any, kubeconfig: Any, tmp_path: Path) -> None:
    api = await connected(kubeconfig=kubeconfig(server.url, counting(tmp_path, 3600)))
    door = server.answer = Door("t2")
    await asyncio.gather(*[api.bind(BINDING) for _ in range(5)])
    assert sorted(door.shown) == ["t1"] * 5 + ["t2"] * 5
    assert len((tmp_path / "plugin.runs").read_text().splitlines()) == 2


async def test_a_plugin_is_not_run_again_and_again_for_a_server_that_refuses_everything(
    server: Any, connected: Any, kubeconfig: Any, tmp_path: Path
) -> None:
    static = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": "t"}})
    runs = tmp_path / "runs"
    user = {"exec": {"apiVersion": EXEC, "command": write_plugin(tmp_path, f"open({str(runs)!r}, 'a').write('x'); print({static!r})")}}
    api = await connected(kubeconfig=kubeconfig(server.url, user))
    server.answer = Door()
    for _ in range(3):
        with pytest.raises(Unauthorized):
            await api.check()
    assert runs.read_text() == "xx"


async def test_a_token_is_renewed_before_it_expires_so_that_no_request_meets_a_refusal(
    server: Any, connected: Any, kubeconfig: Any, tmp_path: Path
) -> None:
    api = await connected(kubeconfig=kubeconfig(server.url, counting(tmp_path, 1.5)))
    door = server.answer = Door("t1", "t2", "t3")
    while "t2" not in door.shown:
        await api.bind(BINDING)
        await asyncio.sleep(0.02)
    assert api.traffic.retries == 0
    [first, *_] = (tmp_path / "plugin.runs").read_text().splitlines()
    assert json.loads(first) == {"apiVersion": EXEC, "kind": "ExecCredential", "spec": {"interactive": False}}


def plugin(folder: Path, body: str, **more: Any) -> ExecPlugin:
    return ExecPlugin(where="w", command=write_plugin(folder, body), api_version=EXEC, **more)


async def test_a_plugin_gets_the_description_of_the_cluster_and_has_the_environment_that_was_written_for_it(tmp_path: Path) -> None:
    body = (
        "import json, os\n"
        "found = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']\n"
        "token = found['cluster']['server'] + ' ' + os.environ['REGION'] + ' ' + str('PATH' in os.environ)\n"
        f"print(json.dumps({{'apiVersion': '{EXEC}', 'kind': 'ExecCredential', 'status': {{'token': token.replace(' ', '-')}}}}))"
    )
    found = await plugin(tmp_path, body, cluster={"server": "here"}, environment={"REGION": "north"}).fetch()
    assert found.authorization == "Bearer here-north-True"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("print('hello')", "printed no ExecCredential: "),
        ("print('{}')", f"printed nothing of no version, not ExecCredential of {EXEC}"),
        (f'print(\'{{"kind":"ExecCredential","apiVersion":"{EXEC}"}}\')', "printed neither a token nor a client certificate"),
        ("import sys; sys.exit(3)", "exited with 3: it said nothing"),
    ],
)
async def test_what_a_plugin_does_wrong_is_reported(tmp_path: Path, body: str, expected: str) -> None:
    with pytest.raises(CredentialError) as raised:
        await plugin(tmp_path, body).fetch()
    assert str(raised.value).startswith(f'w: the credential plugin "{tmp_path}/plugin.py" {expected}')


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"token": "t", "expirationTimestamp": "soon"}, "printed an expirationTimestamp that is no time: soon"),
        ({"clientCertificateData": "x"}, "printed only one of clientCertificateData and clientKeyData"),
    ],
)
async def test_a_status_that_makes_no_sense_is_reported(tmp_path: Path, status: dict[str, str], expected: str) -> None:
    answer = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status})
    with pytest.raises(CredentialError, match=expected):
        await plugin(tmp_path, f"print({answer!r})").fetch()


async def test_a_plugin_that_hangs_or_chatters_is_killed_in_time(tmp_path: Path) -> None:
    chatter = "import sys, time\nsys.stderr.write('x' * 1_000_000)\ntime.sleep(60)"
    with pytest.raises(CredentialError, match=r"took longer than 0\.3 seconds"):
        await plugin(tmp_path, chatter, time_limit=0.3).fetch()


async def test_a_plugin_that_fails_at_the_start_ends_the_start(kubeconfig: Any, connected: Any, tmp_path: Path) -> None:
    path = kubeconfig("https://h", counting(tmp_path, 60, fails=1))
    with pytest.raises(ConnectError) as raised:
        await connected(kubeconfig=path)
    assert (
        str(raised.value) == f'kubeconfig {path}: users[u].user.exec: the credential plugin "{tmp_path}/plugin.py" exited with 1: no mood'
    )


def jwt(expires: float) -> str:
    claims = base64.urlsafe_b64encode(msgspec.json.encode({"exp": expires})).rstrip(b"=").decode()
    return f"e30.{claims}.sig"


@LIBRARY
async def test_an_id_token_is_used_until_refused_and_then_refreshed(server: Any) -> None:
    issued = jwt(2_000_000_000)
    used: list[Any] = []

    async def issuer(request: web.Request) -> web.Response:
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({"token_endpoint": f"{server.url}/token"})
        used.append((await request.post())["refresh_token"])
        return web.json_response({"id_token": issued, "refresh_token": "r2"} if len(used) == 1 else {"id_token": issued})

    server.answer = issuer
    source = Oidc("w", OidcSettings(server.url, "id", "secret", id_token=jwt(1_900_000_000), refresh_token="r1"))
    first, second = await source.fetch(), await source.fetch()
    assert (first.authorization, first.expires) == (f"Bearer {jwt(1_900_000_000)}", 1_900_000_000.0)
    assert (second.authorization, second.expires) == (f"Bearer {issued}", 2_000_000_000.0)
    await source.fetch()
    await source.fetch()
    assert used == ["r1", "r2", "r2"], "a refresh token that the issuer rotates takes the old one's place"


@LIBRARY
async def test_an_issuer_that_gives_nothing_is_named(server: Any) -> None:
    server.answers((500, b""))
    source = Oidc("w", OidcSettings(server.url, "id", "secret", refresh_token="r1"))
    with pytest.raises(CredentialError, match=f"^w: {server.url} gives no new id-token: "):
        await source.fetch()
    with pytest.raises(CredentialError, match=r"^w: the id-token is used up and there is no refresh-token$"):
        await Oidc("w", OidcSettings(server.url, "id", "secret")).fetch()


async def test_a_plugin_that_gives_a_certificate_alone_gives_no_authorization(tmp_path: Path) -> None:
    status = {"clientCertificateData": "cert", "clientKeyData": "key"}
    answer = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status})
    found = await plugin(tmp_path, f"print({answer!r})").fetch()
    assert (found.authorization, found.certificate, found.key, found.expires) == ("", b"cert", b"key", None)
