"""The events that each plugin registered, with their queueing hints (framework.md §3.5).

`hints_for` makes a profile's table from its plugins. `EventRegistry` answers from it which registrations match an event, given the plugins
that refused a pod; its answers are cached, so an event costs one dictionary lookup for each distinct set of rejectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from koordsched.queue.events import ActionType, ClusterEvent, EventHint, EventResource, HintFn, cluster_event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.kinds import Kind

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
"""The registrations of a plugin without EventsToRegister and of an extender, as in kube-scheduler."""

_TAINT_UPDATE = EventHint(cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_TAINT))


class Rejectors(NamedTuple):
    """The plugins that refused a pod. A Queue answer of a pending one skips the backoff."""

    unschedulable: frozenset[str]
    pending: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.unschedulable | self.pending if self.pending else self.unschedulable

    def union(self, other: Rejectors) -> Rejectors:
        return Rejectors(self.unschedulable | other.unschedulable, self.pending | other.pending)


class HintSource(Protocol):
    """What `hints_for` reads of a plugin."""

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> Sequence[Kind]:
        """Kinds of objects that the plugin brings."""

    def events_to_register(self) -> Sequence[EventHint] | None: ...


def hints_for(plugins: Iterable[HintSource]) -> dict[str, Sequence[EventHint]]:
    """Return plugin name -> events with hints, for the plugins that can refuse a pod (PreEnqueue to Permit), with the defaults applied.

    A plugin that returns None gets ALWAYS_QUEUE, and all events of the kinds that it brings; with an empty sequence only the 5-minute flush
    moves the pods it refused.
    """
    table: dict[str, Sequence[EventHint]] = {}
    for plugin in plugins:
        registered = plugin.events_to_register()
        if registered is None:
            own = [EventHint(cluster_event(EventResource.CUSTOM, ActionType.ALL, kind.plural_group)) for kind in plugin.kinds]
            table[plugin.name] = (*ALWAYS_QUEUE, *own)
        else:
            table[plugin.name] = _with_taint_updates(registered)
    return table


def _with_taint_updates(registered: Sequence[EventHint]) -> Sequence[EventHint]:
    """Add taint changes where new nodes are registered, as kube-scheduler does for plugins that it did not run on a tainted node."""
    actions = ActionType(0)
    for hint in registered:
        if hint.event.resource is EventResource.NODE:
            actions |= hint.event.action
    if actions & ActionType.ADD and not actions & ActionType.UPDATE_NODE_TAINT:
        return (*registered, _TAINT_UPDATE)
    return registered


class Registration(NamedTuple):
    plugin: str
    hint: HintFn | None
    selective: bool


class EventSubscriptions:
    """The registrations of one set of plugins. For a gated pod an event counts only if its gating plugin registered it."""

    __slots__ = ("_cache", "_gating_plugin", "_hints", "_plugins")

    def __init__(self, hints: Mapping[str, Sequence[EventHint]], plugins: frozenset[str], gating_plugin: str = "") -> None:
        self._hints = hints
        self._plugins = plugins
        self._gating_plugin = gating_plugin
        self._cache: dict[ClusterEvent, tuple[Registration, ...]] = {}

    def matching(self, event: ClusterEvent) -> tuple[Registration, ...]:
        """Return the registrations that match the event, those without a hint function first."""
        found = self._cache.get(event)
        if found is None:
            found = self._cache[event] = self._find(event)
        return found

    def _find(self, event: ClusterEvent) -> tuple[Registration, ...]:
        gating = self._hints.get(self._gating_plugin, ()) if self._gating_plugin else ()
        if self._gating_plugin and not any(known.gated and known.event.matches(event) for known in gating):
            return ()
        found = [
            Registration(plugin, known.hint, known.selective)
            for plugin in sorted(self._plugins)
            for known in self._hints.get(plugin, ())
            if known.event.matches(event)
        ]
        return tuple(sorted(found, key=lambda registration: registration.hint is not None))


class EventRegistry:
    """A profile's registrations: one EventSubscriptions per set of plugins."""

    def __init__(self, hints: Mapping[str, Sequence[EventHint]]) -> None:
        self._hints = hints
        self._subscriptions: dict[tuple[frozenset[str], str], EventSubscriptions] = {}
        self.all_plugins = EventSubscriptions(hints, frozenset(hints))

    def subscriptions(self, plugins: frozenset[str], gating_plugin: str = "") -> EventSubscriptions:
        """Return the registrations of these plugins, always as the same object."""
        key = (plugins, gating_plugin)
        found = self._subscriptions.get(key)
        if found is None:
            found = self._subscriptions[key] = EventSubscriptions(self._hints, plugins, gating_plugin)
        return found

    def registered(self, event: ClusterEvent) -> bool:
        """Answer whether any plugin of the profile registered the event."""
        return event.is_wildcard or bool(self.all_plugins.matching(event))
