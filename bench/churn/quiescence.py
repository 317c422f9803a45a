"""Waits until the scheduler has nothing under way: every pod is bound or says in a condition why not, and nothing changes any more."""

from __future__ import annotations

import json
import time
from typing import Any, Protocol

from support.controlplane.rest import Rest
from support.live import Running

from churn.cluster import PODS, Json

REST_TIMEOUT = 180.0  # on a busy machine: pods back off for ten seconds, some again, and a client for as long after faults
CALM_SECONDS = 3.0
POLL_SECONDS = 1.0


class Restless(Exception):
    """It did not come to rest; the text says what still went on. `unexplained`: the pending pods without a condition that says why."""

    def __init__(self, text: str, unexplained: list[str]) -> None:
        super().__init__(text)
        self.unexplained = unexplained


class Controllers(Protocol):
    """Does what controllers of the cluster would."""

    def attend(self) -> None: ...

    def collect(self, listed: list[Json], /) -> int: ...


def come_to_rest(rest: Rest, mutator: Controllers) -> list[Json]:
    """Return the pods as they are once nothing has happened for some seconds. Restless."""
    deadline = time.monotonic() + REST_TIMEOUT
    before, since = None, time.monotonic()
    while True:
        listed = rest.get(PODS)["items"]
        mutator.attend()
        now = picture(listed)
        if mutator.collect(listed) or now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since > CALM_SECONDS and not unexplained(listed):
            return list(listed)
        if time.monotonic() > deadline:
            left = unexplained(listed)
            raise Restless(f"not at rest after {REST_TIMEOUT:.0f} s; no condition says why these are pending: {left[:5]}", left)
        time.sleep(POLL_SECONDS)


def picture(listed: list[Json]) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in listed}


def unexplained(listed: list[Json]) -> list[str]:
    """Return the pending pods that have no condition that says why."""
    return [pod["metadata"]["name"] for pod in listed if not pod["spec"].get("nodeName") and not refused(pod)]


def known_of(running: Running, rest: Rest, names: list[str]) -> list[str]:
    """Return what the scheduler and the API server know of these pods, to find out what happened to them."""
    status, text = running.debug("/debug/queue?limit=5000")
    queue = json.loads(text) if status == 200 else {}
    parts = {part: held["pods"] for part, held in queue.items() if isinstance(held, dict)}
    found = [f"{part}: {pod}" for part, pods in parts.items() for pod in pods if pod["pod"].partition("/")[2] in names]
    return [*found, *(json.dumps(rest.get(f"{PODS}/{name}")) for name in names)]


def refused(pod: Json) -> bool:
    conditions: list[dict[str, Any]] = pod["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def drift(running: Running) -> str:
    """Let the scheduler compare its cache with a fresh list; return what differs, "" when nothing does."""
    deadline = time.monotonic() + REST_TIMEOUT
    while True:
        status, text = running.debug("/debug/compare")
        if status == 200 and json.loads(text)["ok"] is True:
            return ""
        if status == 200 or time.monotonic() > deadline:  # what differs for a moment only is not reported
            return f"/debug/compare: {status} {text[:2000]}"
        time.sleep(POLL_SECONDS)
