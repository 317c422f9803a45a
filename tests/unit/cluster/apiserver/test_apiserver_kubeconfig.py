"""Kubeconfigs: where they lead, and the one line that says what is wrong with them."""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from koordsched.clock import RealClock
from koordsched.cluster.apiserver import ConnectError, ConnectionSettings, connect
from koordsched.cluster.apiserver.credentials import Credential, Fixed, TokenFile
from koordsched.cluster.apiserver.exec_plugin import ExecPlugin
from koordsched.cluster.apiserver.kubeconfig import read_kubeconfig
from koordsched.cluster.apiserver.target import in_cluster_target

if TYPE_CHECKING:
    from collections.abc import Callable

CONTEXT = "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
CLUSTER = "clusters: [{name: k, cluster: {server: 'https://h:6443'}}]\n"
USER = "users: [{name: u, user: {}}]\n"
ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{key}: &{key} [{', '.join(['*' + before] * 10)}]\n" for before, key in pairwise("abcdefgh")
)
EXEC = "client.authentication.k8s.io/v1"


async def refusal(path: str, **settings: Any) -> str:
    """Connect, which must fail, and return what the operator reads, without the file's name."""
    with pytest.raises(ConnectError) as raised:
        await connect(ConnectionSettings(kubeconfig=path, **settings), RealClock(), Random(1))
    text = str(raised.value)
    assert "\n" not in text
    assert path in text
    return text.replace(path, "FILE").replace(str(Path(path).parent), "DIR")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "kubeconfig FILE: is empty"),
        ("- a", "kubeconfig FILE: must be an object with clusters, contexts and users, not ['a']"),
        ("a: [", "kubeconfig FILE: line 2, column 1: not valid YAML: did not find expected node content"),
        (
            "a: \x01",
            "kubeconfig FILE: (root): not valid YAML: unacceptable character #x0001: control characters are not allowed in "
            '"<unicode string>", position 3',
        ),
        ("a: b\n---\na: c\n", "kubeconfig FILE: holds more than one document"),
        ("a: b\na: c\n", 'kubeconfig FILE: a: "c": strict decoding error: duplicate field "a", first given on line 1'),
        (ALIAS_BOMB, "kubeconfig FILE: e[7]: the document has more than 100000 values when its aliases are unfolded"),
        (
            "clusters: [{name: k, cluster: {tls-server-name: true}}]",
            "kubeconfig FILE: clusters[0].cluster.tls-server-name: Invalid value: true: must be a string",
        ),
        ("clusters: 5", "kubeconfig FILE: clusters: Invalid value: 5: must be a list"),
        ("clusters: [{cluster: {}}]", "kubeconfig FILE: clusters[0].name: Required value: must be given"),
        ("clusters: [{name: k, cluster: {server: 7}}]", "kubeconfig FILE: clusters[0].cluster.server: Invalid value: 7: must be a string"),
        (
            "users: [{name: u, user: {as-user-extra: {a/b: [x], c/d: [x, yes]}}}]",
            "kubeconfig FILE: users[0].user.as-user-extra[c/d][1]: Invalid value: true: must be a string",
        ),
        (
            "users: [{name: u, user: {exec: {args: [1]}}}]",
            "kubeconfig FILE: users[0].user.exec.args[0]: Invalid value: 1: must be a string",
        ),
        ("users: []", "kubeconfig FILE: current-context: is not set"),
        ("current-context: x\n", 'kubeconfig FILE: current-context: "x" is not among contexts (there are none)'),
        ("current-context: x\ncontexts: [{name: c}, {name: d}]", 'kubeconfig FILE: current-context: "x" is not among contexts (c, d)'),
        ("current-context: c\ncontexts: [{name: c}]", "kubeconfig FILE: the context c: names none of clusters"),
        (CONTEXT + USER, 'kubeconfig FILE: the context c: "k" is not among clusters (there are none)'),
        (CONTEXT + CLUSTER, 'kubeconfig FILE: the context c: "u" is not among users (there are none)'),
        (CONTEXT + USER + "clusters: [{name: k, cluster: {}}]", "kubeconfig FILE: clusters[k].cluster.server: must be given"),
        (
            CONTEXT + USER + "clusters: [{name: k, cluster: {server: 'ftp://h'}}]",
            "kubeconfig FILE: clusters[k].cluster.server: not the URL of an API server: ftp://h",
        ),
        (
            CONTEXT + USER + "clusters: [{name: k, cluster: {server: 'https://h', proxy-url: 'socks5://p'}}]",
            "kubeconfig FILE: clusters[k].cluster.proxy-url: only http and https proxies can be used: socks5://p",
        ),
    ],
)
async def test_a_malformed_file_is_one_line_with_key_and_value(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    assert await refusal(str(path)) == expected


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (
            {"certificate_authority": "ca.crt"},
            "kubeconfig FILE: clusters[k].cluster.certificate-authority: DIR/ca.crt: No such file or directory",
        ),
        ({"certificate_authority_data": "%%"}, "kubeconfig FILE: clusters[k].cluster.certificate-authority-data: is not base64: %%"),
        (
            {"certificate_authority_data": b64encode(b"hello").decode()},
            "kubeconfig FILE: clusters[k].cluster.certificate-authority-data: the data: holds no PEM certificate",
        ),
        (
            {"certificate_authority_data": b64encode(b"hello").decode(), "insecure_skip_tls_verify": True},
            "kubeconfig FILE: clusters[k].cluster.insecure-skip-tls-verify: must not be true together with a certificate-authority",
        ),
    ],
)
async def test_a_certificate_authority_that_cannot_be_used_is_named(kubeconfig: Callable[..., str], cluster: Any, expected: str) -> None:
    assert await refusal(kubeconfig("https://h:6443", **cluster)) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"tokenFile": "token"}, "users[u].user.tokenFile: DIR/token: No such file or directory"),
        ({"token": "a\nb"}, "users[u].user.token: holds a line break (character 2)"),
        ({"token": "a", "username": "b"}, "users[u].user: only one of token and username can be used"),
        (
            {"exec": {"command": "x"}},
            'users[u].user.exec.apiVersion: "" is not known; known are client.authentication.k8s.io/v1, '
            "client.authentication.k8s.io/v1beta1",
        ),
        ({"exec": {"apiVersion": EXEC}}, "users[u].user.exec.command: must be given"),
        (
            {"exec": {"apiVersion": EXEC, "command": "no-such-plugin", "installHint": "install it"}},
            'users[u].user.exec: the credential plugin "no-such-plugin" cannot be started: No such file or directory; install it',
        ),
        (
            {"exec": {"apiVersion": EXEC, "command": "x", "interactiveMode": "Always"}},
            "users[u].user.exec.interactiveMode: Always cannot be had: a scheduler has no terminal",
        ),
        (
            {"auth-provider": {"name": "gcp"}},
            'users[u].user.auth-provider.name: no auth provider "gcp"; gcp and azure were replaced by exec plugins',
        ),
        ({"auth-provider": {"name": "oidc"}}, "users[u].user.auth-provider.config: idp-issuer-url and client-id must be given"),
        ({"client-certificate": "c.crt"}, "users[u].user.client-certificate: DIR/c.crt: No such file or directory"),
        (
            {"client-certificate-data": b64encode(b"x").decode()},
            "users[u].user.client-certificate-data: a client certificate and its key go together; the key is missing",
        ),
    ],
)
async def test_a_user_that_cannot_be_used_is_named(kubeconfig: Callable[..., str], user: dict[str, Any], expected: str) -> None:
    assert await refusal(kubeconfig("https://h:6443", user)) == f"kubeconfig FILE: {expected}"


