"""Orders: the heap against a sorted list, and backoffs against the formula (framework.md §3.3)."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from support.builders import pod
from support.queueing import Bench

from koordsched.queue.events import NODE_ADD
from koordsched.queue.heap import PodHeap
from koordsched.queue.profile import QueueSettings
from koordsched.queue.queued_pod import QueuedPodInfo

names = st.sampled_from("abcdefgh")
eighths = st.integers(0, 240).map(lambda n: n / 8)  # seconds, exact in floats
operations = st.lists(st.one_of(st.tuples(names, st.integers(0, 3)), names, st.none()), max_size=80)


@given(operations)
def test_the_heap_gives_what_a_sorted_list_gives(happening: list[tuple[str, int] | str | None]) -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    model: dict[str, tuple[int, int]] = {}
    infos = {name: QueuedPodInfo(pod(name).info(), 0.0) for name in "abcdefgh"}
    for number, info in enumerate(infos.values()):
        info.sequence = -number
    for step in happening:
        if isinstance(step, tuple):
            name, order = step
            heap.add((float(order),), infos[name])
            model[name] = (order, infos[name].sequence)
        elif step is not None:
            removed = heap.remove(f"default/{step}")
            assert (removed is None) == (model.pop(step, None) is None)
        else:
            first = min(model, key=lambda name: model[name], default=None)
            popped = heap.pop()
            assert popped is (infos[first] if first else None)
            model.pop(first or "", None)
        assert [info.key for info in heap.in_order()] == [f"default/{name}" for name in sorted(model, key=lambda name: model[name])]
        assert len(heap) == len(model)


@given(
    failures=st.lists(st.tuples(eighths, st.integers(1, 6), st.booleans()), min_size=1, max_size=12),
    initial=st.sampled_from([1.0, 2.0, 5.0]),
)
def test_pods_leave_the_backoff_at_the_first_flush_after_their_time_and_in_order(
    failures: list[tuple[float, int, bool]], initial: float
) -> None:
    """A pod with a penalty of d seconds waits for more than d and at most d + 1 of them."""
    bench = Bench(settings=QueueSettings(initial_backoff=initial, max_backoff=20))
    due = {}
    for number, (after, times, is_error) in enumerate(sorted(failures)):
        name = f"p{number}"
        bench.add(pod(name).priority(number))
        info = bench.pop()
        bench.clock.time = 1000.0 + after
        info.unschedulable_count = 0 if is_error else times - 1
        info.consecutive_errors_count = times - 1 if is_error else 0
        bench.queue.move_all(NODE_ADD, None, None)
        bench.fail(*(() if is_error else ("Fit",)), info=info)
        penalty = min(initial * 2 ** (times - 1), 20)
        due[info.key] = math.floor(1000.0 + after + penalty) + 1
        assert penalty < due[info.key] - bench.clock.time <= penalty + 1
    left: dict[str, float] = {}
    while (flush_at := bench.queue.next_flush()) is not None:
        bench.clock.time = max(bench.clock.time, flush_at)
        bench.queue.flush_backoff(bench.clock.now())
        for info in bench.queue.pending():
            if info.place.value == "active":
                left.setdefault(info.key, bench.clock.now())
    last_failure = 1000.0 + max(after for after, _, _ in failures)
    assert left == {key: max(time, last_failure) for key, time in due.items()}
