"""What the parts of one scheduler share: what it was given, its informers, and the context that each part holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cache.cache import Cache
from koordsched.cluster.event_series import EventText
from koordsched.cluster.informer import Informer
from koordsched.cluster.object_store import object_key
from koordsched.framework.transformers import Transformers
from koordsched.framework.waiting import WaitingPods
from koordsched.log import get_logger
from koordsched.metrics import MetricRules
from koordsched.scheduler.compatibility import other_versions
from koordsched.scheduler.late_lists import LateLists
from koordsched.scheduler.metrics import Metrics
from koordsched.scheduler.monitor import SchedulingMonitor
from koordsched.scheduler.status_writer import StatusWriter
from koordsched.scheduler.transformers import standard_transformers
from koordsched.semaphore import Semaphore

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterator, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.clock import Clock
    from koordsched.cluster.event_recorder import EventRecorder
    from koordsched.cluster.object_store import Handler
    from koordsched.cluster.port import Cluster
    from koordsched.config.flags import Flags
    from koordsched.framework.profile import Profile
    from koordsched.framework.tracing import AttemptTracing
    from koordsched.framework.transformers import Transformer
    from koordsched.queue.scheduling_queue import SchedulingQueue

log = get_logger(__name__)

MAX_BINDS_IN_FLIGHT = 64
"""As many as there are connections for them (`ConnectionSettings.connections`): any more would wait a second time, for one of these."""
MAX_MALFORMED = 4096
"""Malformed objects of which it is remembered what was reported."""
MALFORMED_EVENT = "InvalidAnnotation"
NOTHING_INSTEAD: Mapping[Kind, Kind | None] = {}


class Dependencies(msgspec.Struct, frozen=True):
    """What a scheduler is given: the cluster, time, chance, and the flags it was started with.

    suppressed: reasons of events that are not read, so that they need not be written (a simulation looks at conditions).
    measured: whether the durations of plugins and extension points are read.
    cache_check_interval: seconds between two turns of the standing check; 0: there is none.
    tracing: None where no attempt is traced.
    """

    cluster: Cluster
    clock: Clock
    random: random.Random
    flags: Flags
    suppressed: frozenset[str] = frozenset()
    measured: bool = True
    cache_check_interval: float = 0.0
    tracing: AttemptTracing | None = None


class Informers:
    """One informer a kind, made when it is first asked for. Iterating gives them in the order in which they were made."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: random.Random,
        transformers: Transformers | None = None,
        instead: Mapping[Kind, Kind | None] = NOTHING_INSTEAD,
    ) -> None:
        """instead: kinds of which another version is watched, or none of which is watched at all."""
        self._instead = instead
        self.transformers = transformers or Transformers()
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._by_kind: dict[Kind, Informer[Any]] = {}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._by_kind.values())

    def of(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        """Return the kind's informer, making it on first use. To be called with a selector before any informer runs.

        The first caller's field selector holds for all who name none; of two that differ neither does: all objects are watched.
        """
        found = self._by_kind.get(kind)
        if found is None:
            version = self._instead.get(kind, kind)
            found = self._by_kind[kind] = Informer(self._cluster, version or kind, self._clock, self._random, field_selector)
            found.watched = version is not None
            found.transform_by(self.transformers.of(kind))
        elif field_selector not in {"", found.field_selector}:
            found.select_all()
        return found

    def add_transformer(self, transformer: Transformer) -> None:
        """Change objects of a kind in one more way. To be called before any informer runs."""
        self.transformers.add(transformer)
        if (informer := self._by_kind.get(transformer.kind)) is not None:
            informer.transform_by(self.transformers.of(transformer.kind))

    async def synced(self, besides: Collection[Informer[Any]] = ()) -> None:
        """Wait until the first list of every kind has been handled, but for those of these informers."""
        await asyncio.gather(*(informer.synced.wait() for informer in self if informer not in besides))

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds, by plural and group, whose first list has not been handled yet."""
        return [informer.kind.plural_group for informer in self if not informer.synced.is_set()]


class SchedulerContext:
    """What the parts of one scheduler share. The profiles are made after it, since their plugins get a handle to it, and the queue after
    the profiles; `Scheduler` sets both before anything runs.
    """

    queue: SchedulingQueue

    def __init__(self, dependencies: Dependencies) -> None:
        self.clock = dependencies.clock
        self.random = dependencies.random
        self.cluster = dependencies.cluster
        self.cache = Cache()
        self.waiting_pods = WaitingPods()
        transformers = standard_transformers(dependencies.flags.gates, self.report_malformed)
        instead = other_versions(dependencies.flags.gates)
        self.informers = Informers(dependencies.cluster, dependencies.clock, dependencies.random, transformers, instead)
        self.metrics = Metrics(MetricRules.of(dependencies.flags.disabled_metrics, dependencies.flags.allow_metric_labels))
        self.monitor = SchedulingMonitor(self.clock, dependencies.flags, self.waiting_pods, self.metrics.scheduling_timeout.increment)
        self.status_writer = StatusWriter(dependencies.cluster, dependencies.clock, dependencies.random)
        self.reserve_pods: dict[str, Pod] = {}  # by key: of the Reservations that wait for a node or have one
        self.reserve_pod_handlers: list[Handler[Pod]] = []  # of plugins, called before the scheduler's own
        self.profiles: dict[str, Profile] = {}  # by scheduler name, as are
        self.recorders: dict[str, EventRecorder] = {}
        self.late_lists = LateLists()
        self.bind_slots = Semaphore(MAX_BINDS_IN_FLIGHT)
        self._malformed: dict[str, str] = {}  # by uid: what was last reported of an object

    @property
    def has_backlog(self) -> bool:
        """Whether pods wait to be tried, or placements for their turn to be bound."""
        return self.queue.sizes().active > 0 or self.bind_slots.locked()

    def events(self, profile: str) -> EventRecorder:
        """Return the recorder that writes in the name of this profile."""
        return self.recorders[profile]

    def report_malformed(self, obj: Object, problem: str) -> None:
        """Say in the log and in an event what is wrong with an object, once as long as it stays the same."""
        uid = obj.metadata.uid
        if self._malformed.get(uid) == problem:
            return
        if len(self._malformed) >= MAX_MALFORMED:
            self._malformed.clear()
        self._malformed[uid] = problem
        log.warning("an object says something that cannot be read", kind=obj.kind, object=object_key(obj), problem=problem)
        self.metrics.framework.malformed_objects.increment(obj.kind)
        text = EventText("Warning", MALFORMED_EVENT, "Scheduling", problem)
        self.events(next(iter(self.profiles))).event(obj, text)
