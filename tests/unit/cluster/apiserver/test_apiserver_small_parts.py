"""Small parts of the adapter whose exact behaviour larger tests do not look at."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from structlog.testing import capture_logs
from support.controlplane.authority import Authority

from koordsched.api.kinds import POD
from koordsched.cluster.apiserver.calls import JSON
from koordsched.cluster.apiserver.credentials import CredentialError, TokenFile
from koordsched.cluster.apiserver.decoding import KindDecoder
from koordsched.cluster.apiserver.errors import SentRequest
from koordsched.cluster.apiserver.headers import HeaderCache
from koordsched.cluster.apiserver.identity import Identity
from koordsched.cluster.apiserver.kubeconfig import read_kubeconfig
from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings
from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.apiserver.target import Pem, Target, TlsSettings
from koordsched.cluster.apiserver.tls import make_context, read_material
from koordsched.cluster.port import BOOKMARK

if TYPE_CHECKING:
    from pathlib import Path

    from koordsched.clock import RealClock


def test_an_error_shows_the_address_without_the_query() -> None:
    assert str(SentRequest("GET", "http://h/api/v1/pods?a=b?c=d")) == "GET http://h/api/v1/pods"
    assert SentRequest("GET", "https://h:6443/api/v1/pods").address == "https://h:6443"


async def test_headers_are_made_once_for_each_content_type_until_the_identity_changes(clock: RealClock, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    identity = Identity(Target(server="http://h", credentials=TokenFile("w", str(token))), clock, Random(1))
    await identity.start()
    headers = HeaderCache([("Host", "h")], identity)
    first, text = headers.mapping(JSON), headers.text(JSON)
    assert dict(first) == {
        "Accept": JSON,
        "Accept-Encoding": "identity",
        "Host": "h",
        "Content-Type": JSON,
        "Authorization": "Bearer one",
    }
    assert text.decode() == "".join(f"{name}: {value}\r\n" for name, value in first.items())
    assert "Content-Type" not in headers.mapping("")
    assert b"Content-Type" not in headers.text("")
    assert headers.mapping(JSON) is first, "a bind must not pay for it"
    assert headers.text(JSON) is text
    token.write_text("two")
    assert await identity.renew(identity.version)
    assert headers.mapping("")["Authorization"] == headers.mapping(JSON)["Authorization"] == "Bearer two"
    assert b"Authorization: Bearer two\r\n" in headers.text(JSON)


def test_a_bookmark_says_of_which_kind_it_is() -> None:
    line = {"type": "MODIFIED", "object": {"metadata": {"name": "a", "namespace": "web", "resourceVersion": "12"}, "spec": 5}}
    with capture_logs():
        [event] = KindDecoder(POD).batch(msgspec.json.encode(line) + b"\n").events
    assert event.type is BOOKMARK
    assert (event.object.api_version, event.object.kind, event.object.metadata.resource_version) == ("v1", "Pod", "12")


@pytest.mark.parametrize(
    ("cluster", "given"),
    [
        ({"insecure_skip_tls_verify": True}, {"insecure-skip-tls-verify": True}),
        ({"tls_server_name": "k8s"}, {"tls-server-name": "k8s"}),
        ({"proxy_url": "http://proxy:3128"}, {"proxy-url": "http://proxy:3128"}),
        ({"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}]}, {"config": {"a": 1}}),
        ({"extensions": [{"name": "other", "extension": {"a": 1}}]}, {}),
    ],
)
def test_an_exec_plugin_that_asks_for_it_gets_the_cluster(kubeconfig: Any, cluster: dict[str, Any], given: dict[str, Any]) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./plugin",
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    found: Any = read_kubeconfig(kubeconfig("https://h", {"exec": plugin}, **cluster)).credentials
    assert found.cluster == {"server": "https://h", **given}


async def test_an_authority_that_is_no_certificate_is_an_error_with_the_issuers_address() -> None:
    settings = OidcSettings("https://issuer", "id", "secret", refresh_token="r", idp_certificate_authority_data="w6k=")  # a UTF-8 letter
    with pytest.raises(CredentialError, match=r"^w: https://issuer gives no new id-token: "):
        await Oidc("w", settings).fetch()


def test_an_authority_may_have_comments_in_any_script() -> None:
    comment = "# Autorité de certification \N{GREEK SMALL LETTER ALPHA}\n".encode()
    settings = TlsSettings(authority=Pem("ca", data=comment + Authority().certificate))
    assert len(make_context(settings, read_material(settings)).get_ca_certs()) == 1


def test_an_authority_of_comments_alone_is_named() -> None:
    settings = TlsSettings(authority=Pem("ca", data="é".encode()))
    with pytest.raises(ConnectError, match=r"^ca: the data: holds no PEM certificate$"):
        make_context(settings, read_material(settings))
