"""Waiting pods: the last approval or the first refusal ends the wait, and so does time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from support.builders import pod

from koordsched.framework.status import Code, Status, unschedulable
from koordsched.framework.waiting import WaitingPod, WaitingPods

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


def waiting(**timeouts: float) -> WaitingPod:
    return WaitingPod(pod("p").info(), "n1", timeouts)


async def test_the_pod_goes_on_when_the_last_plugin_allows_it() -> None:
    made = waiting(A=10, B=20)
    made.allow("A")
    made.allow("A")
    made.allow("stranger")
    assert made.pending_plugins == {"B"}
    made.allow("B")
    assert await made.outcome() is None


async def test_the_first_refusal_ends_the_wait_and_later_answers_change_nothing() -> None:
    made = waiting(A=10, B=20)
    made.reject("B", "preempted")
    made.reject("A", "too late")
    made.allow("A")
    made.allow("B")
    assert await made.outcome() == unschedulable("preempted").with_plugin("B")


@pytest.mark.parametrize(
    ("seconds", "waited", "text"),
    [(10, 10, "10s"), (90, 90, "1m30s"), (0.5, 0.5, "500ms"), (3600, 900, "15m0s"), (900, 900, "15m0s")],
)
async def test_a_timeout_refuses_after_at_most_15_minutes(clock: VirtualClock, seconds: float, waited: float, text: str) -> None:
    begun = clock.now()
    status = await waiting(X=seconds).outcome()
    assert status == Status(Code.UNSCHEDULABLE, (f"rejected due to timeout after waiting {text} at plugin X",), "X")
    assert clock.now() - begun == waited


async def test_the_shortest_timeout_counts(clock: VirtualClock) -> None:
    status = await waiting(A=30, B=10).outcome()
    assert status is not None
    assert status.plugin == "B"


async def test_a_plugin_that_allowed_the_pod_no_longer_times_out(clock: VirtualClock) -> None:
    made = waiting(A=30, B=10)
    made.allow("B")
    begun = clock.now()
    status = await made.outcome()
    assert (status.plugin if status else "", clock.now() - begun) == ("A", 30)


async def test_all_waiting_pods_can_be_walked_while_they_leave() -> None:
    pods = WaitingPods()
    for name in ("a", "b"):
        pods.add(WaitingPod(pod(name).info(), "n1", {"A": 1}))
    assert len(pods) == 2
    for each in pods:
        each.reject("A", "stop")
        pods.remove(each.pod.uid)
    assert (len(pods), pods.get("uid-default-a")) == (0, None)
    pods.remove("uid-default-a")
    await asyncio.sleep(0)