async def test_a_file_that_is_not_there_or_is_a_folder_is_named(tmp_path: Path) -> None:
    assert await refusal(str(tmp_path / "none")) == "kubeconfig FILE: cannot be read: No such file or directory"
    assert await refusal(str(tmp_path)) == "kubeconfig FILE: cannot be read: Is a directory"


async def test_without_any_cluster_the_operator_reads_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConnectError, match=r"^no cluster: neither a kubeconfig .* nor --master is given, and this is no pod"):
        await connect(ConnectionSettings(), RealClock(), Random(1))


async def test_a_master_that_is_no_address_is_named(kubeconfig: Callable[..., str]) -> None:
    for path in ("", kubeconfig("https://h:6443")):
        with pytest.raises(ConnectError, match=r"^--master: not the address of an API server: http://a b$"):
            await connect(ConnectionSettings(master="http://a b", kubeconfig=path), RealClock(), Random(1))


def test_the_current_contexts_cluster_and_user_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: b\n"
        "contexts: [{name: a, context: {cluster: k, user: u}}, {name: b, context: {cluster: l, user: v, namespace: x}}]\n"
        "clusters: [{name: k, cluster: {server: 'https://k'}}, {name: l, cluster: {server: 'https://l:1/p/', tls-server-name: name}}]\n"
        "users: [{name: u, user: {token: t1}}, {name: v, user: {token: t2, as: root, as-groups: [g, h], as-user-extra: {x/a: [z]}}}]\n"
        "preferences: {}\nextra: 1\n"
    )
    target = read_kubeconfig(str(path))
    assert target.server == "https://l:1/p"
    assert target.tls.server_name == "name"
    assert target.credentials == Fixed(Credential(authorization="Bearer t2"))
    assert target.headers == (
        ("Impersonate-User", "root"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-x%2Fa", "z"),
    )


@pytest.mark.parametrize(
    ("server", "cluster", "expected"),
    [
        ("h:6443", {}, "http://h:6443"),
        ("h", {"insecure_skip_tls_verify": True}, "https://h"),
        ("https://h/", {}, "https://h"),
        ("https://X", {}, "https://X"),
    ],
)
def test_an_address_without_a_scheme_is_completed_as_client_go_does(kubeconfig: Any, server: str, cluster: Any, expected: str) -> None:
    assert read_kubeconfig(kubeconfig(server, **cluster)).server == expected


def test_the_master_address_goes_over_the_kubeconfigs(kubeconfig: Callable[..., str]) -> None:
    target = read_kubeconfig(kubeconfig("https://h:6443", {"token": "t"}), "https://other:1")
    assert (target.server, target.credentials) == ("https://other:1", Fixed(Credential(authorization="Bearer t")))


def test_paths_start_at_the_kubeconfigs_folder(kubeconfig: Callable[..., str], tmp_path: Path) -> None:
    user = {"tokenFile": "sub/token", "client-certificate": "/abs/c.crt", "client-key": "k.key"}
    target = read_kubeconfig(kubeconfig("https://h", user, certificate_authority="ca.crt"))
    assert target.credentials == TokenFile(f"kubeconfig {tmp_path}/kubeconfig: users[u].user.tokenFile", str(tmp_path / "sub/token"))
    assert [pem.file for pem in (target.tls.authority, target.tls.certificate, target.tls.key)] == [
        str(tmp_path / "ca.crt"),
        "/abs/c.crt",
        str(tmp_path / "k.key"),
    ]


def test_a_user_name_is_sent_as_basic_authentication(kubeconfig: Callable[..., str]) -> None:
    target = read_kubeconfig(kubeconfig("https://h", {"username": "u", "password": "p:q"}))
    assert target.credentials == Fixed(Credential(authorization="Basic " + b64encode(b"u:p:q").decode()))


def test_an_authority_that_a_plugin_is_to_get_and_that_is_not_there_is_named_by_its_key(
    kubeconfig: Callable[..., str], tmp_path: Path
) -> None:
    plugin = {"apiVersion": EXEC, "command": "plugin", "provideClusterInfo": True}
    path = kubeconfig("https://h", {"exec": plugin}, certificate_authority="gone.crt")
    text = f"kubeconfig {path}: clusters[k].cluster.certificate-authority: {tmp_path}/gone.crt: No such file or directory"
    with pytest.raises(ConnectError) as raised:
        read_kubeconfig(path)
    assert str(raised.value) == text


def test_a_plugin_gets_the_cluster_only_if_it_asks(kubeconfig: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    plugin = {"apiVersion": EXEC, "command": "./plugin", "args": ["-a"], "env": [{"name": "A", "value": "b"}], "provideClusterInfo": True}
    extension = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    path = kubeconfig("https://h", {"exec": plugin}, certificate_authority="ca.crt", extensions=extension)
    found = read_kubeconfig(path).credentials
    assert isinstance(found, ExecPlugin)
    assert (found.command, found.arguments, found.environment) == (str(tmp_path / "plugin"), ("-a",), {"A": "b"})
    assert found.cluster == {"server": "https://h", "certificate-authority-data": "UEVN", "config": {"audience": "x"}}
    quiet = read_kubeconfig(kubeconfig("https://h", {"exec": plugin | {"provideClusterInfo": False, "command": "plugin"}})).credentials
    assert isinstance(quiet, ExecPlugin)
    assert (quiet.cluster, quiet.command) == (None, "plugin")


def test_in_a_pod_the_service_account_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("PEM")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    target = in_cluster_target(str(tmp_path))
    assert target.server == "https://[fd00::1]:443"
    assert target.credentials == TokenFile("in-cluster", str(tmp_path / "token"))
    assert target.tls.authority.file == str(tmp_path / "ca.crt")


async def test_a_pod_without_its_service_account_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ConnectError, match=r"^in-cluster: .*/ca\.crt is missing; is automountServiceAccountToken false\?$"):
        await connect(ConnectionSettings(service_account=str(tmp_path)), RealClock(), Random(1))
