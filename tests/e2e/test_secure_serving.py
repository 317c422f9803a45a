"""The secure port on a real API server: whom it answers what, beside kube-scheduler; and certificates that change while it serves."""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from support.controlplane.authority import Authority
from support.controlplane.credentials import ADMIN, SCHEDULER, STRANGER, Identity, by_token
from support.controlplane.plane import ControlPlane
from support.live import until
from support.secure import Answered, Asked, Door, answered
from support.served import TIMEOUT, command, write_config

from koordsched.scenario.live.process import free_port

THERE, HERE = "kube-scheduler", "koord-scheduler"
FEATURE = r'kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\S+)'


class Cast(NamedTuple):
    """Who asks, and whom a scheduler is to trust."""

    plane: ControlPlane
    folder: Path
    proxies: Authority

    def flags(self, reviewer: str) -> list[str]:
        """Return the flags that both schedulers get; `reviewer` is the token for TokenReviews and SubjectAccessReviews."""
        kubeconfig = self.plane.kubeconfig(by_token(reviewer)).write(self.folder / "reviewer")
        (self.folder / "proxies.crt").write_bytes(self.proxies.certificate)
        return [
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--requestheader-client-ca-file={self.folder / 'proxies.crt'}",
            "--requestheader-allowed-names=front-proxy",
        ]

    def doors(self, reviewer: str) -> dict[str, Door]:
        """Start both schedulers and return their ports once they are ready."""
        flags, doors = self.flags(reviewer), {THERE: Door(free_port()), HERE: Door(free_port())}
        kubeconfig = self.plane.kubeconfig(by_token(self.plane.tokens[SCHEDULER])).write(self.folder / "kubeconfig")
        theirs = [str(self.plane.binaries.folder / THERE), f"--kubeconfig={kubeconfig}", f"--secure-port={doors[THERE].port}", *flags]
        _, ours = command("--config", write_config(self.folder, kubeconfig), f"--secure-port={doors[HERE].port}", "--port=0", *flags)
        processes = [self.plane.spawn(THERE, theirs), self.plane.spawn(HERE, ours)]
        for process, door in zip(processes, doors.values(), strict=True):
            process.wait_until(door.ready, TIMEOUT)
        return doors

    def bearer(self, identity: Identity) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.plane.tokens[identity]}"}


@pytest.fixture
def cast(plane: ControlPlane, tmp_path: Path) -> Cast:
    return Cast(plane, tmp_path, Authority())


def requests(cast: Cast) -> dict[str, Asked]:
    """Return the table: by what is special about each request."""
    known, ago = cast.plane.authority, datetime.now(UTC) - timedelta(minutes=5)
    masters = ("system:masters",)
    admin, stranger = cast.bearer(ADMIN), cast.bearer(STRANGER)
    boss = {"X-Remote-User": "boss", "X-Remote-Group": "system:masters"}
    proxy, foreign, expired = cast.proxies.client("front-proxy"), Authority().client("boss", masters), known.client("boss", masters, ago)
    return {
        "anonymous on an open path": Asked(path="/healthz"),
        "anonymous on an open path, percent-encoded": Asked(path="/%68ealthz"),
        "anonymous": Asked(),
        "anonymous, a check of an open path": Asked(path="/readyz/shutdown"),
        "anonymous, a path with dots": Asked(path="/healthz/../metrics"),
        "anonymous, what does not exist": Asked(path="/nothing"),
        "anonymous, another method": Asked("POST"),
        "a token without rights": Asked(headers=stranger),
        "an unknown token": Asked(headers={"Authorization": "Bearer malformed"}),
        "an unknown token on an open path": Asked(path="/healthz", headers={"Authorization": "Bearer malformed"}),
        "an empty token": Asked(headers={"Authorization": "Bearer "}),
        "a password": Asked(headers={"Authorization": "Basic eDp5"}),
        "an administrator's token": Asked(headers=admin),
        "an administrator's token, what does not exist": Asked(path="/nothing", headers=admin),
        "an administrator's token, HEAD": Asked("HEAD", headers=admin),
        "an administrator's token, another method": Asked("PUT", "/healthz", headers=admin),
        "an administrator's certificate": Asked(path="/configz", pair=known.client("boss", masters)),
        "a certificate without rights": Asked(pair=known.client("no-one")),
        "a certificate without a name": Asked(pair=known.client("", ("group",))),
        "an expired certificate": Asked(pair=expired),
        "an expired certificate on an open path": Asked(path="/healthz", pair=expired),
        "an expired certificate and a good token": Asked(headers=admin, pair=expired),
        "a foreign certificate": Asked(pair=foreign),
        "a server's certificate": Asked(pair=known.server()),
        "a front proxy for an administrator": Asked(path="/configz", headers=boss, pair=proxy),
        "a front proxy for a stranger": Asked(headers={"X-Remote-User": "stranger"}, pair=proxy),
        "a front proxy without a user": Asked(pair=proxy),
        "a front proxy whose name is not allowed": Asked(headers=boss, pair=cast.proxies.client("other")),
        "a front proxy's headers from an untrusted certificate": Asked(headers=boss, pair=foreign),
        "a front proxy's headers without a certificate": Asked(headers=boss),
        "a front proxy's headers from a client": Asked(path="/configz", headers=boss, pair=known.client("no-one")),
        "metrics of pods": Asked(path="/metrics/resources", headers=admin),
        "health checks as metrics": Asked(path="/metrics/slis", headers=admin),
        "a reset": Asked("DELETE", headers=admin),
        "a reset of health checks": Asked("DELETE", "/metrics/slis", headers=admin),
        "a slash too many": Asked(path="/healthz/", headers=admin),
        "two slashes": Asked(path="//metrics", headers=admin),
        "a check that readyz has not": Asked(path="/readyz/ping", headers=admin),
        "one check": Asked(path="/readyz/sched-handler-sync", headers=admin),
        "profiles": Asked(path="/debug/pprof/", headers=admin),
        "profiles without the slash": Asked(path="/debug/pprof", headers=admin),
        "tasks": Asked(path="/debug/pprof/goroutine?debug=1", headers=admin),
        "an unknown profile": Asked(path="/debug/pprof/nothing", headers=admin),
        "flags": Asked(path="/debug/flags", headers=admin),
        "the verbosity, read": Asked(path="/debug/flags/v", headers=admin),
        "the verbosity, set": Asked("PUT", "/debug/flags/v", admin, body=b"2"),
        "the verbosity, set to no number": Asked("PUT", "/debug/flags/v", admin, body=b"x"),
        "debug": Asked(path="/debug", headers=admin),
    }


