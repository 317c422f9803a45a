"""`explain --server` against a scheduler that serves a real control plane: whom its secure port answers, what it says, and that nothing is
written for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import yaml
from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import EVENTS, create_node, create_pod, message, nodes_of_pods, reason, until
from support.proxy import Proxy, Weather
from support.secure import Door
from support.served import TIMEOUT, command, write_config

from koordsched.cli import main
from koordsched.scenario.live.process import free_port

CONFIG = Path(__file__).parents[2] / "config"
MANIFESTS = CONFIG / "rbac.yaml"
PROFILE = yaml.safe_load((CONFIG / "koord-scheduler-config.yaml").read_text())["profiles"][0] | {"schedulerName": "default-scheduler"}
ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: %s, namespace: default}
"""
RIGHTS = """
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ask-why}
rules:
- nonResourceURLs: [/apis/v1/explain, /apis/v1/explain/*]
  verbs: [get, post]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ask-why}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ask-why}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
"""
REVIEWS = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
"""Whose token it is, and whether that one may: these are asked by creating objects that are not kept."""
QUIET_LOOKS = 50
"""Looks in turn, 0.05 s apart, that must find no write: then nothing is left to write."""
READING = {"get", "list", "watch"}

VISITOR = "system:serviceaccount:default:visitor"

Ask = Callable[..., tuple[int, str, str]]


class Asking(NamedTuple):
    """A scheduler with the rights of the manifests behind a proxy that counts its requests, and two accounts of which one may ask it."""

    plane: ControlPlane
    weather: Weather
    url: str
    authority: Path
    reader: str
    visitor: str

    def writes(self) -> Counter[tuple[str, str]]:
        """Return how often what was requested that changes something, by verb and resource."""
        return Counter({asked: count for asked, count in self.weather.seen.items() if asked[0] not in READING})

    def await_rest(self) -> None:
        """Wait until the scheduler has written what it writes of its own accord, of quotas at most once a second."""
        looks: list[Counter[tuple[str, str]]] = []

        def same() -> bool:
            looks.append(self.writes())
            return looks[-1] == looks[max(0, len(looks) - QUIET_LOOKS)] and len(looks) > QUIET_LOOKS

        until(same)


