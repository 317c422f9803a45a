"""The invariants are able to fail, and show the history of the pod that broke them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.builders import pod
from support.known import known
from support.queueing import Bench

from koordsched.queue.events import ALL_PODS, NODE_ADD, ObservedEvent
from koordsched.queue.hints import Rejectors
from koordsched.queue.queued_pod import QueuedPodInfo, QueuePlace


def full_bench() -> Bench:
    """Return a queue with a probe pod, the rest of its group, a pod that backs off and one in flight."""
    bench = Bench()
    bench.add(*(pod(f"p{i}") for i in range(3)), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.add(pod("error").priority(1), pod("flying").priority(1))
    bench.fail()
    bench.pop()
    bench.queue.check_invariants()
    return bench


def lose_a_pod(bench: Bench) -> None:
    bench.queue._queues.active.remove("default/p0")


def put_a_pod_in_two_queues(bench: Bench) -> None:
    info = bench.queue.get("default/p1")
    assert info is not None
    bench.queue._queues.active.add(info.sort_key, info)


def misplace_a_pod(bench: Bench) -> None:
    info = bench.queue.get("default/p1")
    assert info is not None
    info.place = QueuePlace.BACKOFF


def forget_the_probe_pod(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    group.probe_pod = None


def age_a_backoff(bench: Bench) -> None:
    info = bench.queue.get("default/error")
    assert info is not None
    info.timestamp += 10


def miscount_gated(bench: Bench) -> None:
    bench.queue._queues.unschedulable.gated += 1


def list_a_nomination_twice(bench: Bench) -> None:
    nominator = bench.queue.nominator
    p = pod("p0").info()
    nominator.set(p, "n1")
    nominator._nodes["n2"] = {p.uid: p}


def lose_the_node_of_a_nomination(bench: Bench) -> None:
    bench.queue.nominator.set(pod("p9").info(), "n1")
    bench.queue.nominator._nodes.clear()


def gate_an_active_pod(bench: Bench) -> None:
    _info(bench, "p0").gating_plugin = "Gate"


def send_a_probe_pod_away(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    known(group.probe_pod).probe_pod_of = None


def keep_events_without_a_pod_in_flight(bench: Bench) -> None:
    bench.queue._inflight.record(ObservedEvent(NODE_ADD, None, None), ALL_PODS)
    bench.queue._inflight.pods.clear()


def requeue_a_flying_pod(bench: Bench) -> None:
    (info,) = bench.queue.in_flight
    bench.queue._queues.enter_active(info, "test")


def misplace_an_active_pod(bench: Bench) -> None:
    _info(bench, "p0").place = QueuePlace.BACKOFF


def group_an_active_pod(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    _info(bench, "p0").group = group


def empty_a_group(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    group.members.remove("default/p1")
    group.members.remove("default/p2")
    for name in ("p1", "p2"):
        bench.queue._queues.active.add((9.0,), _info(bench, name))
        _info(bench, name).place = QueuePlace.ACTIVE
        _info(bench, name).group = None


def forget_who_refused(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    group.rejectors = Rejectors(frozenset(), frozenset())


def move_a_group_as_a_whole(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    group.one_by_one = False


def _info(bench: Bench, name: str) -> QueuedPodInfo:
    return known(bench.queue.get(f"default/{name}"))


@pytest.mark.parametrize(
    ("break_it", "pod_name", "message"),
    [
        (lose_a_pod, "", "a pod is lost or in no queue"),
        (put_a_pod_in_two_queues, "p1", "default/p1 is in 2 queues"),
        (misplace_a_pod, "p1", "is in GROUP but has another place"),
        (misplace_an_active_pod, "p0", "is in the active queue but its place is BACKOFF"),
        (group_an_active_pod, "p0", "is in a group of unschedulable pods or gated as well"),
        (forget_the_probe_pod, "", "GROUP has no probe pod"),
        (gate_an_active_pod, "p0", "is in a group of unschedulable pods or gated as well"),
        (send_a_probe_pod_away, "p0", "GROUP has no probe pod"),
        (lose_the_node_of_a_nomination, "", "a nomination is not listed under its node"),
        (empty_a_group, "", "the group GROUP is empty"),
        (forget_who_refused, "p1", "is unschedulable but no plugin refused it"),
        (move_a_group_as_a_whole, "", "the group GROUP is active but moves as a whole"),
        (age_a_backoff, "error", "its cached backoff is out of date"),
        (miscount_gated, "", "the number of gated pods is wrong"),
        (list_a_nomination_twice, "", "a nomination is listed twice"),
        (keep_events_without_a_pod_in_flight, "", "events are kept though no pod is in flight"),
        (requeue_a_flying_pod, "flying", "a pod in flight is in a queue"),
    ],
)
def test_a_broken_invariant_is_named_with_the_history_of_its_pod(break_it: Callable[[Bench], None], pod_name: str, message: str) -> None:
    bench = full_bench()
    (group,) = bench.queue._queues.unschedulable.groups
    break_it(bench)
    with pytest.raises(AssertionError) as raised:
        bench.queue.check_invariants()
    first, *history = str(raised.value).splitlines()
    shown = str(bench.queue.get(f"default/{pod_name}")) if pod_name else "queue"
    assert first == f"{shown}: {message.replace('GROUP', str(group.key))}"
    assert history == [str(each) for each in bench.queue.history(f"default/{pod_name}")]
    assert bool(history) is bool(pod_name)
