"""Credentials that live for three seconds: watches and binds go on while they are renewed, in time or, if no end is given, when refused."""

from __future__ import annotations

import ssl
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from support import credential_plugin
from support.controlplane.credentials import SCHEDULER, Kubeconfig, User, by_exec_plugin
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import EVENTS, Launch, create_node, create_pod, until
from support.placements import Placements
from support.proxy import Proxy, Weather

LIFETIME = 3
CREATING_SECONDS = 15.0  # five lives
CERTIFICATES = 200  # for ten minutes, should the machine be that slow
PAUSE = 0.1
PROMPTLY = 10.0
WATCH_SECONDS = 2.0  # so that each watch of the test needs a credential that is good at the time


class Gate:
    """Lets tokens of the plugin through while they are good, as the scheduler's real one."""

    def __init__(self, token: str) -> None:
        self.tokens: set[str] = set()
        self._authorization = f"Bearer {token}"

    def __call__(self, authorization: str) -> str | None:
        end = authorization.removeprefix(f"Bearer {credential_plugin.TOKEN}")
        self.tokens.add(end)
        return self._authorization if float(end) > time.time() else None


def plugin(folder: Path, *arguments: str | Path) -> User:
    """Return the user's entry of a kubeconfig for the plugin."""
    script = credential_plugin.__file__
    assert script is not None
    return by_exec_plugin(sys.executable, "-I", script, str(folder / "calls"), *map(str, arguments))


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def create_for_a_while(rest: Rest) -> dict[str, float]:
    """Create a pod every moment; return when each was created."""
    created: dict[str, float] = {}
    end = time.monotonic() + CREATING_SECONDS
    while time.monotonic() < end:
        name = f"p{len(created)}"
        created[name] = time.monotonic()
        create_pod(rest, name, "10m")
        time.sleep(PAUSE)
    return created


def run_and_check(plane: ControlPlane, folder: Path, kubeconfig: Kubeconfig) -> None:
    """Create pods all the while; each must be bound soon after that, and nothing may be lost."""
    rest = plane.rest()
    for i in range(5):
        create_node(rest, f"n{i}", "4")
    with Placements(plane.kubeconfig()) as placements:
        running = Launch(plane, folder, kubeconfig).start()
        running.await_readiness()
        created = create_for_a_while(rest)
        until(lambda: placements.bound == len(created))
        outcome = running.stop()
    late = {story.name: story.bound - created[story.name] for story in placements.stories.values()}
    assert max(late.values()) < PROMPTLY
    assert outcome.code == 0
    assert outcome.of("error") == []
    assert "Traceback" not in outcome.text
    events = Counter(event["regarding"]["name"] for event in rest.get(EVENTS)["items"] if event["reason"] == "Scheduled")
    assert events == dict.fromkeys(created, 1)
    assert calls(folder) >= CREATING_SECONDS // LIFETIME


@pytest.mark.parametrize("expiry", [("expiry",), ()], ids=["the plugin says when it expires", "it does not"])
def test_tokens_that_expire(plane: ControlPlane, tmp_path: Path, expiry: tuple[str, ...]) -> None:
    weather, gate = Weather(Random(3), watch_seconds=WATCH_SECONDS), Gate(plane.tokens[SCHEDULER])
    weather.authorize = gate
    with Proxy(plane, weather, tmp_path) as proxy:
        run_and_check(plane, tmp_path, proxy.kubeconfig(plugin(tmp_path, "token", str(LIFETIME), *expiry)))
    assert len(gate.tokens) >= CREATING_SECONDS // LIFETIME
    if not expiry:
        assert weather.refused >= CREATING_SECONDS // LIFETIME - 1


def test_client_certificates_that_expire(plane: ControlPlane, tmp_path: Path) -> None:
    now = int(time.time())
    expiries = range(now + LIFETIME, now + LIFETIME * CERTIFICATES, LIFETIME)
    for expiry in expiries:
        pair = plane.authority.client(SCHEDULER.user, SCHEDULER.groups, datetime.fromtimestamp(expiry, UTC))
        (tmp_path / f"{expiry}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{expiry}.key").write_bytes(pair.key)
    run_and_check(plane, tmp_path, plane.kubeconfig(plugin(tmp_path, "certificates", tmp_path)))
    assert [status_with(plane, tmp_path / f"{expiry}") for expiry in (expiries[0], expiries[-1])] == [401, 200]


def status_with(plane: ControlPlane, pair: Path) -> int:
    """Ask the API server with a client certificate; return the status of its answer."""
    context = ssl.create_default_context(cadata=plane.authority.certificate.decode())
    context.load_cert_chain(pair.with_suffix(".crt"), pair.with_suffix(".key"))
    try:
        with urllib.request.urlopen(f"{plane.url}/api/v1/nodes", context=context, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
