"""An API server that fails: what is asked of it fails now and then, watches break, history is lost, it is restarted. No pod may suffer."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from random import Random

from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import EVENTS, Launch, Running, create_node, create_pod, found_equal, reason, until
from support.placements import Placements
from support.proxy import Fault, Proxy, Weather
from support.recount import recount

NODES = 40  # of 4 cores
PODS, FIRST, SECOND = 1000, 400, 300
TOO_LARGE = 10
FAILING_SHARE = 0.05
WATCH_SECONDS = 2.0
TIMEOUT = 120.0
"""Faults cost waiting: a pod whose binding failed is tried again after up to ten seconds, and once more when that fails, too."""


def create_pods(rest: Rest, names: range) -> None:
    for i in names:
        create_pod(rest, f"p{i}", "100m")


def await_bound(placements: Placements, count: int) -> None:
    until(lambda: placements.bound >= count, TIMEOUT)


def compare_by_signal(running: Running) -> None:
    """Let it compare its cache with a fresh list, and read what it says in the log."""
    running.process.signal(signal.SIGUSR2)
    until(lambda: "cache comparison: equal to the cluster" in running.process.log.read_text(), TIMEOUT)


def test_all_pods_are_bound_whatever_befalls_requests_watches_and_the_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    rest, weather = plane.rest(), Weather(Random(7), watch_seconds=WATCH_SECONDS)
    for i in range(NODES):
        create_node(rest, f"n{i}", "4")
    with Proxy(plane, weather, tmp_path) as proxy, Placements(plane.kubeconfig()) as placements:
        kubeconfig = proxy.kubeconfig(by_token(plane.tokens[SCHEDULER]))
        running = Launch(plane, tmp_path, kubeconfig).start()
        running.await_readiness()
        weather.share = FAILING_SHARE
        weather.black_holes = {"bind"}
        create_pods(rest, range(FIRST))
        weather.gone = {"pods", "nodes"}
        until(lambda: not weather.gone)
        await_bound(placements, FIRST // 2)
        create_pods(rest, range(FIRST, FIRST + SECOND))
        too_large = [f"too-large-{i}" for i in range(TOO_LARGE)]
        for name in too_large:
            create_pod(rest, name, "5")
        plane.kill_api_server()
        plane.start_api_server()
        create_pods(rest, range(FIRST + SECOND, PODS))
        await_bound(placements, PODS)
        until(lambda: all(reason(rest, name) == "Unschedulable" for name in too_large), TIMEOUT)
        weather.share = 0.0
        until(lambda: found_equal(running.debug("/debug/compare")), TIMEOUT)
        compare_by_signal(running)
        outcome = running.stop()
    found = recount(rest)
    assert found.overcommitted() == {}
    assert sorted(found.pending) == sorted(too_large)
    assert placements.strayed() == []
    assert {fault for verb, fault in weather.befell if verb == "bind"} == set(Fault)
    assert weather.black_holes == set()
    assert outcome.code == 0
    assert "Traceback" not in outcome.text
    assert outcome.of("error") == []
    events = rest.get(EVENTS)["items"]
    scheduled = Counter(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled")
    assert scheduled == dict.fromkeys(found.bound, 1)
