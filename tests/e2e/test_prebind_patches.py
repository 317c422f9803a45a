"""What plugins note of a pod, of Nodes and of Reservations at PreBind, written to a real API server with the rights of config/rbac.yaml.

A scheduler runs in the test, so that it can have a plugin of the test's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.custom_resources import reservation
from support.fakes import config_with
from support.live import PODS, create_node

import koordsched.plugins
from koordsched.api.kinds import NODE, RESERVATION
from koordsched.api.podinfo import PodInfo
from koordsched.clock import RealClock
from koordsched.cluster.apiserver.connection import connect
from koordsched.cluster.apiserver.settings import ConnectionSettings
from koordsched.config.flags import Flags
from koordsched.framework.cycle_state import CycleState, annotate, annotate_object
from koordsched.framework.handle import Handle
from koordsched.framework.interface import PreBindPlugin
from koordsched.framework.status import Status
from koordsched.scheduler.context import Dependencies
from koordsched.scheduler.scheduler import Scheduler

RIGHTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
OWN, LAST, FREE = "example.com/node", "example.com/last-pod", "example.com/free"
TAKES = "example.com/takes"  # of a pod: the Reservation that it is to take
DEADLINE = 60.0


class Taking(PreBindPlugin):
    """Writes to a pod where it goes, to its node which pod came last, and to the Reservation that the pod takes whose it is."""

    name = "Taking"
    takes_time = False

    def __init__(self, _args: object, handle: Handle) -> None:
        self.nodes = handle.informer(NODE).store
        self.reservations = handle.informer(RESERVATION).store
        self.calls = 0

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.calls += 1
        annotate(state, {OWN: node_name})
        annotate_object(state, NODE, self.nodes[node_name], {LAST: pod.key}, {"example.com/used": "yes"})
        taken = pod.pod.metadata.annotations.get(TAKES)
        if taken is not None:
            annotate_object(state, RESERVATION, self.reservations[taken], {LAST: pod.key, FREE: None})
        return None


@asynccontextmanager
async def scheduler(plane: ControlPlane, token: str, folder: Path) -> AsyncIterator[Scheduler]:
    """Run one with the plugin, as the account of the token."""
    kubeconfig = plane.kubeconfig(by_token(token)).write(folder / "kubeconfig")
    real = await connect(ConnectionSettings(kubeconfig=str(kubeconfig), qps=5000, burst=5000), RealClock(), Random(1))
    config = config_with({"Taking": "preBind"}, podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    running = Scheduler(config, Dependencies(real, RealClock(), Random(1), Flags()))
    try:
        async with asyncio.timeout(DEADLINE):
            await running.start()
            yield running
            await running.stop()
    finally:
        await real.close()


@pytest.fixture
def token(plane: ControlPlane) -> Iterator[str]:
    with service_account(plane.rest(), RIGHTS) as made:
        yield made


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(koordsched.plugins.REGISTRY, "Taking", Taking)


def create_pod(rest: Rest, name: str, **annotations: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec})


def create_reservation(rest: Rest, name: str) -> Any:
    body = {"apiVersion": RESERVATION.api_version, "kind": RESERVATION.kind, **reservation()}
    body["metadata"] = {"name": name, "annotations": {FREE: "yes", "kept": "too"}}
    return rest.create(RESERVATIONS, body)


async def until(holds: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(holds):  # noqa: ASYNC110  # a real cluster is waited for
        await asyncio.sleep(0.05)


def bound(rest: Rest, name: str) -> bool:
    return bool(rest.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def annotations_of(rest: Rest, path: str) -> dict[str, str]:
    return dict(rest.get(path)["metadata"].get("annotations", {}))


def test_a_pod_its_node_and_its_reservation_carry_what_was_noted_before_it_is_bound(
    plane: ControlPlane, token: str, tmp_path: Path
) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "4", kept="too")
    created = create_reservation(rest, "r1")

    async def run() -> None:
        async with scheduler(plane, token, tmp_path) as running:
            plugin = running.profiles["default-scheduler"].made["Taking"]
            assert isinstance(plugin, Taking)
            create_pod(rest, "p1", **{TAKES: "r1"})
            await until(lambda: bound(rest, "p1"))
            create_pod(rest, "p2")
            await until(lambda: bound(rest, "p2"))
            assert plugin.calls == 2, "no answer had to be asked for again"

    asyncio.run(run())
    assert [annotations_of(rest, f"{PODS}/{name}")[OWN] for name in ("p1", "p2")] == ["n1", "n1"]
    node = rest.get("/api/v1/nodes/n1")["metadata"]
    assert node["annotations"][LAST] == "default/p2"
    assert (node["labels"]["example.com/used"], node["labels"]["kept"]) == ("yes", "too")
    left = rest.get(f"{RESERVATIONS}/r1")
    assert left["metadata"]["annotations"] == {LAST: "default/p1", "kept": "too"}
    assert (left["spec"], left.get("status")) == (created["spec"], created.get("status")), "only its metadata is written"


def test_a_reservation_that_is_another_one_by_now_is_left_alone_and_the_pod_tried_again(
    plane: ControlPlane, token: str, tmp_path: Path
) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "4")
    create_reservation(rest, "r1")

    async def run() -> None:
        async with scheduler(plane, token, tmp_path) as running:
            plugin = running.profiles["default-scheduler"].made["Taking"]
            assert isinstance(plugin, Taking)
            store = plugin.reservations
            old = store["r1"]
            rest.delete(f"{RESERVATIONS}/r1")
            create_reservation(rest, "r1")
            await until(lambda: store["r1"].metadata.uid != old.metadata.uid)
            plugin.reservations = {"r1": old}  # as if the watch had not shown it yet
            create_pod(rest, "p1", **{TAKES: "r1"})
            await until(lambda: plugin.calls == 1 and running.queue.sizes().backoff == 1)
            assert not bound(rest, "p1")
            assert annotations_of(rest, f"{RESERVATIONS}/r1") == {FREE: "yes", "kept": "too"}
            (condition,) = [each for each in rest.get(f"{PODS}/p1")["status"]["conditions"] if each["type"] == "PodScheduled"]
            assert condition["reason"] == "SchedulerError"
            assert 'running PreBind plugin "DefaultPreBind": ' in condition["message"]
            plugin.reservations = store
            await until(lambda: bound(rest, "p1"))

    asyncio.run(run())
    assert annotations_of(rest, f"{RESERVATIONS}/r1") == {LAST: "default/p1", "kept": "too"}
