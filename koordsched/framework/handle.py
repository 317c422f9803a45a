"""Handle: the scheduler as a plugin sees it, given to it when it is made, with the extenders as preemption sees them.

`scheduler/plugin_handle.py` implements the handle, `scheduler/extenders` the extenders, which preemption asks before it decides
(framework.md §7.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from koordsched.api.podinfo import PodInfo

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.cache.nodes import NodeInfo
    from koordsched.clock import Clock
    from koordsched.cluster.event_series import EventText
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.object_store import Handler
    from koordsched.cluster.port import Cluster
    from koordsched.config.features import FeatureGates
    from koordsched.config.flag_table import Flags
    from koordsched.framework.plugin_metrics import PluginMetrics
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.framework.transformers import Transformer
    from koordsched.framework.waiting import WaitingPods
    from koordsched.queue.events import AdmissionKey, ClusterEvent
    from koordsched.queue.nominator import Nominator


EXTENDER = "Extender"
"""The name under which extenders refuse pods: no plugin, but every event may help a pod that it refused."""


class Victims(msgspec.Struct, frozen=True):
    """The pods of one node that would have to go, the most important first, and how many of them disruption budgets protect."""

    pods: tuple[PodInfo, ...]
    pdb_violations: int = 0


class ExtenderError(Exception):
    """An extender failed, or its answer cannot be read; the text names its URL and verb."""


class SettingsError(Exception):
    """An extender or a plugin cannot work as it is configured or installed. The text is one line that names what to look at."""


class PreemptionExtenders(Protocol):
    """The extenders, as far as preemption knows them."""

    def wants_preemption(self, pod: PodInfo) -> bool:
        """Answer whether any extender has a say in the preemption for this pod; if not, there is nothing to await."""

    async def preempt(self, pod: PodInfo, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Return the candidates (victims by node name) that the extenders leave, with the victims they want; none: no candidate is left.

        ExtenderError when one that is not ignorable failed. Victims may have left their nodes meanwhile, but not the returned ones.
        """


class PreemptionMetrics(Protocol):
    """Where preemption counts (framework.md §12)."""

    def attempted(self) -> None:
        """Count preemption_attempts_total."""

    def evicting(self, victims: int) -> None:
        """Observe preemption_victims."""

    def evicted(self, result: str, seconds: float) -> None:
        """Count a task that evicted pods; result is success or error."""


class Handle(Protocol):
    """What a plugin may read of the scheduler and have done by it, beyond the one pod that it is asked about.

    The same for all plugins of all profiles. What stands after `informer` is for plugins of a scheduler that runs, not while they are made:
    `nominator` and what changes the queue raise LookupError then.
    """

    @property
    def cluster(self) -> Cluster: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> random.Random: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def columns(self) -> Columns: ...
    @property
    def waiting_pods(self) -> WaitingPods: ...
    @property
    def extenders(self) -> PreemptionExtenders | None: ...
    @property
    def flags(self) -> Flags: ...
    @property
    def gates(self) -> FeatureGates:
        """The feature gates, which are one of the flags."""

    @property
    def metrics(self) -> PluginMetrics:
        """Where a plugin registers metrics of its own, while it is made."""

    def informer(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        """Return the informer of a kind of object: a store to read and changes to follow. To be asked for while the plugin is made only:
        nothing is scheduled before its first list has been handled. Pods and nodes are in the cache; a plugin that needs more of them adds
        a handler there.

        field_selector: the objects that the plugin needs, where a cluster has many others of the kind (ConfigMaps). It may see others all
        the same, if another plugin needs them.
        """

    def follow_reserve_pods(self, handler: Handler[Pod]) -> None:
        """Report the pods that stand for Reservations and every change of them, as those of pods are, before the scheduler takes note.

        None is reported where no profile binds Reservations. To be called while the plugin is made only.
        """

    def add_transformer(self, transformer: Transformer) -> None:
        """Change objects before anything sees them, after all transformers that are listed already; one of the same name is left out. While
        the plugin is made only.
        """

    @property
    def nominator(self) -> Nominator:
        """The nominations, to read and to follow."""

    def has_backlog(self) -> bool:
        """Answer whether pods wait to be tried, or placements for their turn to be bound: what only reports is written after these."""

    @property
    def preemption_metrics(self) -> PreemptionMetrics: ...

    def volume_stage_failed(self, operation: str) -> None:
        """Count scheduler_volume_scheduling_stage_error_total; operation is predicate, assume or bind."""

    def malformed_object(self, kind: str) -> None:
        """Count koord_scheduler_malformed_objects_total: an object of that kind came that cannot be read, or only in part."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods that wait to the active queue, whether or not they back off."""

    def announce(self, event: ClusterEvent, key: AdmissionKey | None = None, *, regarding: Object | None = None) -> None:
        """Say that the plugin's state has changed, so that it answers otherwise already for pods that wait or are being tried.

        key: for pods under this admission key: they are tried again one by one as far as the plugin lets them pass. Pods under other keys
        cost nothing. None: for pods that were refused by plugins that registered the event; hints get the object that it regards as the old
        one. State beside the node table has an event of its own kind, so that it concerns no pod that waits for something else.
        """

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the waiting pod for the node, here and on the cluster; "" withdraws its nomination."""

    def report_gated(self, pod: PodInfo, message: str) -> None:
        """Let the condition of a pod that PreEnqueue holds back say so: PodScheduled=False with the reason SchedulingGated."""

    def simulation(self, pod: PodInfo) -> NodeSimulation:
        """Return what answers how it would be for this pod if other pods were on nodes. LookupError when no profile is responsible."""

    def fits(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        """Answer whether the pod could go to the node with these pods more and those less; True if that cannot be found out."""

    def event(self, profile: str, regarding: Pod, text: EventText, related: Pod) -> None:
        """Record an event in the name of a profile."""

    def event_on(self, regarding: Object, text: EventText) -> None:
        """Record an event about an object for which no profile is responsible."""

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run this in the background. It must not raise; it is cancelled when the scheduler stops."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call this after so many seconds unless the scheduler has stopped by then."""
