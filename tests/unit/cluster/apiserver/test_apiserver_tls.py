"""Whom we trust and what we show: certificates, wrong ones, and ones that change while running."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from base64 import b64encode
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs
from support.virtual_loop import running

from koordsched.api.kinds import NODE
from koordsched.cluster.apiserver import ConnectError, Untrusted, identity
from koordsched.cluster.apiserver.credentials import CredentialError, Fixed
from koordsched.cluster.apiserver.oidc import Oidc, OidcSettings
from koordsched.cluster.apiserver.target import Pem, Target, TlsSettings
from koordsched.cluster.port import Binding, ServerError

if TYPE_CHECKING:
    from pathlib import Path

    from koordsched.clock import RealClock

BINDING = Binding("web", "nginx", "u1", "node-1")
SINCE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)


class Signed(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for 127.0.0.1 and for clients. Its own certificate is plain, without the extensions that strict checks want."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        extension = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = self._sign(self._name, self._key.public_key(), extension)

    def issue(self, name: str) -> Signed:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]))
        plain = serialization.NoEncryption()
        return Signed(certificate, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))

    def _sign(self, subject: x509.Name, public: Any, extension: x509.ExtensionType) -> bytes:
        builder = x509.CertificateBuilder(self._name, subject, public, x509.random_serial_number(), SINCE, UNTIL)
        return builder.add_extension(extension, critical=False).sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def server_context(signed: Signed, folder: Path, clients: Authority | None = None) -> ssl.SSLContext:
    (folder / "server.pem").write_bytes(signed.certificate + signed.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    if clients is not None:
        context.load_verify_locations(cadata=clients.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def data(pem: bytes) -> str:
    return b64encode(pem).decode()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("ca")


async def test_a_server_of_the_right_authority_is_trusted(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    tls_server.answers((200, b"{}"))
    api = await connected(kubeconfig=kubeconfig(tls_server.url, certificate_authority_data=data(authority.certificate)))
    await api.check()


async def test_a_server_of_another_authority_is_named_in_one_line(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    for cluster in ({"certificate_authority_data": data(Authority("other").certificate)}, {}):
        api = await connected(kubeconfig=kubeconfig(tls_server.url, **cluster))
        with pytest.raises(ServerError) as raised:
            await api.bind(BINDING)
        assert raised.value.message.startswith(f"{tls_server.url} is not trusted: certificate verify failed: ")
        assert raised.value.message.endswith("; is the certificate authority (CA) the right one?")
        assert "\n" not in raised.value.message
    assert tls_server.seen == []


async def test_a_server_need_not_be_trusted_when_the_operator_says_so(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    tls_server.answers((200, b"{}"))
    await (await connected(kubeconfig=kubeconfig(tls_server.url, insecure_skip_tls_verify=True))).check()


async def test_the_name_in_the_certificate_may_be_given(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    ca = data(authority.certificate)
    api = await connected(kubeconfig=kubeconfig(tls_server.url, certificate_authority_data=ca, tls_server_name="elsewhere"))
    for ask in (api.check(), anext(api.watch(NODE, resource_version="1"))):
        with pytest.raises(ServerError, match="is not trusted: certificate verify failed: Hostname mismatch"):
            await ask
    tls_server.answers((200, b"{}"))
    url = tls_server.url.replace("127.0.0.1", "localhost")  # the certificate is for the address
    api = await connected(kubeconfig=kubeconfig(url, certificate_authority_data=ca, tls_server_name="127.0.0.1"))
    await api.check()
    assert [batch async for batch in api.watch(NODE, resource_version="1")] == []


async def test_an_authority_that_changes_on_disk_is_taken_over_when_trust_fails(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    tls_server.answers((201, b"{}"))
    (tmp_path / "ca.crt").write_bytes(Authority("old").certificate)
    api = await connected(kubeconfig=kubeconfig(tls_server.url, certificate_authority="ca.crt"))
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    await api.bind(BINDING)
    assert api.traffic.retries == 1
    assert len(tls_server.seen) == 1


async def test_an_authority_that_changes_on_disk_is_noticed_in_time(
    authority: Authority, clock: RealClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "FILES_SECONDS", 0.02)
    path = tmp_path / "ca.crt"
    path.write_bytes(authority.certificate)
    target = Target(server="https://h", credentials=Fixed(), tls=TlsSettings(authority=Pem("ca", str(path))))
    found = identity.Identity(target, clock, Random(1))
    await found.start()
    before = found.context
    async with running(found.run()), asyncio.timeout(10):
        with capture_logs() as logs:
            path.write_bytes(b"half a file")
            while not logs:  # noqa: ASYNC110  # nothing announces a log line
                await asyncio.sleep(0.01)
        assert found.context is before
        path.write_bytes(Authority("new").certificate)
        while found.version == 1:  # noqa: ASYNC110  # nor of a version
            await asyncio.sleep(0.01)
    assert found.context is not before
    assert "holds no PEM certificate" in logs[0]["error"]


async def test_a_client_certificate_is_shown(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path, clients=authority))
    tls_server.answers((200, b"{}"))
    ca, client = data(authority.certificate), authority.issue("client")
    user = {"client-certificate-data": data(client.certificate), "client-key-data": data(client.key)}
    api = await connected(kubeconfig=kubeconfig(tls_server.url, user, certificate_authority_data=ca))
    await api.check()
    assert [batch async for batch in api.watch(NODE, resource_version="1")] == []
    anonymous = await connected(kubeconfig=kubeconfig(tls_server.url, certificate_authority_data=ca))
    with pytest.raises(ServerError):
        await anonymous.check()


async def test_a_client_certificate_from_a_plugin_is_shown(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path, clients=authority))
    tls_server.answers((200, b"{}"))
    client = authority.issue("client")
    version = "client.authentication.k8s.io/v1"
    status = {"clientCertificateData": client.certificate.decode(), "clientKeyData": client.key.decode()}
    (tmp_path / "answer").write_bytes(msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": status}))
    user = {"exec": {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "answer")]}}
    await (await connected(kubeconfig=kubeconfig(tls_server.url, user, certificate_authority_data=data(authority.certificate)))).check()


@pytest.mark.filterwarnings("ignore:.*deprecated and will be removed in:DeprecationWarning")  # kubernetes-asyncio on aiohttp 3.14
async def test_an_issuer_is_trusted_by_the_authority_that_is_given_for_it(tls_server: Any, tmp_path: Path, authority: Authority) -> None:
    await tls_server.start(server_context(authority.issue("issuer"), tmp_path))
    tls_server.answers((200, {"token_endpoint": f"{tls_server.url}/token"}), (200, {"id_token": "new"}))
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    given: list[dict[str, Any]] = [
        {"idp_certificate_authority_data": data(authority.certificate)},
        {"idp_certificate_authority": str(tmp_path / "ca.crt")},
    ]
    for trusted in given:
        tls_server.answers((200, {"token_endpoint": f"{tls_server.url}/token"}), (200, {"id_token": "new"}))
        credential = await Oidc("w", OidcSettings(tls_server.url, "id", "secret", refresh_token="r", **trusted)).fetch()
        assert credential.authorization == "Bearer new"
    for untrusted in ({}, {"idp_certificate_authority_data": data(Authority("other").certificate)}):
        source = Oidc("w", OidcSettings(tls_server.url, "id", "secret", refresh_token="r", **untrusted))
        with pytest.raises(CredentialError, match=f"^w: {tls_server.url} gives no new id-token: certificate verify failed: "):
            await source.fetch()


async def test_a_watch_does_not_trust_a_server_of_another_authority_either(
    tls_server: Any, connected: Any, kubeconfig: Any, tmp_path: Path, authority: Authority
) -> None:
    await tls_server.start(server_context(authority.issue("server"), tmp_path))
    api = await connected(kubeconfig=kubeconfig(tls_server.url, certificate_authority_data=data(Authority("other").certificate)))
    with pytest.raises(Untrusted, match="is not trusted: certificate verify failed"):
        await anext(api.watch(NODE, resource_version="1"))


async def test_a_key_of_another_certificate_is_named(connected: Any, kubeconfig: Any, authority: Authority) -> None:
    one, other = authority.issue("a"), authority.issue("b")
    path = kubeconfig("https://h", {"client-certificate-data": data(one.certificate), "client-key-data": data(other.key)})
    with pytest.raises(ConnectError) as raised:
        await connected(kubeconfig=path)
    what = "the client certificate and the key do not belong together"
    assert str(raised.value) == f"kubeconfig {path}: users[u].user.client-certificate-data: {what}"


async def test_an_encrypted_key_is_refused_instead_of_asking_a_terminal(connected: Any, kubeconfig: Any, authority: Authority) -> None:
    signed = authority.issue("a")
    encryption = serialization.BestAvailableEncryption(b"secret")
    key = serialization.load_pem_private_key(signed.key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    path = kubeconfig("https://h", {"client-certificate-data": data(signed.certificate), "client-key-data": data(key)})
    with pytest.raises(ConnectError, match="not a PEM certificate and its unencrypted key"):
        await connected(kubeconfig=path)
