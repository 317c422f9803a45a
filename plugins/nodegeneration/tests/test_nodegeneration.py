"""NodeGeneration, one call at a time; what a cluster sees of it is in scenarios/."""

from __future__ import annotations

from typing import cast

import pytest
from koordsched.api.core import Node, Pod
from koordsched.api.meta import ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.handle import Handle
from koordsched.framework.status import SKIP, Status
from koordsched.queue.events import QueueingHint

from koordsched_nodegeneration.plugin import GENERATION, MIN_GENERATION, TOO_OLD, NodeGeneration, NodeGenerationArgs


def plugin(default: int = 0) -> NodeGeneration:
    return NodeGeneration(NodeGenerationArgs(default_min_generation=default), cast("Handle", None))


def pod(wanted: str | None = None, uid: str = "u") -> PodInfo:
    annotations = {} if wanted is None else {MIN_GENERATION: wanted}
    return PodInfo(Pod(metadata=ObjectMeta(name="p", namespace="d", uid=uid, annotations=annotations)))


def node(generation: str | None = None) -> Node:
    return Node(metadata=ObjectMeta(name="n", labels={} if generation is None else {GENERATION: generation}))


def answers(asked: NodeGeneration, info: PodInfo, *nodes: Node) -> list[Status | None]:
    """Run PreFilter, then Filter for each node; all None when PreFilter skips."""
    state, cache = CycleState(), Cache()
    prepared = asked.pre_filter(state, info, cache.nodes())
    if prepared is not None:
        return [None if prepared is SKIP else prepared for _ in nodes]
    found = []
    for each in nodes:
        cache.set_node(each)
        (row,) = cache.nodes().rows.tolist()
        found.append(asked.filter(state, info, cache.nodes().info(row)))
    return found


@pytest.mark.parametrize(
    ("wanted", "generation", "refused"),
    [("2", "1", True), ("2", "2", False), ("2", "3", False), ("2", None, True), ("2", "new", True), ("0", None, False), ("10", "9", True)],
)
def test_a_node_must_be_at_least_as_new_as_the_pod_asks(wanted: str, generation: str | None, refused: bool) -> None:
    assert answers(plugin(), pod(wanted), node(generation)) == [TOO_OLD if refused else None]


def test_a_pod_that_does_not_ask_needs_the_default() -> None:
    assert answers(plugin(default=2), pod(), node("1"), node("2")) == [TOO_OLD, None]
    assert answers(plugin(default=2), pod("0"), node("1")) == [None]


@pytest.mark.parametrize("text", ["", "new", "-1", "1.5", "1000", "²", " 2"])
def test_an_annotation_that_is_no_number_refuses_the_pod_everywhere(text: str) -> None:
    (status,) = answers(plugin(), pod(text), node("999"))
    assert status is not None
    assert status.message == f"annotation {MIN_GENERATION}: {text!r}: expected a whole number from 0 to 999"


def test_the_raw_score_is_the_generation() -> None:
    cache = Cache()
    cache.set_node(node("7"))
    (row,) = cache.nodes().rows.tolist()
    assert plugin().score(CycleState(), pod(), cache.nodes().info(row)) == 7


def test_pods_differ_by_the_annotation_only() -> None:
    assert plugin().sign(pod("2", uid="a")) == plugin().sign(pod("2", uid="b"))
    assert len({plugin().sign(pod(wanted)) for wanted in (None, "0", "2")}) == 3


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("3"), QueueingHint.QUEUE),
        (node("2"), node("3"), QueueingHint.QUEUE),
        (None, node("2"), QueueingHint.SKIP),
        (node("3"), node("4"), QueueingHint.SKIP),
        (node("3"), node("2"), QueueingHint.SKIP),
    ],
)
def test_a_node_that_becomes_new_enough_moves_the_pod(old: Node | None, new: Node, expected: QueueingHint) -> None:
    hint = plugin().events_to_register()[0].hint
    assert hint is not None
    assert hint(pod("3"), old, new) is expected


def test_only_a_change_of_its_own_annotation_moves_the_pod() -> None:
    hint = plugin().events_to_register()[1].hint
    assert hint is not None
    before, after = pod("3").pod, pod("2").pod
    assert hint(pod("3"), before, after) is QueueingHint.QUEUE
    assert hint(pod("3"), before, before) is QueueingHint.SKIP
    assert hint(pod("3", uid="other"), before, after) is QueueingHint.SKIP


@pytest.mark.parametrize(("default", "good"), [(0, True), (999, True), (-1, False), (1000, False)])
def test_the_default_must_be_a_generation(default: int, good: bool) -> None:
    problems = list(NodeGenerationArgs(default_min_generation=default).problems())
    assert problems == ([] if good else [("defaultMinGeneration", f"Invalid value: {default}: must be from 0 to 999")])
