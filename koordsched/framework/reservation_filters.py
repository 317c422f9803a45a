"""Which reservations of a node have the CPUs and devices that a pod needs (reservation.md §9, deviceshare.md §8, nodenumaresource.md §12).

The plugin that knows reservations decides about amounts, and asks here about the rest. For each reservation it is tried what Reserve would
do if the pod was given it: the reservation holds nothing, the others of the node hold what they have left, and the plugins answer in the
order of Reserve, in a copy of the cycle's state, so that what is found to fit is what Reserve finds.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from koordsched._core.change import NodeChange
from koordsched._core.reservations import SOURCE_SHIFT
from koordsched.framework.interface import FilterNodesPlugin, Plugin, ReservationFilterPlugin
from koordsched.queue.events import ASSIGNED_POD_ADD, EventHint, QueueingHint
from koordsched.queue.hints import hints_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched._core.reserved_source import ReservedSource
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.status import Status
    from koordsched.queue.events import HintFn

TRIED = "framework/tried-reservation"  # in the state of a question: the uid of the reservation, "" for none
MAX_RESERVATION_SCORE = 100
SOURCE_MASK = (1 << SOURCE_SHIFT) - 1


def tried_reservation(state: CycleState) -> str | None:
    """Return the reservation that this question is about, "" for none; None when the state is that of a cycle."""
    found: str | None = state.read(TRIED)
    return found


class MatchedOnNode(NamedTuple):
    """A pod, and the reservations of one node that it matches, by uid."""

    state: CycleState
    pod: PodInfo
    node_name: str
    reservations: Sequence[str]


class ReservationFilters:
    """The ReservationFilterPlugins of one profile, in the order in which they reserve."""

    def __init__(self, plugins: Iterable[ReservationFilterPlugin]) -> None:
        self._plugins = tuple(plugins)

    @property
    def reads(self) -> NodeChange:
        """Return the kinds of change of a node after which their answers may differ."""
        reads = NodeChange(0)
        for plugin in self._plugins:
            if isinstance(plugin, FilterNodesPlugin):
                reads |= plugin.reads
        return reads

    def allocating(self, pod: PodInfo) -> Sequence[ReservationFilterPlugin]:
        """Return the plugins that allocate something for pods like this one."""
        return [plugin for plugin in self._plugins if plugin.allocates_for(pod)]

    def refusal(self, plugins: Sequence[ReservationFilterPlugin], on_node: MatchedOnNode, reservation: str | None) -> Status | None:
        """Return why Reserve would fail if the pod was given the reservation, as far as these plugins go; None: it would not.

        None as the reservation: it is given none.
        """
        state, pod, node_name, matched = on_node
        others = [other for other in matched if other != reservation]
        with ExitStack() as lending:
            for plugin in plugins:
                lending.enter_context(plugin.lending(reservation, others))
            question = state.clone()
            question.write(TRIED, reservation or "")
            for plugin in plugins:
                status = plugin.filter_reservation(question, pod, node_name, reservation)
                if status is not None:
                    return status
        return None

    def sources(self, plugins: Sequence[ReservationFilterPlugin], state: CycleState, pod: PodInfo) -> list[ReservedSource] | None:
        """Return what kernels ask instead of these plugins; None: one of them can only be asked about one reservation after the other."""
        found = [plugin.reserved_source(state, pod) for plugin in plugins]
        known = [source for source in found if source is not None]
        return known if len(known) == len(found) else None

    def explain(self, plugins: Sequence[ReservationFilterPlugin], state: CycleState, pod: PodInfo, answer: int) -> Status:
        """Return the refusal that an answer of `ReservationTable.unsuited` stands for."""
        return plugins[answer >> SOURCE_SHIFT].explain_reserved(state, pod, answer & SOURCE_MASK)

    def scores(self, plugins: Sequence[ReservationFilterPlugin], on_node: MatchedOnNode, reservations: Sequence[str]) -> Mapping[str, int]:
        """Return the sum of the plugins' scores of these reservations, the best of a plugin being 100."""
        state, pod, node_name, matched = on_node
        total = dict.fromkeys(reservations, 0)
        for plugin in plugins:
            raw: dict[str, int] = {}
            for reservation in reservations:
                with plugin.lending(reservation, [other for other in matched if other != reservation]):
                    raw[reservation] = plugin.score_reservation(state, pod, node_name, reservation)
            most = max(raw.values(), default=0)
            for reservation, score in raw.items():
                total[reservation] += MAX_RESERVATION_SCORE * score // most if most else 0
        return total

    def events(self) -> list[EventHint]:
        """Return what helps pods for which no reservation suits: what the plugins have registered, for pods that they allocate for.

        But for pods that come: what reservations hold stays.
        """
        return [
            EventHint(known.event, _for_pods_of(plugin))
            for plugin in self._plugins
            for known in hints_for([plugin])[plugin.name]
            if not known.event.matches(ASSIGNED_POD_ADD)
        ]


class ReservationNominatorPlugin(Plugin):
    """Nominates one of the reservations of a node for a pod (Koordinator's role ReservationNominator)."""

    @abstractmethod
    def use_reservation_filters(self, filters: ReservationFilters) -> None:
        """Take note of what says which reservations suit a pod. Called once all plugins of the profile are made, before `reads` is read."""


def _for_pods_of(plugin: ReservationFilterPlugin) -> HintFn:
    """Return a hint that is for all pods of the plugin: its own hints see what strangers see."""

    def after(pod: PodInfo, _old: Object | None, _new: Object | None) -> QueueingHint:
        return QueueingHint.QUEUE if plugin.allocates_for(pod) else QueueingHint.SKIP

    return after
