"""Who is answered what until requests are authenticated, and where the ports listen."""

from __future__ import annotations

import pytest

from koordsched.config import Flags, parse_flags
from koordsched.server.access import Access, access_of, is_loopback, listening_host

FAR = "10.1.2.3"


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_host_gets_everything(peer: str) -> None:
    assert Access().refusal(peer, "/debug/cache") == ""


@pytest.mark.parametrize("target", ["/healthz", "/healthz?verbose", "/open/a", "/open/a/b?x=1", "/open/"])
def test_others_get_the_paths_that_the_flag_names(target: str) -> None:
    assert Access(("/healthz", "/open/*")).refusal(FAR, target) == ""


@pytest.mark.parametrize("target", ["/metrics", "/healthz/ping", "/healthz/", "/open", "//metrics", "/healthz/../metrics", "//[", "/"])
def test_others_get_nothing_else_and_are_told_why(target: str) -> None:
    refusal = Access(("/healthz", "/open/*")).refusal(FAR, target)
    assert refusal.startswith(
        "forbidden: from other hosts this version answers only what --authorization-always-allow-paths names (/healthz, /open/*), not "
    )


@pytest.mark.parametrize("peer", ["", "unix", FAR, "::ffff:10.1.2.3", "2001:db8::1"])
def test_what_is_not_surely_this_host_is_another(peer: str) -> None:
    assert not is_loopback(peer)
    assert Access().refusal(peer, "/healthz") != ""


def test_the_paths_are_open_only_if_the_flag_was_given() -> None:
    assert access_of(Flags()).open_paths == ()
    assert access_of(parse_flags(["--authorization-always-allow-paths=/a,/b"])).open_paths == ("/a", "/b")
    assert access_of(parse_flags(["--authorization-always-allow-paths="])).open_paths == ()


@pytest.mark.parametrize(
    ("arguments", "address", "expected"),
    [
        ([], "0.0.0.0", "127.0.0.1"),
        ([], FAR, "127.0.0.1"),
        ([], "::", "::1"),
        ([], "127.0.0.2", "127.0.0.2"),
        (["--authorization-always-allow-paths=/healthz"], "0.0.0.0", "0.0.0.0"),
        (["--authorization-always-allow-paths=/healthz"], FAR, FAR),
    ],
)
def test_ports_are_bound_to_loopback_unless_the_flag_was_given(arguments: list[str], address: str, expected: str) -> None:
    assert listening_host(parse_flags(arguments), address) == expected
