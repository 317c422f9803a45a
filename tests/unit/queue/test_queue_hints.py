"""What plugins register, by default and by themselves, and what their hints answer (framework.md §3.5)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.builders import node, pod
from support.queueing import HandClock, RememberedMetrics

from koordsched.api.kinds import DEVICE, Kind
from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import (
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    ObservedEvent,
    QueueingHint,
    cluster_event,
)
from koordsched.queue.hints import ALWAYS_QUEUE, EventRegistry, Rejectors, hints_for
from koordsched.queue.moving import HintEvaluator, HintResult, QueueingStrategy

NODE_TAINT = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
REFUSED_BY_A = Rejectors(frozenset({"A"}), frozenset())


class Source:
    def __init__(self, name: str, events: Sequence[EventHint] | None, kinds: Sequence[Kind] = ()) -> None:
        self.name = name
        self.kinds = kinds
        self._events = events

    def events_to_register(self) -> Sequence[EventHint] | None:
        return self._events


def test_every_event_is_also_one_of_a_kind_that_the_plugin_brings() -> None:
    registry = EventRegistry(hints_for([Source("A", None, [DEVICE]), Source("B", ())]))
    for kind, registered in ((DEVICE.plural_group, True), ("others.example.com", False)):
        assert registry.registered(cluster_event(EventResource.CUSTOM, ActionType.ADD, kind)) == registered


def answers(hint: QueueingHint) -> EventHint:
    return EventHint(NODE_ADD, lambda *_: hint)


def fails(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    raise ValueError("the plugin has a bug")


def ask(registry: EventRegistry, rejectors: Rejectors, metrics: RememberedMetrics | None = None) -> HintResult:
    evaluator = HintEvaluator(HandClock(), metrics or RememberedMetrics())
    registrations = registry.subscriptions(rejectors.all).matching(NODE_ADD)
    return evaluator.evaluate(registrations, rejectors, pod("p").info(), ObservedEvent(NODE_ADD, None, node("n").build()))


def test_a_plugin_that_registers_nothing_waits_for_everything_kube_scheduler_watches() -> None:
    registry = EventRegistry(hints_for([Source("A", None)]))
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
        assert [known.hint for known in registry.all_plugins.matching(ClusterEvent(resource, ActionType.UPDATE))] == [None]
    assert not registry.registered(ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.ADD))
    assert not registry.registered(ClusterEvent(EventResource.CUSTOM, ActionType.ADD, kind="devices.scheduling.koordinator.sh"))


def test_an_empty_registration_hears_of_no_event_but_the_wildcard() -> None:
    registry = EventRegistry(hints_for([Source("A", ())]))
    assert not registry.registered(NODE_ADD)
    assert registry.registered(ClusterEvent(EventResource.WILDCARD, ActionType.ALL))


def test_who_waits_for_new_nodes_is_always_queued_on_taint_changes() -> None:
    registry = EventRegistry(hints_for([Source("A", [answers(QueueingHint.SKIP)])]))
    assert [known.hint for known in registry.all_plugins.matching(NODE_TAINT)] == [None]


@pytest.mark.parametrize("action", [ActionType.UPDATE_NODE_TAINT, ActionType.UPDATE_NODE_TAINT | ActionType.DELETE])
def test_who_registered_taint_changes_itself_keeps_its_hint(action: ActionType) -> None:
    own = EventHint(ClusterEvent(EventResource.NODE, action), lambda *_: QueueingHint.SKIP)
    registry = EventRegistry(hints_for([Source("A", [answers(QueueingHint.SKIP), own])]))
    assert [known.hint for known in registry.all_plugins.matching(NODE_TAINT)] == [own.hint]


def test_who_does_not_wait_for_new_nodes_gets_no_taint_changes() -> None:
    registry = EventRegistry(hints_for([Source("A", [EventHint(NODE_DELETE)])]))
    assert not registry.registered(NODE_TAINT)


def test_only_plugins_that_refused_the_pod_are_asked() -> None:
    registry = EventRegistry({"A": [answers(QueueingHint.SKIP)], "B": [answers(QueueingHint.QUEUE)]})
    assert ask(registry, REFUSED_BY_A).strategy is QueueingStrategy.SKIP


def test_one_queue_answer_is_enough_and_a_probe_may_overrule_it() -> None:
    registry = EventRegistry({"A": [answers(QueueingHint.SKIP), answers(QueueingHint.QUEUE)]})
    assert ask(registry, REFUSED_BY_A) == HintResult(QueueingStrategy.AFTER_BACKOFF, certain=False)


def test_a_registration_without_hint_is_certain() -> None:
    registry = EventRegistry({"A": [answers(QueueingHint.QUEUE), EventHint(NODE_ADD)]})
    assert ask(registry, REFUSED_BY_A) == HintResult(QueueingStrategy.AFTER_BACKOFF, certain=True)


def test_a_registration_without_hint_of_a_plugin_that_may_not_refuse_any_more_is_not_certain() -> None:
    registry = EventRegistry({"A": (), "B": [EventHint(NODE_ADD)]})
    result = HintEvaluator(HandClock(), RememberedMetrics()).evaluate(
        registry.all_plugins.matching(NODE_ADD), REFUSED_BY_A, pod("p").info(), ObservedEvent(NODE_ADD, None, None)
    )
    assert result == HintResult(QueueingStrategy.AFTER_BACKOFF, certain=False)


def test_a_queue_answer_of_a_pending_plugin_skips_the_backoff_whoever_else_answers() -> None:
    registry = EventRegistry({"A": [EventHint(NODE_ADD)], "P": [answers(QueueingHint.QUEUE)]})
    rejectors = Rejectors(frozenset({"A"}), frozenset({"P"}))
    assert ask(registry, rejectors) == HintResult(QueueingStrategy.IMMEDIATELY, certain=True)
    assert ask(registry, Rejectors(frozenset(), frozenset({"P"}))) == HintResult(QueueingStrategy.IMMEDIATELY, certain=False)


def test_a_skip_answer_of_a_pending_plugin_leaves_the_others_verdict() -> None:
    registry = EventRegistry({"A": [answers(QueueingHint.QUEUE)], "P": [answers(QueueingHint.SKIP)]})
    assert ask(registry, Rejectors(frozenset({"A"}), frozenset({"P"}))).strategy is QueueingStrategy.AFTER_BACKOFF


def test_a_hint_that_raises_counts_as_queue() -> None:
    metrics = RememberedMetrics()
    assert ask(EventRegistry({"A": [EventHint(NODE_ADD, fails)]}), REFUSED_BY_A, metrics).strategy is QueueingStrategy.AFTER_BACKOFF
    assert metrics.hints == {("A", "NodeAdd", "Error"): 1}


def test_hints_are_measured_by_plugin_event_and_answer() -> None:
    metrics = RememberedMetrics()
    ask(EventRegistry({"A": [answers(QueueingHint.SKIP), answers(QueueingHint.QUEUE)]}), REFUSED_BY_A, metrics)
    assert metrics.hints == {("A", "NodeAdd", "QueueSkip"): 1, ("A", "NodeAdd", "Queue"): 1}


def test_a_gated_pod_hears_only_of_events_that_its_gating_plugin_registered() -> None:
    registry = EventRegistry({"Gate": [EventHint(NODE_DELETE)], "A": ALWAYS_QUEUE})
    subscriptions = registry.subscriptions(frozenset({"Gate", "A"}), "Gate")
    assert subscriptions.matching(NODE_ADD) == ()
    assert {known.plugin for known in subscriptions.matching(NODE_DELETE)} == {"Gate", "A"}
