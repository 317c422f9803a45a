"""The certificate of the secure port: whose it is, and what is said of one that cannot be used."""

from __future__ import annotations

import ssl
import stat
import warnings
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from OpenSSL import SSL
from support.known import known

from koordsched.config import Flags
from koordsched.config.flags import parse_flags
from koordsched.server import StartError
from koordsched.server.tls import CertKey, ServingCertificates, self_signed

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


def handshake(server: ServingCertificates, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """Return the client's side after a handshake in memory; an error of either side when there can be none."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near, far = client.wrap_bio(to_client, to_server, server_hostname=name), server.connection()
    for _ in range(10):
        with suppress(ssl.SSLWantReadError):
            near.do_handshake()
        if said := to_server.read():
            far.bio_write(said)
        with suppress(SSL.WantReadError):
            far.do_handshake()
        with suppress(SSL.WantReadError):
            to_client.write(far.bio_read(100_000))
    assert near.version() is not None
    return near


def shown(serving: ServingCertificates, name: str = "localhost") -> str:
    """Return the certificate that a client is shown who asks for this name."""
    return ssl.DER_cert_to_PEM_cert(handshake(serving, careless(), name).getpeercert(binary_form=True) or b"")


def trusting(certificate: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def careless() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def served(flags: Flags, now: float) -> ServingCertificates:
    return ServingCertificates(flags, now, clients_show_theirs=True)


def mistake(*arguments: str | Path) -> str:
    with pytest.raises(StartError) as caught:
        served(parse_flags([str(argument) for argument in arguments]), NOW)
    return str(caught.value)


def test_without_files_a_pair_is_made_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = served(parse_flags([]), NOW)
    assert handshake(server, careless()).version() == "TLSv1.3"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_the_made_pair_is_for_this_host(files: dict[str, Path], pair: CertKey, name: str) -> None:
    server = served(parse_flags([f"--tls-cert-file={files['cert']}", f"--tls-private-key-file={files['key']}"]), NOW)
    client = trusting(pair.certificate)
    client.verify_flags |= 0x200000  # X509_V_FLAG_NO_CHECK_TIME: the fixed moment need not be now
    assert known(handshake(server, client, name).getpeercert())["subject"] == ((("commonName", "localhost"),),)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server, client, "example.org")


def test_a_folder_of_certificates_keeps_the_pair_for_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    for _ in range(2):
        server = served(parse_flags([f"--cert-dir={folder}"]), NOW)
        shown = handshake(server, careless()).getpeercert(binary_form=True)
        assert shown == ssl.PEM_cert_to_DER_cert((folder / "kube-scheduler.crt").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["kube-scheduler.crt", "kube-scheduler.key"]
    assert stat.S_IMODE((folder / "kube-scheduler.key").stat().st_mode) == 0o600


def test_versions_and_ciphers_are_those_of_the_flags() -> None:
    old = careless()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, SSL.Error)):
        handshake(served(parse_flags(["--tls-min-version=VersionTLS13"]), NOW), old)
    suites = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256"
    used = handshake(served(parse_flags([f"--tls-cipher-suites={suites}"]), NOW), old).cipher()
    assert used is not None
    assert used[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


@pytest.mark.parametrize(
    ("cert", "key", "expected"),
    [
        ("missing", "key", "--tls-cert-file {cert} cannot be read: No such file or directory"),
        ("cert", "missing", "--tls-private-key-file {key} cannot be read: No such file or directory"),
        ("text", "key", "{cert} and {key} are no PEM certificate and its private key: "),
        ("cert", "empty", "{cert} and {key} are no PEM certificate and its private key: "),
        ("cert", "other", "{cert} and {key} are no PEM certificate and its private key: they do not belong together"),
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


def write(folder: Path, pair: CertKey) -> None:
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)


def named(*names: str) -> CertKey:
    """Make a certificate for these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "named")])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2027, 1, 1))  # in UTC, as x509 has it
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    certificate = builder.sign(key, SHA256()).public_bytes(serialization.Encoding.PEM)
    shape = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return CertKey(certificate, key.private_bytes(*shape))


