"""Which proxy the environment names for an API server."""

from __future__ import annotations

import pytest

from koordsched.cluster.apiserver.sessions import environment_proxy


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.internal, 192.168.1.1,malformed/x")


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://api.example.org:6443", "http://proxy:3128"),
        ("http://api.example.org:8080", ""),
        ("https://172.16.0.1:6443", "http://proxy:3128"),
        ("https://10.96.0.1:443", ""),
        ("https://192.168.1.1:443", ""),
        ("https://api.internal:443", ""),
        ("https://localhost:6443", ""),
        ("https://127.0.0.1:6443", ""),
        ("https://[::1]:6443", ""),
    ],
)
def test_the_proxy_depends_on_scheme_and_host(server: str, expected: str) -> None:
    assert environment_proxy(server) == expected
