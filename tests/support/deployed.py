"""A Deployment's program, run as the kubelet would: with exactly its arguments, its ConfigMap's file, and its account's rights.

Two things are of the tests: the file names a kubeconfig with the account's token, since there is no pod to find it in, and the ports listen
on loopback, the secure one on a free number.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from koordsched.scenario.live.process import free_port
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process
from support.served import TIMEOUT, Ended

OURS = (sys.executable, "-m", "koordsched")
Json = dict[str, Any]


def of_kind(objects: Sequence[Json], kind: str) -> Json:
    """Return the one object of this kind."""
    (found,) = [document for document in objects if document["kind"] == kind]
    return found


class Deployed(NamedTuple):
    """What is applied to the cluster, and how its pod is run. program: what stands for the container's command."""

    plane: ControlPlane
    objects: Sequence[Json]
    token: str
    folder: Path
    program: Sequence[str] = OURS
    flags: Sequence[str] = ()  # further ones
    config: Mapping[str, Any] = {}  # fields of the configuration, over those of the file

    @property
    def pod(self) -> Json:
        spec: Json = of_kind(self.objects, "Deployment")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Json:
        (found,) = self.pod["containers"]
        return dict(found)

    @property
    def startup_seconds(self) -> float:
        """Return within which time the kubelet wants the startup probe answered."""
        probe = self.container["startupProbe"]
        return float(probe["periodSeconds"] * probe["failureThreshold"])

    def port(self, name: str) -> int:
        (number,) = [port["containerPort"] for port in self.container["ports"] if port["name"] == name]
        return int(number)

    def start(self, name: str) -> RunningPod:
        """Start it under this name; it may not be ready yet. The log is appended to."""
        self._mount()
        (mount,) = self.container["volumeMounts"]
        own = [argument.replace(f"={mount['mountPath']}/", f"={self.folder}/") for argument in self.container["args"]]
        loopback = ["--address=127.0.0.1", "--bind-address=127.0.0.1", f"--secure-port={free_port()}"]
        return RunningPod(self, self.plane.spawn(name, [*self.program, *own, *loopback, *self.flags]))

    def _mount(self) -> None:
        """Write the ConfigMap's files into the folder."""
        self.folder.mkdir(exist_ok=True)
        kubeconfig = self.plane.kubeconfig(by_token(self.token)).write(self.folder / "kubeconfig")
        (volume,) = self.pod["volumes"]
        data = of_kind(self.objects, "ConfigMap")["data"]
        for item in volume["configMap"]["items"]:
            config = {**yaml.safe_load(data[item["key"]]), **self.config}
            config["clientConnection"] = {**config.get("clientConnection", {}), "kubeconfig": str(kubeconfig)}
            (self.folder / item["path"]).write_text(yaml.safe_dump(config), encoding="utf-8")


class RunningPod(NamedTuple):
    """A running program of a Deployment."""

    deployed: Deployed
    process: Process

    def get(self, path: str) -> tuple[int, str]:
        """Ask on the plain port; status 0 while it is not open."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.deployed.port('metrics')}/{path.lstrip('/')}", timeout=TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except OSError:
            return 0, ""

    def probe(self, name: str) -> int:
        """Ask as the kubelet would, and return the status."""
        request = self.deployed.container[name]["httpGet"]
        assert request["port"] == self.deployed.port("metrics")
        return self.get(request["path"])[0]

    def await_readiness(self) -> None:
        self.process.wait_until(lambda: self.probe("readinessProbe") == 200, TIMEOUT)

    def stop(self) -> Ended:
        """Ask it to end, within the Deployment's grace period; its log is text."""
        code = self.process.stop(self.deployed.pod["terminationGracePeriodSeconds"])
        return Ended(code, [], self.process.output())
