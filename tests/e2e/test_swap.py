"""koord-scheduler is replaced by ours and back again under load: nothing is lost, and nothing is given out twice.

Both run as Koordinator's chart runs them (`support.deployed`), with one lease; each in turn leads, is stopped or killed, and the other one
takes over while CPUs, devices, gangs, quotas and reservations are in flight. Where KOORDINATOR_ASSETS names no folder with koord-scheduler,
ours takes both parts. KOORDSCHED_SWAPS says how often, KOORDSCHED_SWAP_ROUNDS how much is created meanwhile (each round is 8 pods).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from support.controlplane.accounts import token_of
from support.controlplane.binaries import ControlPlaneUnavailable
from support.controlplane.manifests import applied
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.cpu_recount import QOS_CLASS, TOPOLOGIES, recount_cpus
from support.deployed import OURS, Deployed, RunningPod
from support.device_recount import CORE, DEVICES, MEMORY, RATIO, WHOLE_GPUS, recount_devices
from support.differential.koordinator.koord_scheduler import executable
from support.koordinator_chart import NAME, ChartValues, objects
from support.live import PODS, until
from support.placements import Placements
from support.recount import recount
from support.served import Ended

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.scenario.live.process import free_port

SWAPS = int(os.environ.get("KOORDSCHED_SWAPS", "2"))
ROUNDS = int(os.environ.get("KOORDSCHED_SWAP_ROUNDS", "24"))
PAUSE_SECONDS = 0.15  # between two rounds
LAYOUT = CpuLayout.parse("2x2x4x2")  # 32 CPUs
SIZE = 3  # members of a gang
QUOTAS = ("team-a", "team-b")
REFUSED = 4  # pods of each quota that find no room in it
LONG_SECONDS = 120.0
TIMES = {"leaseDuration": "4s", "renewDeadline": "2.5s", "retryPeriod": "1s"}
KEY = "scheduling.koordinator.sh/"
QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
SIGS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/koordinator-system/leases/{NAME}"


class Contender:
    """One of the two schedulers. As by the kubelet it is started again if it ends by itself, which one that loses its lease does."""

    def __init__(self, name: str, deployed: Deployed) -> None:
        self.name = name
        self.deployed = deployed
        self.running: RunningPod | None = None

    def start(self) -> None:
        self.running = self.deployed.start(self.name)
        self.running.await_readiness()

    def stop(self) -> Ended:
        running, self.running = self.running, None
        assert running is not None
        return running.stop()

    def kill(self) -> None:
        running, self.running = self.running, None
        assert running is not None
        running.process.kill()

    def restart_ended(self) -> None:
        if self.running is not None and not self.running.process.running:
            self.running = self.deployed.start(self.name)


class Contenders(NamedTuple):
    """Both, of which at least one is to run."""

    first: Contender
    second: Contender

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, and keep running what was started."""

        def held() -> bool:
            for contender in self:
                contender.restart_ended()
            return holds()

        until(held, LONG_SECONDS)


def programs() -> tuple[Sequence[str], Sequence[str]]:
    """Return what takes part: Koordinator's own scheduler where it is there, and ours."""
    try:
        return (str(executable(os.environ)),), OURS
    except ControlPlaneUnavailable:
        return OURS, OURS


@contextmanager
def contenders(plane: ControlPlane, folder: Path) -> Iterator[Contenders]:
    rest, made = plane.rest(), objects(ChartValues())
    with applied(rest, made):
        token, found = token_of(rest, made), []
        for name, program in zip(("first", "second"), programs(), strict=True):
            own = objects(ChartValues(port=free_port()))
            quick = {"qps": 500, "burst": 500}
            config = {
                "clientConnection": quick,
                "leaderElection": {"leaderElect": True, "resourceName": NAME, "resourceNamespace": "koordinator-system", **TIMES},
            }
            found.append(Contender(f"swap-{name}", Deployed(plane, own, token, folder / name, program, config=config)))
        yield Contenders(*found)


def holder(rest: Rest) -> str:
    return str(((rest.get_or_none(LEASE) or {}).get("spec") or {}).get("holderIdentity") or "")


def fill(rest: Rest) -> None:
    """Create nodes with room for everything but what quotas refuse, and the quotas."""
    for number in range(ROUNDS // 2):
        name = f"n-{number}"
        room = {"cpu": str(LAYOUT.cpus), "memory": "256Gi", "pods": "110"}
        room |= {WHOLE_GPUS: "8", CORE: "800", RATIO: "800", MEMORY: "640Gi"}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})
        rest.create(TOPOLOGIES, topology_manifest(name, LAYOUT, 256 << 30))
        rest.create(DEVICES, device_manifest(name, gpus="2x2x2"))
    for name in QUOTAS:
        amount = {"cpu": str(ROUNDS - REFUSED)}
        spec = {"min": amount, "max": amount}
        body = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": name}, "spec": spec}
        rest.create(f"{SIGS}/elasticquotas", body)


def template(cpu: str, **devices: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "64Mi", **devices}, "limits": devices}}
    return {"schedulerName": NAME, "containers": [container]}


def create_pod(rest: Rest, name: str, spec: dict[str, Any], **metadata: Any) -> None:
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec})


