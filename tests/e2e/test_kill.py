"""kill -9 at any moment: the next process goes on from what the API server knows, and nothing is lost or sold twice."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from random import Random

from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import Launch, create_node, create_pod, found_equal, reason, until
from support.placements import Placements
from support.recount import recount

KILLS = 10
SMALL_NODES, SMALL_PODS = 48, 1920  # 40 pods of 100m fill a node of 4 cores exactly
LARGE_NODES, LARGE_PODS, LARGE_FIT = 40, 100, 80  # 2 pods of 1500m fit on one of 4 cores
TOO_LARGE = 20
FIT = SMALL_PODS + LARGE_FIT
NEVER = LARGE_PODS - LARGE_FIT + TOO_LARGE
# A burst, in which most of the kills fall, and then so slowly that the pods last for ten processes.
CONNECTION = {"qps": 200, "burst": 100}
ACCEPTED = re.compile(
    r'^apiserver_request_total\{code="201",.*resource="pods",.*subresource="binding",verb="POST",.*\} (\d+)$', re.MULTILINE
)


def fill(rest: Rest) -> None:
    for i in range(SMALL_NODES):
        create_node(rest, f"small-{i}", "4", pool="small")
    for i in range(LARGE_NODES):
        create_node(rest, f"large-{i}", "4", pool="large")
    for i in range(SMALL_PODS):
        create_pod(rest, f"small-{i}", "100m", pool="small")
        if i < LARGE_PODS:
            create_pod(rest, f"large-{i}", "1500m", pool="large")
        if i < TOO_LARGE:
            create_pod(rest, f"too-large-{i}", "5")


def bindings_accepted(rest: Rest) -> int:
    """Return how many bindings this API server has answered with success; one whose sender died meanwhile counts as something else."""
    return sum(int(count) for count in ACCEPTED.findall(rest.get("/metrics")))


def await_bound(placements: Placements, count: int) -> None:
    until(lambda: placements.bound >= count)


def kill_at_random_moments(launch: Launch, placements: Placements, random: Random) -> list[int]:
    """Start and kill again and again; return how many pods were bound after each kill."""
    bound = [0]
    for _ in range(KILLS):
        goal = bound[-1] + random.randrange(1, 80)
        running = launch.start()
        await_bound(placements, goal)
        time.sleep(random.uniform(0, 0.05))
        running.process.kill()
        bound.append(placements.settled())
    return bound


def test_ten_kills_while_two_thousand_pods_are_bound(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    before = bindings_accepted(rest)
    launch = Launch(plane, tmp_path, plane.kubeconfig(by_token(plane.tokens[SCHEDULER])), connection=CONNECTION)
    with Placements(plane.kubeconfig()) as placements:
        until(lambda: len(placements.stories) == FIT + NEVER)
        bound_at_kills = kill_at_random_moments(launch, placements, Random(5))
        assert bound_at_kills[-1] < FIT, "there was nothing left to bind"
        running = launch.start()
        await_bound(placements, FIT)
        never = [f"too-large-{i}" for i in range(TOO_LARGE)]
        until(lambda: all(reason(rest, name) == "Unschedulable" for name in never))
        until(lambda: found_equal(running.debug("/debug/compare")))
        outcome = running.stop()
    found = recount(rest)
    assert found.overcommitted() == {}
    assert found.pending_though_it_fits() == []
    assert (len(found.bound), len(found.pending)) == (FIT, NEVER)
    assert Counter(Counter(found.bound.values()).values()) == {40: SMALL_NODES, 2: LARGE_NODES}
    assert placements.strayed() == []
    assert {story.name: story.nodes[-1] for story in placements.stories.values() if story.nodes[-1]} == found.bound
    assert bindings_accepted(rest) - before <= FIT
    assert outcome.code == 0
    assert "Traceback" not in outcome.text
