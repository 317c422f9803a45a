"""kill -9 at every step of a Reservation's life: nothing is sold twice, nothing is lost, and the next process goes on where the last ended.

Each death has a node of its own, of 2 CPUs: a Reservation of 1 there, for an owner of 0.6, and strangers of 1, 1 and 0.4. What is right at
the end is plain: the owner is on the node and linked; one of the large strangers is, since the other one fits only into what is reserved;
the small one is where the Reservation was used up by its first owner, and waits where what is left is kept for more owners.

Of a Reservation that takes over pods (pre-allocation): two of 0.6 run there, and it holds 1.6, so that it needs both. Then 0.4 are left of
it and 0.4 are free: one of two strangers of 0.4 is on the node.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.fatal_requests import Deaths, Step, dying
from support.live import PODS, Running, create_node, nodes_of_pods, reason, until

RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
KEY = "scheduling.koordinator.sh/"
LINK, AFFINITY = KEY + "reservation-allocated", KEY + "reservation-affinity"
PROFILE = {"plugins": {"multiPoint": {"enabled": [{"name": "Reservation"}]}}}
OF_THE_RESERVATION, OF_ITS_OWNER = "the Reservation", "its owner"
EACH = int(os.environ.get("KOORDSCHED_KILLS", "1"))  # kills at each step
SETTLING_SECONDS = 20
RESERVED, OWNERS, LARGE, SMALL = 1000, 600, 1000, 400  # milli-CPUs
TAKING_OVER = 1600  # held by a Reservation that takes over two pods as large as owners
NODE = 2000


class Death(NamedTuple):
    """A step of a life. of: whose creation leads to it."""

    of: str
    step: Step


LIFE = (
    Death(OF_THE_RESERVATION, Step("a node is chosen, nothing written", "patch", "reservations/status", carried_out=False)),
    Death(OF_THE_RESERVATION, Step("reserved", "patch", "reservations/status", carried_out=True)),
    Death(OF_ITS_OWNER, Step("owner chosen", "bind", "pods", carried_out=False)),
    Death(OF_ITS_OWNER, Step("bound", "bind", "pods", carried_out=True)),
    Death(OF_ITS_OWNER, Step("bound, its status not written", "patch", "reservations/status", carried_out=False)),
    Death(OF_ITS_OWNER, Step("succeeded", "patch", "reservations/status", carried_out=True)),
)


PRE_ALLOCATION = (
    Step("pods are chosen, nothing written", "patch", "pods", carried_out=False),
    Step("one of two pods is written", "patch", "pods", carried_out=True),
    Step("both pods are written", "patch", "pods", carried_out=True, before=1),
    Step("both pods are written, about to be Available", "patch", "reservations/status", carried_out=False),
    Step("Available", "patch", "reservations/status", carried_out=True),
    Step("its owners are in the status", "patch", "reservations/status", carried_out=True, before=1),
)


class Life(NamedTuple):
    """What one death is about: names of a node and of what is meant for it. once: whether the first owner uses the Reservation up."""

    name: str
    once: bool

    def pod(self, kind: str) -> str:
        return f"{self.name}-{kind}"


def create_reservation(rest: Rest, life: Life, reserved: int = RESERVED, **more: Any) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": f"{reserved}m"}}}
    spec = {
        "owners": [{"labelSelector": {"matchLabels": {"app": life.name}}}],
        "ttl": "0s",
        "allocateOnce": life.once,
        "allocatePolicy": "Restricted",
        "template": {"spec": {"schedulerName": "default-scheduler", "containers": [container], "nodeSelector": {"of": life.name}}},
        **more,
    }
    body = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": life.name}, "spec": spec}
    rest.create(RESERVATIONS, body)


def create_pod(rest: Rest, life: Life, kind: str, milli: int, node: str = "", **metadata: Any) -> None:
    """node: where it runs already."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": f"{milli}m"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "nodeSelector": {"of": life.name}}
    spec |= {"nodeName": node} if node else {}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": life.pod(kind), **metadata}, "spec": spec})


def create_owner(rest: Rest, life: Life) -> None:
    create_pod(rest, life, "owner", OWNERS, labels={"app": life.name}, annotations={AFFINITY: "{}"})


def reservation(rest: Rest, life: Life) -> Any:
    return rest.get(f"{RESERVATIONS}/{life.name}")


