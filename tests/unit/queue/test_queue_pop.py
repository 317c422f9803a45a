"""Entering the queue and being popped (framework.md §3.2)."""

from __future__ import annotations

import asyncio

import pytest
from support.builders import pod
from support.queueing import Bench, pod_of

from koordsched.queue.events import NODE_ADD
from koordsched.queue.profile import QueueSettings
from koordsched.queue.queued_pod import QueuePlace


def test_pods_are_popped_by_priority_then_by_arrival() -> None:
    bench = Bench()
    bench.add(pod("first"), pod("high").priority(7), pod("second"), pod("low").priority(-1))
    assert bench.popped() == ["high", "first", "second", "low"]
    assert bench.queue.pop() is None


def test_a_popped_pod_has_one_attempt_more_and_no_failed_plugins() -> None:
    bench = Bench()
    bench.add(pod("p"))
    info = bench.fail("Fit", pending=["P"])
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.pop() is info
    assert (info.attempts, info.unschedulable_plugins, info.pending_plugins, info.rejected_in_filter) == (2, set(), set(), False)
    assert [flying.key for flying in bench.queue.in_flight] == ["default/p"]


def test_the_first_time_in_the_active_queue_is_kept() -> None:
    bench = Bench()
    bench.add(pod("p"))
    bench.clock.time = 1005.0
    info = bench.fail("Fit")
    bench.clock.time = 1050.0
    bench.queue.move_all(NODE_ADD, None, None)
    assert (info.initial_attempt_timestamp, info.timestamp) == (1000.0, 1005.0)


def test_a_retried_pod_goes_behind_fresh_ones_of_its_priority() -> None:
    bench = Bench()
    bench.add(pod("retried"))
    retried = bench.pop()
    bench.clock.time += 1
    bench.add(pod("fresh"))
    bench.clock.time += 1
    bench.fail("Fit", info=retried)
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.popped() == ["fresh", "retried"]


def test_a_refused_pod_is_popped_before_its_backoff_ends_when_nothing_is_active() -> None:
    bench = Bench()
    bench.add(pod("p"))
    bench.fail("Fit")
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "backoff"}
    assert bench.popped() == ["p"]
    assert bench.metrics.incoming_pods["active", "PopFromBackoffQ"] == 1


def test_a_pod_that_failed_with_an_error_is_never_popped_early() -> None:
    bench = Bench()
    bench.add(pod("p"))
    bench.fail()
    assert bench.places() == {"p": "backoff"}
    assert bench.queue.pop() is None
    bench.clock.time = 1002.0
    bench.queue.flush_backoff(1002.0)
    assert bench.popped() == ["p"]


@pytest.mark.parametrize("again", [False, True])
def test_a_pod_whose_uid_is_in_flight_already_is_dropped(again: bool) -> None:
    bench = Bench()
    (p,) = bench.add(pod("p"))
    bench.pop()
    bench.queue.add(p)
    if again:
        bench.add(pod("other").priority(-1))
    assert bench.popped() == (["other"] if again else [])
    assert bench.queue.where("default/p")[0] is QueuePlace.IN_FLIGHT
    bench.queue.check_invariants()


def test_adding_a_pod_that_waits_already_updates_it() -> None:
    bench = Bench()
    bench.add(pod("p").resource_version("1"), pod("q").priority(1))
    bench.add(pod("p").priority(2).resource_version("2"))
    assert bench.popped() == ["p", "q"]


def test_taking_a_pod_by_name_counts_no_attempt() -> None:
    bench = Bench()
    bench.profile.gates["default/gated"] = "Gang"
    bench.add(pod("active"), pod("gated"))
    bench.add(pod("failed").priority(1))
    bench.fail("Fit")
    taken = [bench.queue.take(f"default/{name}") for name in ("active", "gated", "failed")]
    assert [(info.key, info.attempts, info.initial_attempt_timestamp) for info in taken if info] == [
        ("default/active", 0, 1000.0),
        ("default/gated", 0, 1000.0),
        ("default/failed", 1, 1000.0),
    ]
    assert bench.queue.take("default/active") is None
    assert bench.queue.sizes() == (0, 0, 0, 0)
    bench.queue.check_invariants()


def test_incoming_pods_are_counted_by_queue_and_event() -> None:
    bench = Bench()
    bench.add(pod("p"))
    bench.fail("Fit")
    bench.queue.move_all(NODE_ADD, None, None)
    bench.clock.time = 1002.0
    bench.queue.flush_backoff(1002.0)
    assert bench.metrics.incoming_pods == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_the_queue_shows_where_a_pod_is_since_when_and_its_story() -> None:
    bench = Bench()
    bench.add(pod("p"))
    assert bench.queue.where("default/p") == (QueuePlace.ACTIVE, 1000.0)
    bench.clock.time = 1003.0
    bench.fail("Fit")
    assert bench.queue.where("default/p") == (QueuePlace.UNSCHEDULABLE, 1003.0)
    assert bench.queue.where("default/unknown") == (QueuePlace.NONE, 0.0)
    assert [str(step) for step in bench.queue.history("default/p")] == [
        "1000.000 default/p -> ACTIVE (UnschedulablePodAdd)",
        "1003.000 default/p -> IN_FLIGHT (PodPopped)",
        "1003.000 default/p -> UNSCHEDULABLE (ScheduleAttemptFailure)",
    ]


def test_a_pod_of_an_unknown_profile_is_refused() -> None:
    with pytest.raises(KeyError, match="stranger"):
        Bench().queue.add(pod_of(pod("p").scheduler("stranger")))


async def test_waiting_ends_when_a_pod_becomes_poppable() -> None:
    bench = Bench()
    waiting = asyncio.ensure_future(bench.queue.wait_not_empty())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    bench.add(pod("p"))
    await waiting
    assert bench.popped() == ["p"]


async def test_waiting_does_not_end_for_a_pod_that_may_not_be_popped() -> None:
    bench = Bench()
    bench.add(pod("p"))
    bench.fail()
    waiting = asyncio.ensure_future(bench.queue.wait_not_empty())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    bench.queue.flush_backoff(1002.0)
    bench.clock.time = 1002.0
    bench.queue.flush_backoff(1002.0)
    await waiting
    assert bench.popped() == ["p"]


async def test_waiting_lets_others_run_even_when_there_is_something_to_pop() -> None:
    bench = Bench()
    bench.add(pod("p"))
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await bench.queue.wait_not_empty()
    assert ran == [True]


def test_with_the_gate_off_no_pod_is_popped_before_its_backoff_ends() -> None:
    bench = Bench(settings=QueueSettings(pop_from_backoff=False))
    bench.add(pod("p"))
    bench.fail("Fit")
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "backoff"}
    assert bench.queue.pop() is None
    assert bench.places() == {"p": "backoff"}
