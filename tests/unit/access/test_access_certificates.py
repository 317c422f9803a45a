"""Client certificates: which are believed, and whom they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from support.controlplane.authority import Authority, KeyPair

from koordsched.server.access.identities import CREDENTIAL_ID, UID, Authorities, user_of

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def chain(pair: KeyPair) -> tuple[x509.Certificate, ...]:
    return tuple(x509.load_pem_x509_certificates(pair.certificate))


def flaw(authority: Authority, pair: KeyPair, at: datetime = NOW) -> str:
    return Authorities.of(authority.certificate).flaw(chain(pair), at.timestamp())


def test_a_certificate_of_the_authority_is_believed_and_names_a_user(authority: Authority) -> None:
    pair = authority.client("jane", ("a", "b"))
    assert flaw(authority, pair) == ""
    user = user_of(chain(pair)[0])
    assert user is not None
    assert (user.name, user.groups, user.uid) == ("jane", ("a", "b"), "")
    assert user.extra == {CREDENTIAL_ID: (f"X509SHA256={chain(pair)[0].fingerprint(hashes.SHA256()).hex()}",)}


@pytest.mark.parametrize(("days", "words"), [(2, "certificate has expired"), (-2, "certificate is not yet valid")])
def test_outside_of_its_time_it_is_not_believed(authority: Authority, days: int, words: str) -> None:
    pair = authority.client("jane")
    assert words in flaw(authority, pair, NOW + timedelta(days=days))
    assert f"SN={chain(pair)[0].serial_number}" in flaw(authority, pair, NOW + timedelta(days=days))


def test_a_certificate_of_another_authority_is_not_believed(authority: Authority) -> None:
    assert "unable to get local issuer certificate" in flaw(authority, Authority().client("jane"))


def test_a_certificate_that_signed_itself_is_not_believed(authority: Authority) -> None:
    foreign = Authority()
    pair = KeyPair(foreign.certificate, b"")
    assert "self-signed certificate" in flaw(authority, pair)


def test_a_servers_certificate_is_not_for_clients(authority: Authority) -> None:
    assert flaw(authority, authority.server()).endswith("its extended key usage is not for clients")


def test_one_of_several_authorities_is_enough(authority: Authority) -> None:
    other = Authority()
    both = Authorities.of(other.certificate + authority.certificate)
    assert both.flaw(chain(authority.client("jane")), NOW.timestamp()) == ""
    assert both.flaw(chain(other.client("jane")), NOW.timestamp()) == ""


def test_without_authorities_no_certificate_is_valid(authority: Authority) -> None:
    assert Authorities().flaw(chain(authority.client("jane")), NOW.timestamp()) != ""


def test_a_name_is_needed_to_be_a_user(authority: Authority) -> None:
    assert user_of(chain(authority.client("", ("group",)))[0]) is None


def signed(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, ca: bool
) -> x509.Certificate:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key()).serial_number(7)
    builder = builder.not_valid_before(NOW - timedelta(hours=1)).not_valid_after(NOW + timedelta(hours=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    return builder.sign(by, hashes.SHA256())


def named(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


def test_intermediates_may_be_shown_or_be_the_authority_themselves() -> None:
    root_key, middle_key, leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    root_name, middle_name = named((NameOID.COMMON_NAME, "root")), named((NameOID.COMMON_NAME, "middle"))
    root = signed(root_name, root_name, root_key, root_key, ca=True)
    middle = signed(middle_name, root_name, middle_key, root_key, ca=True)
    leaf = signed(named((NameOID.COMMON_NAME, "jane"), (UID, "u-1")), middle_name, leaf_key, middle_key, ca=False)
    now = NOW.timestamp()
    assert Authorities((root,)).flaw((leaf, middle), now) == ""
    assert Authorities((middle,)).flaw((leaf,), now) == ""
    assert Authorities((root,)).flaw((leaf,), now) != ""
    user = user_of(leaf)
    assert user is not None
    assert user.uid == "u-1"


def test_a_bundle_without_a_certificate_is_none() -> None:
    with pytest.raises(ValueError, match="PEM"):
        Authorities.of(b"garbage")
