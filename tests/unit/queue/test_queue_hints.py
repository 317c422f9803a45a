"""What plugins register, by default and by themselves, and what their hints answer (framework.md §3.5)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.builders import node, pod
from support.queueing import HandClock, RememberedMetrics

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import (
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    QueueingHint,
    cluster_event,
)
from koordsched.queue.hints import ALWAYS_QUEUE, Change, HintBook, Opinion, Oracle, Verdict, hints_for
from koordsched.queue.queued_pod import Rejectors

NODE_TAINT = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
REFUSED_BY_A = Rejectors(frozenset({"A"}), frozenset())


class Source:
    def __init__(self, name: str, events: Sequence[EventHint] | None) -> None:
        self.name = name
        self._events = events

    def events_to_register(self) -> Sequence[EventHint] | None:
        return self._events


def answers(hint: QueueingHint) -> EventHint:
    return EventHint(NODE_ADD, lambda *_: hint)


def fails(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    raise ValueError("the plugin has a bug")


def ask(book: HintBook, rejectors: Rejectors, metrics: RememberedMetrics | None = None) -> Opinion:
    oracle = Oracle(HandClock(), metrics or RememberedMetrics())
    registrations = book.interests(rejectors.all).matching(NODE_ADD)
    return oracle.ask(registrations, rejectors, pod("p").info(), Change(NODE_ADD, None, node("n").build()))


def test_a_plugin_that_registers_nothing_waits_for_everything_kube_scheduler_watches() -> None:
    book = HintBook(hints_for([Source("A", None)]))
    for resource in (
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULABLE_POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    ):
        assert [known.hint for known in book.everybody.matching(ClusterEvent(resource, ActionType.UPDATE))] == [None]
    assert not book.registered(ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.ADD))
    assert not book.registered(ClusterEvent(EventResource.CUSTOM, ActionType.ADD, kind="devices.scheduling.koordinator.sh"))


def test_an_empty_registration_hears_of_no_event_but_the_wildcard() -> None:
    book = HintBook(hints_for([Source("A", ())]))
    assert not book.registered(NODE_ADD)
    assert book.registered(ClusterEvent(EventResource.WILDCARD, ActionType.ALL))


def test_who_waits_for_new_nodes_is_always_queued_on_taint_changes() -> None:
    book = HintBook(hints_for([Source("A", [answers(QueueingHint.SKIP)])]))
    assert [known.hint for known in book.everybody.matching(NODE_TAINT)] == [None]


@pytest.mark.parametrize("action", [ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_NODE_TAINT | ActionType.DELETE])
def test_who_registered_taint_changes_itself_keeps_its_hint(action: ActionType) -> None:
    own = EventHint(ClusterEvent(EventResource.NODE, action), lambda *_: QueueingHint.SKIP)
    book = HintBook(hints_for([Source("A", [answers(QueueingHint.SKIP), own])]))
    assert [known.hint for known in book.everybody.matching(NODE_TAINT)] == [own.hint]


def test_who_does_not_wait_for_new_nodes_gets_no_taint_changes() -> None:
    book = HintBook(hints_for([Source("A", [EventHint(NODE_DELETE)])]))
    assert not book.registered(NODE_TAINT)


def test_only_plugins_that_refused_the_pod_are_asked() -> None:
    book = HintBook({"A": [answers(QueueingHint.SKIP)], "B": [answers(QueueingHint.QUEUE)]})
    assert ask(book, REFUSED_BY_A).verdict is Verdict.SKIP


def test_one_queue_answer_is_enough_and_a_probe_may_overrule_it() -> None:
    book = HintBook({"A": [answers(QueueingHint.SKIP), answers(QueueingHint.QUEUE)]})
    assert ask(book, REFUSED_BY_A) == Opinion(Verdict.AFTER_BACKOFF, certain=False)


def test_a_registration_without_hint_is_certain() -> None:
    book = HintBook({"A": [answers(QueueingHint.QUEUE), EventHint(NODE_ADD)]})
    assert ask(book, REFUSED_BY_A) == Opinion(Verdict.AFTER_BACKOFF, certain=True)


def test_a_registration_without_hint_of_a_plugin_that_may_not_refuse_any_more_is_not_certain() -> None:
    book = HintBook({"A": (), "B": [EventHint(NODE_ADD)]})
    opinion = Oracle(HandClock(), RememberedMetrics()).ask(
        book.everybody.matching(NODE_ADD), REFUSED_BY_A, pod("p").info(), Change(NODE_ADD, None, None)
    )
    assert opinion == Opinion(Verdict.AFTER_BACKOFF, certain=False)


def test_a_queue_answer_of_a_pending_plugin_skips_the_backoff_whoever_else_answers() -> None:
    book = HintBook({"A": [EventHint(NODE_ADD)], "P": [answers(QueueingHint.QUEUE)]})
    rejectors = Rejectors(frozenset({"A"}), frozenset({"P"}))
    assert ask(book, rejectors) == Opinion(Verdict.IMMEDIATELY, certain=True)
    assert ask(book, Rejectors(frozenset(), frozenset({"P"}))) == Opinion(Verdict.IMMEDIATELY, certain=False)


def test_a_skip_answer_of_a_pending_plugin_leaves_the_others_verdict() -> None:
    book = HintBook({"A": [answers(QueueingHint.QUEUE)], "P": [answers(QueueingHint.SKIP)]})
    assert ask(book, Rejectors(frozenset({"A"}), frozenset({"P"}))).verdict is Verdict.AFTER_BACKOFF


def test_a_hint_that_raises_counts_as_queue() -> None:
    metrics = RememberedMetrics()
    assert ask(HintBook({"A": [EventHint(NODE_ADD, fails)]}), REFUSED_BY_A, metrics).verdict is Verdict.AFTER_BACKOFF
    assert metrics.hints == {("A", "NodeAdd", "Error"): 1}


def test_hints_are_measured_by_plugin_event_and_answer() -> None:
    metrics = RememberedMetrics()
    ask(HintBook({"A": [answers(QueueingHint.SKIP), answers(QueueingHint.QUEUE)]}), REFUSED_BY_A, metrics)
    assert metrics.hints == {("A", "NodeAdd", "QueueSkip"): 1, ("A", "NodeAdd", "Queue"): 1}


def test_a_gated_pod_hears_only_of_events_that_its_gating_plugin_registered() -> None:
    book = HintBook({"Gate": [EventHint(NODE_DELETE)], "A": ALWAYS_QUEUE})
    interests = book.interests(frozenset({"Gate", "A"}), "Gate")
    assert interests.matching(NODE_ADD) == ()
    assert {known.plugin for known in interests.matching(NODE_DELETE)} == {"Gate", "A"}
