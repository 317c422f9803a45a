"""Pods that wait on Permit, on a real API server: which of them take too long, and what becomes of those that are deleted meanwhile
(frameworkext.md §10, 34 and 38).

The plugin that lets them wait is a user's, with a label of theirs; a pod by the name of `release` ends the waiting of all.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.distributions import with_plugin
from support.live import EVENTS, PODS, Launch, Running, create_node, create_pod, nodes_of_pods, until

HOLD = """
from koordsched.api.kinds import POD
from koordsched.framework.interface import PermitPlugin
from koordsched.framework.status import Code, Status

class Hold(PermitPlugin):
    name = "Hold"

    def __init__(self, args, handle):
        self._waiting = handle.waiting_pods
        handle.informer(POD).add_handler(self)

    def permit(self, state, pod, node_name):
        return (Status(Code.WAIT), 120.0) if "hold" in pod.pod.metadata.labels else (None, 0.0)

    def on_add(self, pod, arrival):
        if pod.metadata.name == "release":
            for waiting in self._waiting:
                waiting.allow(self.name)

    def on_update(self, old, new): pass

    def on_delete(self, pod, final_state): pass
"""
PROFILE = {"schedulerName": "default-scheduler", "plugins": {"permit": {"enabled": [{"name": "Hold"}]}}}
TIMEOUT_SECONDS, PERIOD_SECONDS = 3, 1
COUNTED = re.compile(r'^scheduler_scheduling_timeout\{profile="default-scheduler"\} (\d+)', re.MULTILINE)
CRITICAL = "!!!CRITICAL TIMEOUT!!! scheduling pod default/held("
FINALIZER = "example.com/held"


@pytest.fixture
def running(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("PYTHONPATH", with_plugin(tmp_path / "plugin", "Hold", HOLD)["PYTHONPATH"])
    flags = (f"--scheduling-timeout={TIMEOUT_SECONDS}s", f"--scheduler-monitor-period={PERIOD_SECONDS}s")
    started = Launch(plane, tmp_path, plane.kubeconfig(), flags, config={"profiles": [PROFILE]}).start()
    started.await_readiness()
    create_node(plane.rest(), "n1", "4")
    return started


def hold(rest: Rest, **metadata: Any) -> None:
    """Create a pod that wants the whole node, and wait until it has been given it and waits."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "4", "memory": "64Mi"}}}
    spec = {"schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 0, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "labels": {"hold": ""}, **metadata}, "spec": spec}
    rest.create(PODS, body)


def counted(running: Running) -> int:
    found = COUNTED.search(running.served.get("/metrics")[1])
    return int(found[1]) if found else 0


def release(rest: Rest) -> None:
    """Let all go; this pod itself fits no node."""
    create_pod(rest, "release", "100")


def waits(running: Running) -> bool:
    """Answer whether the pod has been on Permit for longer than the timeout, as the monitor says."""
    return counted(running) > 0


def test_an_attempt_that_takes_too_long_is_counted_at_looks_and_when_it_ends(plane: ControlPlane, running: Running) -> None:
    """Line 34, with a tenth of its times."""
    rest = plane.rest()
    hold(rest)
    until(lambda: counted(running) >= 2)
    assert nodes_of_pods(rest) == {"held": ""}
    release(rest)
    until(lambda: nodes_of_pods(rest)["held"] == "n1")
    until(lambda: 'scheduler_pending_pods{queue="unschedulable"} 1' in running.served.get("/metrics")[1])
    total = counted(running)
    lines = [line for line in running.stop().lines if line["msg"].startswith(CRITICAL)]
    assert len(lines) == total
    assert [line["waits_on_permit"] for line in lines] == [["Hold"]] * (total - 1) + [[]], "once a look, and at last when it is bound"
    took = [float(line["msg"].partition("took longer (")[2].partition("s)")[0]) for line in lines]
    assert TIMEOUT_SECONDS < took[0] <= TIMEOUT_SECONDS + 2 * PERIOD_SECONDS
    assert all(later - earlier >= PERIOD_SECONDS / 2 for earlier, later in pairwise(took[:-1]))


@pytest.mark.parametrize("finalizers", [[], [FINALIZER]], ids=["gone", "terminating"])
def test_a_pod_that_is_deleted_while_it_waits_is_not_bound_and_leaves_its_room(
    plane: ControlPlane, running: Running, finalizers: list[str]
) -> None:
    """Line 38. A pod that asks for the whole node gets it as soon as the other is deleted, before and after the release."""
    rest = plane.rest()
    hold(rest, finalizers=finalizers)
    until(lambda: waits(running))
    create_pod(rest, "next", "4")
    until(lambda: 'scheduler_pending_pods{queue="unschedulable"} 1' in running.served.get("/metrics")[1])
    rest.delete(f"{PODS}/held")
    until(lambda: nodes_of_pods(rest)["next"] == "n1")
    release(rest)
    until(lambda: 'scheduler_pending_pods{queue="unschedulable"} 1' in running.served.get("/metrics")[1])
    assert nodes_of_pods(rest) == {"next": "n1", "release": "", **({"held": ""} if finalizers else {})}
    if finalizers:
        rest.patch(f"{PODS}/held", {"metadata": {"finalizers": None}})
    outcome = running.stop()
    assert outcome.of("error") == []
    bound = [event["regarding"]["name"] for event in rest.get(EVENTS)["items"] if event["reason"] == "Scheduled"]
    assert bound == ["next"]
