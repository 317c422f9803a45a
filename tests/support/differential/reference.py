"""The scheduler that ours is compared with, on a real control plane, looking at all nodes, with its scores in its log.

kube-scheduler, or one that is built on it and therefore logs alike. One process a cluster, started when its objects are there, so that it
knows all of them before it sees the first pod.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from koordsched.scenario.live.process import free_port
from support.controlplane.credentials import SCHEDULER, Identity, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.differential.binder import attend
from support.differential.choosing import Json
from support.differential.objects import address, create
from support.differential.storage import claims_of
from support.live import ask_secure

TIMEOUT_SECONDS = 30.0
PREEMPTION_SECONDS = 5.0
POLL_SECONDS = 0.005
SCORED = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>\w+)" node="(?P<node>[^"]+)" score=(?P<score>-?\d+)'
)
REFUSED = re.compile(r'"Unable to schedule pod; no fit; waiting" .* err=(?P<message>"(?:[^"\\]|\\.)*")')
NOMINATED = re.compile(r'"the target node for the preemption is determined" node="(?P<node>[^"]+)"')
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 100,
}

Scores = dict[str, dict[str, int]]  # by node, then by plugin: normalised and weighted


class Program(NamedTuple):
    """A scheduler to run: its executable, its configuration without the connection, as which user it comes, and flags besides."""

    name: str
    executable: Path
    config: Json
    identity: Identity
    ready_path: str
    flags: Sequence[str] = ()


def kube_scheduler(plane: ControlPlane) -> Program:
    """Return the scheduler of the control plane's own version, as Kubernetes configures it."""
    return Program("kube-scheduler", plane.binaries.kube_scheduler, CONFIG, SCHEDULER, "/readyz")


class Decision(NamedTuple):
    """What became of a pod: a node, or a message. `scores` is empty when there was nothing to score."""

    node: str
    message: str
    nominated: str
    scores: Scores
    log: list[str]  # the lines that mention the pod
    evicted: tuple[int, ...] = ()  # the priorities of pods that had to go


class Silent(Exception):
    """The scheduler did not say anything about the pod."""


class ReferenceScheduler:
    """A context manager: while it is entered, the program serves the control plane."""

    def __init__(self, plane: ControlPlane, rest: Rest, program: Program) -> None:
        self._plane = plane
        self._rest = rest
        self._program = program
        self._read = 0

    def __enter__(self) -> Self:
        name, executable, config, identity, ready_path, own_flags = self._program
        folder, port = self._plane.folder, free_port()
        kubeconfig = self._plane.kubeconfig(by_token(self._plane.tokens[identity])).write(folder / f"{name}.kubeconfig")
        connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
        file = folder / f"{name}.json"
        file.write_text(json.dumps({**config, "leaderElection": {"leaderElect": False}, "clientConnection": connection}))
        flags = [f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={port}", "--authorization-always-allow-paths=/*"]
        flags += [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
        self._process = self._plane.spawn(name, [str(executable), *flags, *own_flags, "-v=2", "--vmodule=schedule_one=10"])
        self._read = self._process.log.stat().st_size  # of earlier ones
        self._process.wait_until(lambda: ask_secure(port, ready_path)[0] == 200, TIMEOUT_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()

    def decide(self, pod: Json) -> Decision:
        """Create the pod, wait for what is decided about it, and take it away again if it has no node."""
        made = create(self._rest, pod)
        path = address(pod).of(made["metadata"]["name"])
        seen = self._until_decided(path, needs_volumes=bool(claims_of(made)))
        message, nominated = unscheduled(seen), seen["status"].get("nominatedNodeName", "")
        if nominated and not seen["spec"].get("nodeName"):
            seen = self._until_bound(path)
        if not seen["spec"].get("nodeName"):
            self._rest.delete(f"{path}?gracePeriodSeconds=0")
        lines = self._said_of(f"{made['metadata']['namespace']}/{made['metadata']['name']}")
        if not message:
            message, nominated = first_refusal(lines)
        node = "" if message else seen["spec"]["nodeName"]
        return Decision(node, message, nominated, {} if message else scores(lines), lines)

    def _until_decided(self, path: str, *, needs_volumes: bool) -> Json:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            seen: Json = self._rest.get(path)
            if seen["spec"].get("nodeName") or unscheduled(seen):
                return seen
            if needs_volumes:
                attend(self._rest)
            time.sleep(POLL_SECONDS)
        raise Silent(f"{self._program.name} said nothing of {path} in {TIMEOUT_SECONDS:.0f} s:\n{self._process.log_tail()}")

    def _until_bound(self, path: str) -> Json:
        """Let a pod that something was evicted for take its node, for which it may have to wait some seconds in the queue."""
        deadline = time.monotonic() + PREEMPTION_SECONDS
        while not (seen := self._rest.get(path))["spec"].get("nodeName") and time.monotonic() < deadline:
            attend(self._rest)
            time.sleep(POLL_SECONDS)
        return dict(seen)

    def _said_of(self, pod: str) -> list[str]:
        """Return what was logged about the pod since the last time."""
        new = self._process.log.read_bytes()[self._read :]
        new = new[: new.rfind(b"\n") + 1]  # a line that is being written is read the next time
        self._read += len(new)
        lines = new.decode(errors="replace").split("\n")
        return [line for line in lines if f'pod="{pod}"' in line]


def unscheduled(pod: Json) -> str:
    """Return the message of a pod that could not be scheduled, "" before it has a condition."""
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


def first_refusal(lines: list[str]) -> tuple[str, str]:
    """Return message and nominated node of a pod that found its node free a moment after it was refused, too soon to be seen pending."""
    messages = [json.loads(match["message"]) for line in lines if (match := REFUSED.search(line))]
    nominated = [match["node"] for line in lines if (match := NOMINATED.search(line))]
    return (messages or [""])[0], (nominated or [""])[0]


def scores(lines: list[str]) -> Scores:
    """Read each node's scores from the log."""
    found: Scores = defaultdict(dict)
    for line in lines:
        if match := SCORED.search(line):
            found[match["node"]][match["plugin"]] = int(match["score"])
    return dict(found)