LOOP_CHECK = b"[+]scheduling-loop ok\n"
"""The one check more that our /livez has (docs/differences.md)."""


def features(metrics: str) -> dict[tuple[str, str], float]:
    """Return whether each gate is on, by its name and stage."""
    return {(gate[1], gate[2]): float(gate[3]) for gate in re.finditer(FEATURE, metrics)}


def scheduler_metrics(metrics: str) -> set[str]:
    """Return the names and types of the scheduler's metrics."""
    return set(re.findall(r"^# TYPE (scheduler_.*)$", metrics, re.MULTILINE))


def kinds(answers: Mapping[str, Answered]) -> dict[str, object]:
    return {name: (answer.status, answer.kind) for name, answer in answers.items()}


def test_requests_are_answered_and_refused_as_kube_scheduler_does(cast: Cast) -> None:
    doors, table = cast.doors(cast.plane.tokens[SCHEDULER]), requests(cast)
    there, here = ({name: doors[who].ask(asked) for name, asked in table.items()} for who in (THERE, HERE))
    assert kinds(here) == kinds(there)
    assert [here[name].status for name in ("anonymous", "a token without rights", "an expired certificate")] == [403, 403, 401]
    for path in ("/readyz?verbose", "/readyz?verbose&exclude=shutdown&exclude=nothing", "/healthz?verbose", "/livez?verbose"):
        body = doors[HERE].ask(Asked(path=path)).body
        if path.startswith("/livez"):
            assert body.count(LOOP_CHECK) == 1
            body = body.replace(LOOP_CHECK, b"")
        assert body == doors[THERE].ask(Asked(path=path)).body
    theirs, ours = (doors[who].ask(Asked(headers=cast.bearer(ADMIN))).body.decode() for who in (THERE, HERE))
    assert features(theirs).items() <= features(ours).items()
    assert scheduler_metrics(theirs) <= scheduler_metrics(ours)


def test_without_the_right_to_ask_for_reviews_no_request_is_let_in(cast: Cast) -> None:
    doors = cast.doors(cast.plane.tokens[STRANGER])
    table = {
        "anonymous": Asked(),
        "anonymous on an open path": Asked(path="/healthz"),
        "a token": Asked(headers=cast.bearer(ADMIN)),
        "a token on an open path": Asked(path="/healthz", headers=cast.bearer(ADMIN)),
    }
    there, here = ({name: doors[who].ask(asked) for name, asked in table.items()} for who in (THERE, HERE))
    assert kinds(here) == kinds(there)
    assert [answer.status for answer in here.values()] == [500, 200, 401, 401]
    assert "may --authorization-kubeconfig create subjectaccessreviews?" in cast.plane.process(HERE).log.read_text()


def test_certificate_files_are_replaced_while_it_serves_and_no_request_is_lost(cast: Cast) -> None:
    folder, door = cast.folder, Door(free_port())
    kubeconfig = cast.plane.kubeconfig(by_token(cast.plane.tokens[SCHEDULER])).write(folder / "kubeconfig")

    def renew() -> str:
        pair = cast.plane.authority.server()
        (folder / "crt").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate.decode())).hexdigest()

    def shown() -> str:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((door.host, door.port)))).hexdigest()

    first = renew()
    files = [f"--tls-cert-file={folder / 'crt'}", f"--tls-private-key-file={folder / 'key'}", "--bind-address=127.0.0.1"]
    _, line = command("--config", write_config(folder, kubeconfig), f"--secure-port={door.port}", "--port=0", *files)
    process = cast.plane.spawn(HERE, line)
    process.wait_until(door.ready, TIMEOUT)
    assert shown() == first
    kept = door.connection()
    assert answered(kept, Asked(path="/livez")).body == b"ok"
    second = renew()
    until(lambda: door.ask(Asked(path="/livez")).body == b"ok" and shown() == second)
    assert answered(kept, Asked(path="/livez")).body == b"ok"
    kept.close()
    (folder / "crt").write_text("malformed")
    until(lambda: "the one before stays" in process.output())
    assert (door.ask(Asked(path="/livez")).body, shown()) == (b"ok", second)
    assert process.stop(TIMEOUT) == 0
