"""kill -9 with gangs half bound: after the restart each gang completes, nothing waits for ever, nothing is sold twice.

KOORDSCHED_KILLS says how often; a few times are enough to see a fault of the kind that shows every time.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import PODS, Launch, Running, found_equal, reason, until
from support.placements import Placements
from support.recount import recount

from koordsched.api.koordinator.gang_membership import GANG_NAME, MIN_AVAILABLE, POD_GROUP_LABEL

KILLS = int(os.environ.get("KOORDSCHED_KILLS", "3"))
MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
NODES, ROOM = 60, 4
SIZE = 5  # members of a gang
GANGS = NODES * ROOM // SIZE
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups"
LARGE = 8  # members of a gang for which there is no room
COSCHEDULING = {"enabled": [{"name": "Coscheduling"}]}
PROFILES = [
    {
        "schedulerName": "default-scheduler",
        "plugins": dict.fromkeys(("preEnqueue", "preFilter", "reserve", "permit", "postBind"), COSCHEDULING)
        | {"preBind": {"enabled": [{"name": "Coscheduling"}, {"name": "DefaultPreBind"}]}},
    }
]
CONNECTION = {"qps": 40, "burst": 20}  # so slowly that the pods last for all kills


def create_member(rest: Rest, gang: str, number: int, *, by_annotation: bool) -> None:
    labels = {} if by_annotation else {POD_GROUP_LABEL: gang}
    annotations = {GANG_NAME: gang, MIN_AVAILABLE: str(SIZE)} if by_annotation else {}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{gang}-{number}", "labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "default-scheduler", "containers": [container]},
    }
    rest.create(PODS, body)


def create_pod_group(rest: Rest, name: str, size: int) -> None:
    body = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": size}}
    rest.create(POD_GROUPS, body)


def fill(rest: Rest) -> None:
    """Make room for all gangs but the large one, exactly. Half of them are of PodGroups, the others of annotations."""
    for number in range(NODES):
        room = {"cpu": str(ROOM), "memory": "64Gi", "pods": "110"}
        status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{number}"}, "status": status})
    for number in range(GANGS):
        by_annotation = bool(number % 2)
        if not by_annotation:
            create_pod_group(rest, f"g{number}", SIZE)
        for member in range(SIZE):
            create_member(rest, f"g{number}", member, by_annotation=by_annotation)
    create_pod_group(rest, "large", LARGE * NODES)
    for member in range(LARGE):
        create_member(rest, "large", member, by_annotation=False)


def kill_while_it_binds(running: Running, placements: Placements, random: Random) -> None:
    """Kill the process when it has bound a few pods more."""
    goal = placements.bound + random.randrange(1, 2 * SIZE)
    until(lambda: placements.bound >= goal)
    time.sleep(random.uniform(0, 0.05))
    running.process.kill()


def bound_members(rest: Rest) -> Counter[str]:
    pods: list[dict[str, Any]] = rest.get(PODS)["items"]
    return Counter(pod["metadata"]["name"].rsplit("-", 1)[0] for pod in pods if pod["spec"].get("nodeName"))


def phases(rest: Rest) -> set[str]:
    """Return the phases of the PodGroups whose gangs are complete."""
    groups: list[dict[str, Any]] = rest.get(POD_GROUPS)["items"]
    return {group.get("status", {}).get("phase", "") for group in groups if group["metadata"]["name"] != "large"}


def test_each_gang_completes_however_often_the_scheduler_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    rest, random = plane.rest(), Random(5)
    fill(rest)
    halves = 0
    with service_account(rest, MANIFESTS) as token, Placements(plane.kubeconfig()) as placements:
        launch = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), connection=CONNECTION, config={"profiles": PROFILES})
        for _ in range(KILLS):
            kill_while_it_binds(launch.start(), placements, random)
            assert placements.settled() < GANGS * SIZE, "there was nothing left to bind"
            halves += sum(0 < bound < SIZE for bound in bound_members(rest).values())
        running = launch._replace(connection={"qps": 5000, "burst": 5000}).start()
        until(lambda: placements.bound == GANGS * SIZE)
        until(lambda: reason(rest, "large-0") == "SchedulingGated")
        status, text = running.served.get("/apis/v1/plugins/Coscheduling/gangs")
        assert status == 200, text
        gangs = json.loads(text)
        assert {id: len(gang["boundChildren"]) for id, gang in gangs.items()} == {  # noqa: A001
            "default/large": 0,
            **{f"default/g{number}": SIZE for number in range(GANGS)},
        }
        assert not any(gang["waitingForBindChildren"] for gang in gangs.values())
        until(lambda: phases(rest) == {"Scheduled"})
        until(lambda: found_equal(running.debug("/debug/compare")))
        outcome = running.stop()
    assert recount(rest).overcommitted() == {}
    assert placements.strayed() == []
    assert halves, "no gang was half bound when the scheduler was killed: the test shows nothing"
    assert outcome.code == 0
    assert "Traceback" not in outcome.text