def create_round(rest: Rest, number: int) -> None:
    """Create a pod with CPUs of its own, one with a GPU or half of one, a gang, a Reservation with its owner, and a pod of each quota."""
    create_pod(rest, f"cpus-{number}", template("4"), labels={QOS_CLASS: "LSR"})
    gpu = {WHOLE_GPUS: "1"} if number % 2 else {CORE: "50", RATIO: "50"}
    create_pod(rest, f"gpu-{number}", template("1", **gpu))
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": f"gang-{number}"}}
    rest.create(f"{SIGS}/podgroups", {**group, "spec": {"minMember": SIZE}})
    for member in range(SIZE):
        create_pod(rest, f"gang-{number}-{member}", template("1"), labels={POD_GROUP_LABEL: f"gang-{number}"})
    kept, app = f"kept-{number}", {"app": f"owner-{number}"}
    spec = {"owners": [{"labelSelector": {"matchLabels": app}}], "ttl": "1h", "allocateOnce": True, "template": {"spec": template("2")}}
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": kept}, "spec": spec}
    rest.create(RESERVATIONS, body)
    create_pod(rest, f"owner-{number}", template("2"), labels=app, annotations={f"{KEY}reservation-affinity": "{}"})
    for quota in QUOTAS:
        create_pod(rest, f"{quota}-{number}", template("1"), labels={QUOTA_NAME: quota})


BINDABLE = ROUNDS * (3 + SIZE) + len(QUOTAS) * (ROUNDS - REFUSED)


@contextmanager
def load(plane: ControlPlane) -> Iterator[None]:
    """Create round after round, until there are ROUNDS; wait for that in the end."""
    rest = plane.rest()

    def create() -> None:
        for number in range(ROUNDS):
            create_round(rest, number)
            time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    yield
    thread.join()


def used_by_quotas(rest: Rest) -> Counter[str]:
    pods = rest.get(PODS)["items"]
    return Counter(
        quota for pod in pods if pod["spec"].get("nodeName") and (quota := pod["metadata"].get("labels", {}).get(QUOTA_NAME)) is not None
    )


def assert_nothing_is_given_twice(rest: Rest) -> None:
    """Count from nothing but what the API server has, at any moment."""
    cpus, devices = recount_cpus(rest), recount_devices(rest)
    assert (cpus.sold_twice(), cpus.not_as_requested()) == ([], [])
    assert (devices.given_twice(), devices.not_as_requested()) == ([], [])
    assert [name for name, used in used_by_quotas(rest).items() if used > ROUNDS - REFUSED] == []
    assert recount(rest).overcommitted() == {}


def assert_nothing_is_lost(rest: Rest) -> None:
    """See gangs whole, each Reservation with its one owner, and quotas full."""
    pods = {pod["metadata"]["name"]: pod for pod in rest.get(PODS)["items"]}
    waiting = [name for name, pod in pods.items() if not pod["spec"].get("nodeName")]
    assert [name for name in waiting if not name.startswith(QUOTAS)] == []
    assert used_by_quotas(rest) == dict.fromkeys(QUOTAS, ROUNDS - REFUSED)
    owners: Counter[str] = Counter()
    for number in range(ROUNDS):
        link = json.loads(pods[f"owner-{number}"]["metadata"]["annotations"][RESERVATION_ALLOCATED])
        assert link["name"] == f"kept-{number}"
        owners[link["uid"]] += 1
    assert set(owners.values()) == {1}


def linked(rest: Rest) -> bool:
    """Answer whether each Reservation has succeeded, for its owner and for no other pod."""
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in rest.get(PODS)["items"]}
    for reservation in rest.get(RESERVATIONS)["items"]:
        owner = uids["owner-" + reservation["metadata"]["name"].removeprefix("kept-")]
        status = reservation.get("status", {})
        if status.get("phase") != "Succeeded" or [each["uid"] for each in status.get("currentOwners", ())] != [owner]:
            return False
    return True


def test_swapping_under_load_loses_nothing_and_gives_nothing_twice(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    with contenders(plane, tmp_path) as both, Placements(plane.kubeconfig()) as placements:
        leads, stands_by = both
        leads.start()
        both.until(lambda: holder(rest) != "")
        before = holder(rest)
        stands_by.start()
        with load(plane):
            for swap in range(SWAPS):
                both.until(lambda: placements.bound > BINDABLE * (swap + 1) // (SWAPS + 2))  # noqa: B023  # at once
                if swap % 2:
                    leads.kill()
                else:
                    leads.stop()
                both.until(lambda: holder(rest) not in {"", before})  # noqa: B023  # at once
                before = holder(rest)
                assert_nothing_is_given_twice(rest)
                leads, stands_by = stands_by, leads
                if swap + 1 < SWAPS:
                    stands_by.start()
        both.until(lambda: placements.bound == BINDABLE)
        assert_nothing_is_given_twice(rest)
        assert_nothing_is_lost(rest)
        both.until(lambda: linked(rest))
        assert placements.strayed() == []
        outcome = leads.stop()
    assert outcome.code == 0
    assert "forbidden: User" not in outcome.text
