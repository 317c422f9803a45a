"""The heap with removal by key."""

from __future__ import annotations

from support.builders import pod

from koordsched.queue.heap import PodHeap
from koordsched.queue.queued_pod import QueuedPodInfo


def waiting(name: str, sequence: int = 0) -> QueuedPodInfo:
    info = QueuedPodInfo(pod(name).info(), 0.0)
    info.sequence = sequence
    return info


def drain(heap: PodHeap[QueuedPodInfo]) -> list[str]:
    names = []
    while (info := heap.pop()) is not None:
        names.append(info.key.partition("/")[2])
    return names


def test_pods_come_out_in_order_and_ties_by_sequence() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    for name, order, sequence in (("d", 2.0, 1), ("b", 1.0, 8), ("a", 1.0, 7), ("c", 1.0, 9)):
        heap.add((order,), waiting(name, sequence))
    assert [info.key for info in heap.in_order()] == ["default/a", "default/b", "default/c", "default/d"]
    assert drain(heap) == ["a", "b", "c", "d"]


def test_a_removed_pod_does_not_come_out() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    a, b = waiting("a"), waiting("b", 1)
    heap.add((0.0,), a)
    heap.add((0.0,), b)
    assert heap.remove("default/a") is a
    assert heap.remove("default/a") is None
    assert heap.peek() is b
    assert len(heap) == 1
    assert list(heap) == [b]


def test_adding_a_pod_again_moves_it() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    a, b = waiting("a"), waiting("b", 1)
    heap.add((0.0,), a)
    heap.add((1.0,), b)
    heap.add((2.0,), a)
    assert len(heap) == 2
    assert drain(heap) == ["b", "a"]


def test_pods_out_of_order_come_out_between_those_that_came_in_order() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    for name, order in (("b", 2.0), ("d", 4.0), ("c", 3.0), ("e", 5.0), ("a", 1.0), ("f", 6.0)):
        heap.add((order,), waiting(name))
    heap.remove("default/e")
    first = heap.pop()
    assert first is not None
    heap.add((0.0,), first)
    assert [info.key for info in heap.in_order()] == [f"default/{name}" for name in "abcdf"]
    assert drain(heap) == list("abcdf")


def test_a_heap_of_which_only_the_last_in_order_is_left_takes_others_before_it() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    a, z = waiting("a"), waiting("z")
    heap.add((9.0,), z)
    heap.add((1.0,), a)
    heap.remove("default/z")
    heap.add((0.5,), waiting("b"))
    assert drain(heap) == ["b", "a"]


def test_the_dead_do_not_pile_up() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    for i in range(1000):
        heap.add((float(i),), waiting(f"p{i}", i))
    for i in range(990):
        heap.remove(f"default/p{i}")
    assert len(heap._run) + len(heap._heap) <= 64 + 20
    assert drain(heap) == [f"p{i}" for i in range(990, 1000)]


def test_an_empty_heap_has_nothing() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    assert heap.peek() is None
    assert heap.pop() is None
    assert list(heap) == []


def test_what_is_equal_in_everything_comes_out_in_the_order_in_which_it_came() -> None:
    heap: PodHeap[QueuedPodInfo] = PodHeap()
    for name in ("b", "a", "d", "c"):
        heap.add((0.0,), waiting(name))
    heap.add((0.0,), waiting("b"))  # anew
    assert [info.key.partition("/")[2] for info in heap.in_order()] == ["a", "d", "c", "b"]
    assert drain(heap) == ["a", "d", "c", "b"]
