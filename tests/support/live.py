"""What tests of a scheduler that serves a real control plane have in common: nodes, pods, the process, waiting."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from koordsched.scenario.live.process import free_port
from support.controlplane.credentials import Kubeconfig
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process
from support.controlplane.rest import Rest
from support.served import TIMEOUT, Ended, Served, command, ended, write_config

NAME = "koord-scheduler"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events?limit=100000"
POLL_SECONDS = 0.05


class Launch(NamedTuple):
    """How a scheduler is started, once or again and again."""

    plane: ControlPlane
    folder: Path
    kubeconfig: Kubeconfig
    flags: tuple[str, ...] = ()
    connection: Mapping[str, object] = {"qps": 5000, "burst": 5000}
    config: Mapping[str, object] = {}  # further fields of the configuration file

    def start(self) -> Running:
        """Start it; it may not be ready yet. The log is appended to."""
        kubeconfig = self.kubeconfig.write(self.folder / "kubeconfig")
        connection = {"kubeconfig": str(kubeconfig), **self.connection}
        config = write_config(self.folder, kubeconfig, clientConnection=connection, **self.config)
        secure = free_port()
        open_to_all = [f"--secure-port={secure}", "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/*"]
        served, line = command("--config", config, *open_to_all, *self.flags)
        return Running(served, self.plane.spawn(NAME, line), secure)


class Running(NamedTuple):
    """A scheduler and its process."""

    served: Served
    process: Process
    secure: int

    def debug(self, path: str) -> tuple[int, str]:
        """Ask for what the plain port does not answer."""
        return ask_secure(self.secure, path)

    def put(self, path: str, body: str) -> tuple[int, str]:
        return ask_secure(self.secure, path, put=body)

    def await_readiness(self) -> None:
        self.process.wait_until(self.served.ready, TIMEOUT)

    def stop(self) -> Ended:
        """Ask it to end, and return how it ended; the log is that of all starts."""
        code = self.process.stop(TIMEOUT)
        return ended(code, self.process.output())


def until(holds: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Wait until it holds, and return what it returned."""
    deadline = time.monotonic() + timeout
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(POLL_SECONDS)
    return found


def create_node(rest: Rest, name: str, cpu: str, **labels: str) -> None:
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})


def create_pod(rest: Rest, name: str, cpu: str, **node_selector: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "nodeSelector": node_selector}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def nodes_of_pods(rest: Rest) -> dict[str, str]:
    """Return each pod's node by the pod's name, "" without one."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in rest.get(PODS)["items"]}


def reason(rest: Rest, name: str) -> str:
    """Return why the pod is not scheduled, "" while its condition is missing."""
    return _scheduled(rest, name).get("reason", "")


def message(rest: Rest, name: str) -> str:
    """Return the message of the pod's condition PodScheduled, "" while it is missing."""
    return _scheduled(rest, name).get("message", "")


def _scheduled(rest: Rest, name: str) -> dict[str, str]:
    """Return the condition PodScheduled, {} while it is not there."""
    conditions = rest.get(f"{PODS}/{name}")["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def ask_secure(port: int, path: str, *, put: str | None = None) -> tuple[int, str]:
    """GET, or PUT a body, at a scheduler's secure port on loopback, whose certificate it signed itself; status 0 without an answer."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        data, method = (None, "GET") if put is None else (put.encode(), "PUT")
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", data, method=method)
        with urllib.request.urlopen(request, context=context, timeout=TIMEOUT) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)


def found_equal(answer: tuple[int, str]) -> bool:
    """Read an answer of /debug/compare: whether there is one, and no difference in it."""
    status, text = answer
    return status == http.client.OK and json.loads(text)["ok"] is True