def is_available(rest: Rest, life: Life) -> bool:
    return bool(reservation(rest, life).get("status", {}).get("phase") == "Available")


def milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def assert_nothing_is_sold_twice(rest: Rest) -> None:
    """Count pods and Reservations on their nodes, from nothing but what the API server has."""
    pods = [pod for pod in rest.get(PODS)["items"] if pod["spec"].get("nodeName")]
    taken: dict[str, int] = {}
    given: dict[str, list[int]] = {}  # by the Reservation's uid: what its owners have
    for pod in pods:
        amount = milli(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        node, link = pod["spec"]["nodeName"], pod["metadata"].get("annotations", {}).get(LINK)
        taken[node] = taken.get(node, 0) + amount
        if link:
            given.setdefault(json.loads(link)["uid"], []).append(amount)
    for each in rest.get(RESERVATIONS)["items"]:
        name, phase, owners = each["metadata"]["name"], each.get("status", {}).get("phase"), given.get(each["metadata"]["uid"], [])
        reserved = milli(each["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        assert sum(owners) <= reserved, f"{name} gave more than it has"
        assert phase != "Succeeded" or owners, f"{name} has succeeded without an owner"
        if phase == "Available":
            node = each["status"]["nodeName"]
            taken[node] = taken.get(node, 0) + reserved - sum(owners)
    assert {node: milli for node, milli in taken.items() if milli > NODE} == {}


def die(deaths: Deaths, rest: Rest, death: Death, life: Life) -> None:
    """Let the process die at a step of a life, and see what it leaves."""
    create_node(rest, life.name, "2", of=life.name)
    running = deaths.start()
    running.await_readiness()
    if death.of is OF_THE_RESERVATION:
        deaths.die_at(death.step, running, lambda: create_reservation(rest, life))
    else:
        create_reservation(rest, life)
        until(lambda: is_available(rest, life))
        deaths.die_at(death.step, running, lambda: create_owner(rest, life))
    assert_nothing_is_sold_twice(rest)


def go_on(rest: Rest, death: Death, life: Life) -> None:
    """Create what the death has left out. The large strangers come before the small one, which might take their place."""
    if death.of is OF_THE_RESERVATION:
        create_owner(rest, life)
    for kind in ("large-0", "large-1"):
        create_pod(rest, life, kind, LARGE)


def wrong(rest: Rest, life: Life) -> list[str]:
    """Return what owner and Reservation are that they must not be; of strangers see `await_strangers`."""
    found, owner = reservation(rest, life), rest.get(f"{PODS}/{life.pod('owner')}")
    status, meta = found.get("status", {}), owner["metadata"]
    link = json.loads(meta.get("annotations", {}).get(LINK, "{}"))
    owners = [each["uid"] for each in status.get("currentOwners", [])]
    seen = {
        "node": (owner["spec"].get("nodeName", ""), life.name),
        "link": (link.get("uid"), found["metadata"]["uid"]),
        "phase": (status.get("phase"), "Succeeded" if life.once else "Available"),
        "owners": (owners, [meta["uid"]]),
        "allocated": (milli(status.get("allocated", {}).get("cpu", "0")), OWNERS),
    }
    return [f"{life.name}: {name} is {is_so}, not {ought}" for name, (is_so, ought) in seen.items() if is_so != ought]


def large_on_node(rest: Rest, life: Life) -> int:
    """Return how many of the large strangers are on the node."""
    nodes = nodes_of_pods(rest)
    return sum(nodes[life.pod(f"large-{number}")] == life.name for number in range(2))


def await_small(rest: Rest, life: Life) -> None:
    """Wait for the small stranger to be on the node, or refused, as it has to be."""
    name = life.pod("small")
    until(lambda: nodes_of_pods(rest)[name] if life.once else reason(rest, name))
    assert bool(nodes_of_pods(rest)[name]) == life.once
    assert large_on_node(rest, life) == 1


def shown(running: Running, life: Life) -> dict[str, list[str]]:
    """Return which pods the scheduler knows as owners of the Reservations on the node, by the Reservations' names."""
    status, text = running.served.get(f"/apis/v1/plugins/Reservation/nodeReservations/{life.name}")
    assert status == 200, text
    return {item["name"]: [pod["Name"] for pod in item.get("assignedPods", [])] for item in json.loads(text).get("items", [])}


def test_a_reservation_survives_a_kill_at_every_step(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    lives: list[Life] = []
    with dying(plane, tmp_path, PROFILE) as deaths:
        for number in range(EACH):
            for place, death in enumerate(LIFE):
                life = Life(f"life-{place}-{number}", once=(place + number) % 2 == 0)
                die(deaths, rest, death, life)
                lives.append(life)
                go_on(rest, death, life)
        running = deaths.start()
        with suppress(AssertionError):
            until(lambda: not any(wrong(rest, life) for life in lives), SETTLING_SECONDS)
        assert [text for life in lives for text in wrong(rest, life)] == []
        for life in lives:
            until(partial(large_on_node, rest, life))
            create_pod(rest, life, "small", SMALL)
        for life in lives:
            await_small(rest, life)
            assert shown(running, life) == ({} if life.once else {life.name: [life.pod("owner")]})
        assert_nothing_is_sold_twice(rest)
        deaths.end(running)


def pre_allocate(deaths: Deaths, rest: Rest, step: Step, life: Life, before: list[Life]) -> None:
    """Let the process die at a step of a Reservation that takes over two pods, once it has ended what its predecessors began."""
    create_node(rest, life.name, "2", of=life.name)
    for number in range(2):
        create_pod(rest, life, f"runs-{number}", OWNERS, node=life.name, labels={"app": life.name})
    running = deaths.start()
    running.await_readiness()
    await_taken_over(rest, before)
    how = {"preAllocation": True, "preAllocationPolicy": {"enableMultiple": True}}
    deaths.die_at(step, running, lambda: create_reservation(rest, life, TAKING_OVER, **how))
    assert_nothing_is_sold_twice(rest)


def not_taken_over(rest: Rest, life: Life) -> list[str]:
    """Return what a Reservation that takes over pods, and these, are that they must not be."""
    found = reservation(rest, life)
    pods = [rest.get(f"{PODS}/{life.pod(f'runs-{number}')}")["metadata"] for number in range(2)]
    status, uids = found.get("status", {}), sorted(meta["uid"] for meta in pods)
    links = [json.loads(meta.get("annotations", {}).get(LINK, "{}")).get("uid") for meta in pods]
    seen = {
        "node": (status.get("nodeName"), life.name),
        "links": (links, [found["metadata"]["uid"]] * 2),
        "phase": (status.get("phase"), "Available"),
        "owners": (sorted(each["uid"] for each in status.get("currentOwners", [])), uids),
        "allocated": (milli(status.get("allocated", {}).get("cpu", "0")), 2 * OWNERS),
    }
    return [f"{life.name}: {name} is {is_so}, not {ought}" for name, (is_so, ought) in seen.items() if is_so != ought]


def await_taken_over(rest: Rest, lives: list[Life]) -> None:
    with suppress(AssertionError):
        until(lambda: not any(not_taken_over(rest, life) for life in lives), SETTLING_SECONDS)
    assert [text for life in lives for text in not_taken_over(rest, life)] == []


def are_answered(rest: Rest, pods: list[str]) -> bool:
    """Answer whether each of the pods is on a node or was refused."""
    nodes = nodes_of_pods(rest)
    return all(nodes[name] or reason(rest, name) for name in pods)


def test_a_pre_allocation_survives_a_kill_at_every_step(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    lives: list[Life] = []
    with dying(plane, tmp_path, PROFILE) as deaths:
        for number in range(EACH):
            for place, step in enumerate(PRE_ALLOCATION):
                life = Life(f"takes-{place}-{number}", once=False)
                pre_allocate(deaths, rest, step, life, lives)
                lives.append(life)
        running = deaths.start()
        await_taken_over(rest, lives)
        for life in lives:
            for number in range(2):
                create_pod(rest, life, f"small-{number}", SMALL)
        for life in lives:
            names = [life.pod(f"small-{number}") for number in range(2)]
            until(partial(are_answered, rest, names))
            assert sorted(nodes_of_pods(rest)[name] for name in names) == ["", life.name]
            assert {name: sorted(pods) for name, pods in shown(running, life).items()} == {
                life.name: [life.pod("runs-0"), life.pod("runs-1")]
            }
        assert_nothing_is_sold_twice(rest)
        deaths.end(running)
