"""Pods whose shape changes while they wait, because plugins sign them differently by now."""

from __future__ import annotations

from collections.abc import Hashable

from support.builders import pod
from support.known import known
from support.queueing import Bench, name_of

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import NODE_ADD, EventHint, QueueingHint
from koordsched.queue.queued_pod import QueuedPodInfo


def yes(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE


def failed_group() -> Bench:
    """Return a queue where p0, p1 and p2 of one shape were refused in Filter and no longer back off."""
    bench = Bench({"Fit": [EventHint(NODE_ADD, yes)]})
    bench.add(*(pod(f"p{i}") for i in range(3)), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    return bench


def reshape(bench: Bench, **shapes: Hashable) -> None:
    def shape_of(info: QueuedPodInfo) -> Hashable | None:
        return shapes.get(name_of(info.key), info.pod_info.shape)

    bench.queue.reshape(shape_of)
    bench.queue.check_invariants()


def test_a_pod_of_another_shape_no_longer_shares_the_fate_of_its_group() -> None:
    bench = failed_group()
    bench.profile.passing = False
    reshape(bench, p1="t")
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.profile.probed == ["default/p0", "default/p1"]
    first = bench.queue.get("default/p0")
    assert first is not None
    assert [name_of(info.key) for info in known(bench.queue.group_of(first.pod_info)).members] == ["p0", "p2"]


def test_pods_that_are_about_to_be_tried_or_in_flight_get_their_shape_too() -> None:
    bench = Bench({"Fit": []})
    flying, waiting = bench.add(pod("flying"), pod("waiting"), shape="s")
    bench.pop()
    reshape(bench, flying="t", waiting="u")
    assert (flying.shape, waiting.shape) == ("t", "u")
    assert bench.places() == {"waiting": "active"}


def test_pods_of_an_active_group_that_change_their_shape_move_on() -> None:
    bench = failed_group()
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    reshape(bench, p2="t")
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "active"}
    assert sorted(bench.popped()) == ["p0", "p1", "p2"]