def test_files_are_read_again_when_both_have_changed(tmp_path: Path) -> None:
    first, second = self_signed(NOW), self_signed(NOW)
    write(tmp_path, first)
    flags = parse_flags([f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key"])
    serving = ServingCertificates(flags, NOW, clients_show_theirs=False)
    serving.refresh()
    assert shown(serving) == first.certificate.decode()
    (tmp_path / "crt").write_bytes(second.certificate)
    serving.refresh()
    assert shown(serving) == first.certificate.decode()  # the key does not fit yet
    (tmp_path / "key").write_bytes(second.key)
    serving.refresh()
    assert shown(serving) == second.certificate.decode()


@pytest.mark.parametrize("vanish", [True, False])
def test_files_that_become_useless_change_nothing_and_are_said_once(tmp_path: Path, vanish: bool, logged: Any) -> None:
    pair = self_signed(NOW)
    write(tmp_path, pair)
    flags = parse_flags([f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key"])
    serving = ServingCertificates(flags, NOW, clients_show_theirs=False)
    if vanish:
        (tmp_path / "crt").unlink()
    else:
        (tmp_path / "crt").write_text("garbage")
    for _ in range(3):
        serving.refresh()
    assert shown(serving) == pair.certificate.decode()
    assert logged.of("error") == ["the serving certificate's new files cannot be used; the one before stays"]


def test_a_connection_that_is_open_goes_on_with_the_certificate_that_it_has(tmp_path: Path) -> None:
    write(tmp_path, self_signed(NOW))
    flags = parse_flags([f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key"])
    serving = ServingCertificates(flags, NOW, clients_show_theirs=False)
    near = handshake(serving, careless())
    write(tmp_path, self_signed(NOW))
    serving.refresh()
    near.write(b"still here")


def test_the_certificate_is_the_one_of_the_name_that_is_asked_for(tmp_path: Path) -> None:
    pairs = {
        "own": named("own.example"),
        "wild": named("*.example"),
        "given": named("given.example"),
        "late": named("own.example"),
        "bare": named(),
    }
    for name, pair in pairs.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name, pair)
    flag = [f"--tls-sni-cert-key={tmp_path}/{name}/crt,{tmp_path}/{name}/key" for name in ("own", "wild", "late", "bare")]
    flag.append(f"--tls-sni-cert-key={tmp_path}/given/crt,{tmp_path}/given/key:Here.example,*.deep.example")
    serving = ServingCertificates(parse_flags(flag), NOW, clients_show_theirs=False)
    found = {
        name: shown(serving, name).encode()
        for name in ("own.example", "x.example", "here.example", "a.deep.example", "given.example", "named")
    }
    assert [key for name in found for key, pair in pairs.items() if pair.certificate == found[name]] == [
        "own",
        "wild",
        "given",
        "given",
        "wild",
        "bare",
    ]
    assert shown(serving, "a.b.example").encode() not in [pair.certificate for pair in pairs.values()]
    write(tmp_path / "own", pairs["late"])
    serving.refresh()
    assert shown(serving, "own.example").encode() == pairs["late"].certificate


@pytest.mark.parametrize("value", ["a", "a,b,c", ",b", "a,", ":x"])
def test_a_named_pair_that_is_none_is_refused(value: str) -> None:
    assert mistake(f"--tls-sni-cert-key={value}").startswith(
        f"--tls-sni-cert-key {value}: expected comma separated certificate and key file paths"
    )


def test_a_named_pair_that_cannot_be_read_is_named() -> None:
    assert mistake("--tls-sni-cert-key=/no/crt,/no/key:x") == "--tls-sni-cert-key /no/crt cannot be read: No such file or directory"


def test_insecure_suites_are_allowed_and_warned_of(logged: Any) -> None:
    served(parse_flags(["--tls-cipher-suites=TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]), NOW)
    assert logged.of("warning") == ["Use of insecure cipher 'TLS_RSA_WITH_AES_128_GCM_SHA256' detected."]


def test_suites_that_openssl_does_not_have_are_allowed_and_not_offered(logged: Any) -> None:
    served(parse_flags(["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]), NOW)
    assert logged.of("warning") == ["Insecure cipher 'TLS_RSA_WITH_RC4_128_SHA' is not offered: OpenSSL does not have it."]


@pytest.mark.parametrize("suites", ["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_3DES_EDE_CBC_SHA,TLS_AES_256_GCM_SHA384"])
def test_without_a_suite_for_older_versions_only_tls_13_is_spoken(suites: str) -> None:
    server = served(parse_flags([f"--tls-cipher-suites={suites}"]), NOW)
    assert handshake(server, careless()).version() == "TLSv1.3"
    old = careless()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, SSL.Error)):
        handshake(server, old)


def short_key() -> CertKey:
    """Make a pair that is in order but for the length of its key."""
    key = rsa.generate_private_key(65537, 1024)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "short")])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(datetime(2026, 1, 1)).not_valid_after(datetime(2027, 1, 1))
    shape = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return CertKey(builder.sign(key, SHA256()).public_bytes(serialization.Encoding.PEM), key.private_bytes(*shape))


def test_what_openssl_does_not_take_is_said_at_the_start_and_changes_nothing_later(tmp_path: Path, logged: Any) -> None:
    pair, short = self_signed(NOW), short_key()
    expected = "OpenSSL does not take a serving certificate or the cipher suites: ee key too small"
    flag = [f"--tls-cert-file={tmp_path}/crt", f"--tls-private-key-file={tmp_path}/key"]
    write(tmp_path, short)
    assert mistake(*flag) == expected
    write(tmp_path, pair)
    serving = ServingCertificates(parse_flags(flag), NOW, clients_show_theirs=False)
    write(tmp_path, short)
    serving.refresh()
    assert shown(serving) == pair.certificate.decode()
    assert logged.of("error") == [f"{expected}; the ones before stay"]


def test_old_versions_are_spoken_if_the_flag_wants_them() -> None:
    old = careless()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    assert handshake(served(parse_flags(["--tls-min-version=VersionTLS11"]), NOW), old).version() == "TLSv1.1"
    with pytest.raises((ssl.SSLError, SSL.Error)):
        handshake(served(parse_flags([]), NOW), old)