@pytest.fixture
def asking(plane: ControlPlane, tmp_path: Path) -> Iterator[Asking]:
    rest, weather, door = plane.rest(), Weather(Random(1)), Door(free_port())
    (tmp_path / "reader.yaml").write_text(ACCOUNT % "reader" + RIGHTS)
    (tmp_path / "visitor.yaml").write_text(ACCOUNT % "visitor")
    authority, pair = tmp_path / "ca.crt", plane.authority.server()
    authority.write_bytes(plane.authority.certificate)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    with ExitStack() as stack:
        token, reader, visitor = (
            stack.enter_context(service_account(rest, manifest))
            for manifest in (MANIFESTS, tmp_path / "reader.yaml", tmp_path / "visitor.yaml")
        )
        proxy = stack.enter_context(Proxy(plane, weather, tmp_path))
        kubeconfig = proxy.kubeconfig(by_token(token)).write(tmp_path / "kubeconfig")
        _, line = command(
            *("--config", write_config(tmp_path, kubeconfig, profiles=[PROFILE]), "--port=0"),
            *(f"--secure-port={door.port}", "--bind-address=127.0.0.1"),
            *(f"--tls-cert-file={tmp_path / 'tls.crt'}", f"--tls-private-key-file={tmp_path / 'tls.key'}"),
            *(f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"),
        )
        process = plane.spawn("koord-scheduler-explaining", line)
        process.wait_until(door.ready, TIMEOUT)
        yield Asking(plane, weather, f"https://127.0.0.1:{door.port}", authority, reader, visitor)
        assert process.stop(TIMEOUT) == 0


@pytest.fixture
def ask(asking: Asking, capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*arguments: str, token: str = asking.reader) -> tuple[int, str, str]:
        code = main(["explain", *arguments, "--server", asking.url, "--certificate-authority", str(asking.authority), "--token", token])
        out, err = capsys.readouterr()
        return code, out, err

    return asked


def create_a_pod_that_waits(rest: Rest) -> None:
    create_node(rest, "n1", "2")
    create_pod(rest, "web", "3")
    until(lambda: reason(rest, "web") == "Unschedulable")
    until(lambda: "FailedScheduling" in {event["reason"] for event in rest.get(EVENTS)["items"]})


def versions(rest: Rest) -> dict[str, str]:
    """Return the resource version of each object that might have been written."""
    lists = ("/api/v1/pods", "/api/v1/nodes", "/apis/events.k8s.io/v1/events", "/apis/scheduling.k8s.io/v1/priorityclasses")
    objects = [(path, each["metadata"]) for path in lists for each in rest.get(path)["items"]]
    return {f"{path} {metadata['name']}": metadata["resourceVersion"] for path, metadata in objects}


def test_who_may_ask_learns_the_smallest_change_which_lets_the_pod_run_and_nothing_is_written(asking: Asking, ask: Ask) -> None:
    rest = asking.plane.rest()
    create_a_pod_that_waits(rest)
    asking.await_rest()
    before, written = versions(rest), asking.writes()
    code, out, err = ask("web")
    assert (code, err) == (0, "")
    assert out.startswith(f"Pod default/web is pending.\n  {message(rest, 'web')}\n")
    assert "request 2 of cpu instead of 3" in out
    found = json.loads(ask("web", "-o", "json")[1])
    assert (found["state"], found["message"]) == ("pending", message(rest, "web"))
    assert [each["node"] for each in found["changes"] if each["text"] == "request 2 of cpu instead of 3"] == ["n1"]
    assert versions(rest) == before
    assert (asking.writes() - written).keys() == REVIEWS

    create_pod(rest, "a-little-more", "2001m")  # than what is said to suffice
    until(lambda: reason(rest, "a-little-more") == "Unschedulable")
    create_pod(rest, "as-said", "2")
    until(lambda: nodes_of_pods(rest) == {"web": "", "a-little-more": "", "as-said": "n1"})


def test_who_may_not_ask_learns_that_and_as_whom_and_what(asking: Asking, ask: Ask, tmp_path: Path) -> None:
    """Every account may get paths below /apis (Kubernetes' role system:discovery), but not post to them."""
    create_a_pod_that_waits(asking.plane.rest())
    file = tmp_path / "new.json"
    file.write_text(json.dumps(new_pod()))
    path, said = "/apis/v1/explain", f"{asking.url} answers"
    assert ask("web", token=asking.visitor)[0] == 0
    for arguments, token, words in (
        (["-f", str(file)], asking.visitor, f'403: forbidden: User "{VISITOR}" cannot post path "{path}"'),
        (["web"], "", f'403: forbidden: User "system:anonymous" cannot get path "{path}/default/web/changes"'),
        (["web"], "malformed", "401: Unauthorized"),
    ):
        code, out, err = ask(*arguments, token=token)
        assert (code, out) == (1, "")
        assert err.startswith(f"{said} {words}")
    assert ask("-f", str(file))[0] == 0


def test_a_dry_run_has_the_priority_of_the_clusters_class_and_is_rejected_for_one_that_is_not_there(
    asking: Asking, ask: Ask, tmp_path: Path
) -> None:
    """Half a CPU is refused to pods of QoS class LSR whose priority is in Koordinator's production band, 9000 to 9999."""
    rest, file, found = asking.plane.rest(), tmp_path / "new.json", {}
    create_node(rest, "n1", "2")
    until(lambda: node_is_known(ask, file))
    for name, value in (("production", 9100), ("others", 5100)):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        rest.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
    asking.await_rest()
    before, written = versions(rest), asking.writes()
    for name in ("production", "others", "nope"):
        file.write_text(json.dumps(new_pod("500m", priorityClassName=name)))
        code, out, err = ask("-f", str(file), "-o", "json")
        assert (code, err) == (0, "")
        found[name] = json.loads(out)
    assert {name: each["state"] for name, each in found.items()} == {
        "production": "pending",
        "others": "would be placed",
        "nope": "rejected",
    }
    assert "integer" in found["production"]["message"]
    assert found["nope"]["message"] == 'pods "new" is forbidden: no PriorityClass with name nope was found'
    assert ask("-f", str(file))[1].startswith('Pod default/new is refused by the API server.\n  pods "new" is forbidden: no PriorityClass')
    assert (asking.writes() - written).keys() <= REVIEWS
    assert versions(rest) == before


def node_is_known(ask: Ask, file: Path) -> bool:
    file.write_text(json.dumps(new_pod("1", priority=5100, preemptionPolicy="Never")))
    found: dict[str, Any] = json.loads(ask("-f", str(file), "-o", "json", "--no-changes")[1])
    return bool(found["state"] == "would be placed")


def new_pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": "new", "namespace": "default", "labels": {"koordinator.sh/qosClass": "LSR"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
