"""Who wants to hear of which event, and what their queueing hints answer (framework.md §3.5).

`hints_for` makes the table of a profile from its plugins. `HintBook` answers from it which registrations an event reaches, given the
plugins that refused a pod; those answers are cached, so an event costs one dictionary lookup for each distinct set of rejectors.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from koordsched.log import get_logger
from koordsched.queue.events import (
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    HintFn,
    QueueingHint,
    cluster_event,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.queue.profile import QueueMetrics
    from koordsched.queue.queued_pod import Rejectors

log = get_logger(__name__)

ALWAYS_QUEUE: tuple[EventHint, ...] = tuple(
    EventHint(cluster_event(resource, ActionType.ALL))
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)
"""What a plugin without EventsToRegister, or an extender, is taken to wait for, as in kube-scheduler."""

_TAINT_UPDATE = EventHint(cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_TAINT))


class HintSource(Protocol):
    """A plugin, as far as the queue knows it."""

    @property
    def name(self) -> str: ...

    def events_to_register(self) -> Sequence[EventHint] | None: ...


def hints_for(plugins: Iterable[HintSource]) -> dict[str, Sequence[EventHint]]:
    """Return plugin name -> events with hints, for the plugins that can refuse a pod (PreEnqueue to Permit), with the defaults applied.

    A plugin that registers nothing (None) waits for everything; an empty sequence means the 5-minute flush only.
    """
    table = {}
    for plugin in plugins:
        registered = plugin.events_to_register()
        table[plugin.name] = ALWAYS_QUEUE if registered is None else _with_taint_updates(registered)
    return table


def _with_taint_updates(registered: Sequence[EventHint]) -> Sequence[EventHint]:
    """Let who waits for new nodes also wait for taint changes: kube-scheduler did not call such a plugin while a node was tainted."""
    actions = ActionType(0)
    for hint in registered:
        if hint.event.resource is EventResource.NODE:
            actions |= hint.event.action
    if actions & ActionType.ADD and not actions & ActionType.UPDATE_NODE_TAINT:
        return (*registered, _TAINT_UPDATE)
    return registered


class Verdict(IntEnum):
    """What an event means for a waiting pod; the larger wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2  # a pending plugin said Queue: the backoff is ignored


SKIP: Final = Verdict.SKIP
AFTER_BACKOFF: Final = Verdict.AFTER_BACKOFF
IMMEDIATELY: Final = Verdict.IMMEDIATELY
_HINT_SKIP: Final = QueueingHint.SKIP
_HINT_QUEUE: Final = QueueingHint.QUEUE


class Opinion(NamedTuple):
    """A verdict; not `certain` means that only hint functions spoke for it, so a probe may overrule it."""

    verdict: Verdict
    certain: bool


NOT_HELPFUL = Opinion(SKIP, certain=True)
MAYBE_HELPFUL = Opinion(AFTER_BACKOFF, certain=False)
SURELY_HELPFUL = Opinion(AFTER_BACKOFF, certain=True)


class Registration(NamedTuple):
    plugin: str
    hint: HintFn | None


class Change(msgspec.Struct, frozen=True):
    """An event with the object it is about, before and after. One is made for every pod that is bound."""

    event: ClusterEvent
    old: Object | None
    new: Object | None


class Interests:
    """The registrations of one set of plugins. For a gated pod only events that its gating plugin registered count."""

    __slots__ = ("_cache", "_gating_plugin", "_hints", "_plugins")

    def __init__(self, hints: Mapping[str, Sequence[EventHint]], plugins: frozenset[str], gating_plugin: str = "") -> None:
        self._hints = hints
        self._plugins = plugins
        self._gating_plugin = gating_plugin
        self._cache: dict[ClusterEvent, tuple[Registration, ...]] = {}

    def matching(self, event: ClusterEvent) -> tuple[Registration, ...]:
        """Return the registrations to ask, those without a hint function first."""
        found = self._cache.get(event)
        if found is None:
            found = self._cache[event] = self._find(event)
        return found

    def _find(self, event: ClusterEvent) -> tuple[Registration, ...]:
        if self._gating_plugin and not any(known.event.matches(event) for known in self._hints.get(self._gating_plugin, ())):
            return ()
        found = [
            Registration(plugin, known.hint)
            for plugin in sorted(self._plugins)
            for known in self._hints.get(plugin, ())
            if known.event.matches(event)
        ]
        return tuple(sorted(found, key=lambda registration: registration.hint is not None))


class HintBook:
    """A profile's hints: hands out one Interests per set of plugins."""

    def __init__(self, hints: Mapping[str, Sequence[EventHint]]) -> None:
        self._hints = hints
        self._interests: dict[tuple[frozenset[str], str], Interests] = {}
        self._everybody = Interests(hints, frozenset(hints))

    @property
    def everybody(self) -> Interests:
        """The interests of all plugins, for a shape of which nobody knows who refuses it now."""
        return self._everybody

    def interests(self, plugins: frozenset[str], gating_plugin: str = "") -> Interests:
        key = (plugins, gating_plugin)
        found = self._interests.get(key)
        if found is None:
            found = self._interests[key] = Interests(self._hints, plugins, gating_plugin)
        return found

    def registered(self, event: ClusterEvent) -> bool:
        """Answer whether any plugin of the profile wants to hear of the event."""
        return event.is_wildcard or bool(self._everybody.matching(event))


class Oracle:
    """Asks hint functions, measures them, and takes a raised exception for Queue so that no pod is stuck for a plugin's bug."""

    def __init__(self, clock: Clock, metrics: QueueMetrics) -> None:
        self._perf = clock.perf
        self._metrics = metrics

    def ask(self, registrations: Sequence[Registration], rejectors: Rejectors, pod: PodInfo, change: Change) -> Opinion:
        """Return what the registrations of an event mean for a pod that these plugins refused.

        A registration without a hint function is certain only if its plugin is known to refuse the pod.
        """
        best = NOT_HELPFUL
        for plugin, hint in registrations:
            pending = plugin in rejectors.pending
            if best is not NOT_HELPFUL and not pending:
                continue  # only a pending plugin can still raise the verdict
            if hint is not None and self._call(plugin, hint, pod, change) is _HINT_SKIP:
                continue
            certain = hint is None and (pending or plugin in rejectors.unschedulable)
            if pending:
                return Opinion(IMMEDIATELY, certain or (best is SURELY_HELPFUL))
            best = SURELY_HELPFUL if certain else MAYBE_HELPFUL
            if not rejectors.pending:
                break
        return best

    def _call(self, plugin: str, hint: HintFn, pod: PodInfo, change: Change) -> QueueingHint:
        started = self._perf()
        try:
            answer = hint(pod, change.old, change.new)
            label = "QueueSkip" if answer is _HINT_SKIP else "Queue"
        except Exception:  # a plugin may raise anything, and the pod must not pay for it
            log.exception("queueing hint failed, the pod is retried", plugin=plugin, cluster_event=change.event.label, pod=pod.key)
            answer, label = _HINT_QUEUE, "Error"
        self._metrics.hint_duration(plugin, change.event.label, label, self._perf() - started)
        return answer
