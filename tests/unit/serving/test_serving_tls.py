"""The certificate of the secure port: whose it is, and what is said of one that cannot be used."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from koordsched.config import parse_flags
from koordsched.server.mistakes import StartError
from koordsched.server.tls import CertKey, self_signed, server_context

NOW = 1_790_000_000.0
"""A fixed moment: 2026-09-21."""


@pytest.fixture(scope="module")
def pair() -> CertKey:
    return self_signed(NOW)


@pytest.fixture
def files(pair: CertKey, tmp_path: Path) -> dict[str, Path]:
    made = {
        "cert": pair.certificate,
        "key": pair.key,
        "other": self_signed(NOW).key,
        "text": b"hello",
        "empty": b"",
    }
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    return {name: tmp_path / name for name in [*made, "missing"]}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """Return the client's side after a handshake in memory; SSLError when there can be none."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    far = server.wrap_bio(to_server, to_client, server_side=True)
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [near, far]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return near


def trusting(certificate: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def careless() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def mistake(*arguments: str | Path) -> str:
    with pytest.raises(StartError) as caught:
        server_context(parse_flags([str(argument) for argument in arguments]), NOW)
    return str(caught.value)


def test_without_files_a_pair_is_made_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = server_context(parse_flags([]), NOW)
    assert handshake(server, careless()).version() == "TLSv1.3"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_the_made_pair_is_for_this_host(files: dict[str, Path], pair: CertKey, name: str) -> None:
    server = server_context(parse_flags([f"--tls-cert-file={files['cert']}", f"--tls-private-key-file={files['key']}"]), NOW)
    client = trusting(pair.certificate)
    client.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME: the fixed moment need not be now
    assert handshake(server, client, name).getpeercert()["subject"] == ((("commonName", "localhost"),),)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, client, "example.org")


def test_a_folder_of_certificates_keeps_the_pair_for_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    for _ in range(2):
        server = server_context(parse_flags([f"--cert-dir={folder}"]), NOW)
        shown = handshake(server, careless()).getpeercert(binary_form=True)
        assert shown == ssl.PEM_cert_to_DER_cert((folder / "kube-scheduler.crt").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["kube-scheduler.crt", "kube-scheduler.key"]
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600


def test_versions_and_ciphers_are_those_of_the_flags() -> None:
    old = careless()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(server_context(parse_flags(["--tls-min-version=VersionTLS13"]), NOW), old)
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256"
    used = handshake(server_context(parse_flags([f"--tls-cipher-suites={suites}"]), NOW), old).cipher()
    assert used is not None
    assert used[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.parametrize(
    ("cert", "key", "expected"),
    [
        ("missing", "key", "--tls-cert-file {cert} cannot be read: No such file or directory"),
        ("cert", "missing", "--tls-private-key-file {key} cannot be read: No such file or directory"),
        ("text", "key", "{cert} and {key} are no PEM certificate and its private key: "),
        ("cert", "empty", "{cert} and {key} are no PEM certificate and its private key: "),
        ("cert", "other", "{cert} and {key} are no PEM certificate and its private key: KEY_VALUES_MISMATCH"),
    ],
)
def test_files_that_cannot_be_used_are_named(files: dict[str, Path], cert: str, key: str, expected: str) -> None:
    said = mistake("--tls-cert-file", files[cert], "--tls-private-key-file", files[key])
    assert said.startswith(expected.format(cert=files[cert], key=files[key]))
    assert "\n" not in said


def test_one_file_of_a_pair_is_not_enough(files: dict[str, Path]) -> None:
    assert mistake("--tls-cert-file", files["cert"]) == "--tls-cert-file needs --tls-private-key-file beside it"
    assert mistake("--tls-private-key-file", files["key"]) == "--tls-private-key-file needs --tls-cert-file beside it"


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    assert mistake("--tls-min-version=1.2").startswith('--tls-min-version: unknown tls version "1.2", expected one of VersionTLS10, ')
    assert mistake("--tls-cipher-suites=RC4") == "--tls-cipher-suites: Cipher suite RC4 not supported or doesn't exist"
    (tmp_path / "file").touch()
    assert mistake("--cert-dir", tmp_path / "file") == (
        f"--cert-dir {tmp_path}/file: the serving certificate cannot be read or written: File exists"
    )
