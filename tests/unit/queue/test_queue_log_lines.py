"""What the queue logs when something contradicts what it knows, or a plugin fails: whole lines, and that the pod does not pay for it."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs
from support.builders import pod
from support.queueing import Bench

from koordsched.queue.events import NODE_ADD, EventHint


def test_a_second_entry_of_a_pod_in_flight_is_dropped_and_logged() -> None:
    bench = Bench()
    bench.add(pod("p"), pod("q"))
    info = bench.pop()
    bench.queue.add(info.pod_info)
    with capture_logs() as logs:
        assert bench.popped() == ["q"]
    text = "a pod in flight was in the queue as well, the second one is dropped"
    assert logs == [{"event": text, "log_level": "error", "pod": "default/p", "uid": info.uid}]


def test_a_pod_that_returns_although_it_waits_is_kept_where_it_is_and_logged() -> None:
    bench = Bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.fail("Fit", info=info)
    with capture_logs() as logs:
        assert bench.queue.add_unschedulable_if_not_present(info) is info.place
    text = "a pod returned to the queue but is there already"
    assert logs == [{"event": text, "log_level": "error", "pod": "default/p", "uid": info.uid, "place": info.place.value}]
    assert bench.places() == {"p": "unschedulable"}
    bench.queue.check_invariants()


def test_a_hint_that_fails_has_the_pod_tried_again_and_is_logged_with_its_traceback() -> None:
    def hint(*_args: Any) -> Any:
        raise KeyError("oops")

    bench = Bench({"Fit": [EventHint(NODE_ADD, hint)]})
    bench.add(pod("p"))
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    with capture_logs() as logs:
        bench.queue.move_all(NODE_ADD, None, None)
    text = "queueing hint failed, the pod is retried"
    expected = {"log_level": "error", "exc_info": True, "plugin": "Fit", "cluster_event": "NodeAdd", "pod": "default/p"}
    assert logs == [{"event": text, **expected}]
    assert bench.places() == {"p": "active"}
    assert bench.metrics.hints == {("Fit", "NodeAdd", "Error"): 1}
