"""Parts: what the pieces of one scheduler share, and what plugins see of it (`framework.handle.Handle`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.cache.cache import Cache
from koordsched.framework.waiting import WaitingPods
from koordsched.scheduler.informers import Informers

if TYPE_CHECKING:
    import random

    from koordsched.api.kinds import Kind
    from koordsched.cache.columns import Columns
    from koordsched.clock import Clock
    from koordsched.cluster.event_recorder import EventRecorder
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.port import Cluster
    from koordsched.config.flags import Flags
    from koordsched.framework.extenders import PreemptionExtenders
    from koordsched.framework.services import Services
    from koordsched.queue.scheduling_queue import SchedulingQueue
    from koordsched.scheduler.metrics import Metrics
    from koordsched.scheduler.status_writer import StatusWriter

MAX_BINDS_IN_FLIGHT = 100


class Dependencies(msgspec.Struct, frozen=True):
    """What a scheduler is given: the world it lives in and the flags it was started with.

    unheard: reasons of events that nobody will read, so that they need not be written (a simulation looks at conditions).
    measured: whether anybody can ask how long plugins and extension points take.
    cache_check_interval: seconds between two turns of the standing check; 0: there is none.
    """

    cluster: Cluster
    clock: Clock
    random: random.Random
    flags: Flags
    unheard: frozenset[str] = frozenset()
    measured: bool = True
    cache_check_interval: float = 0.0


class Surroundings:
    """The Handle that plugins get."""

    def __init__(self, dependencies: Dependencies) -> None:
        self.cluster = dependencies.cluster
        self.clock = dependencies.clock
        self.random = dependencies.random
        self.cache = Cache()
        self.waiting_pods = WaitingPods()
        self.informers = Informers(dependencies.cluster, dependencies.clock, dependencies.random)
        self.extenders: PreemptionExtenders | None = None  # set before plugins are made
        self.gates = dependencies.flags.gates
        self._services: Services | None = None

    @property
    def columns(self) -> Columns:
        return self.cache.columns

    @property
    def services(self) -> Services:
        if self._services is None:
            raise LookupError("a plugin asked for services before the scheduler was made")
        return self._services

    @services.setter
    def services(self, services: Services) -> None:
        self._services = services

    def informer(self, kind: Kind) -> Informer[Any]:
        return self.informers.of(kind)


class Parts:
    """The pieces of one scheduler."""

    def __init__(self, surroundings: Surroundings, metrics: Metrics, queue: SchedulingQueue, status_writer: StatusWriter) -> None:
        self.clock = surroundings.clock
        self.random = surroundings.random
        self.cluster = surroundings.cluster
        self.cache = surroundings.cache
        self.waiting_pods = surroundings.waiting_pods
        self.metrics = metrics
        self.queue = queue
        self.status_writer = status_writer
        self.recorders: dict[str, EventRecorder] = {}  # by scheduler name
        self.bind_slots = asyncio.Semaphore(MAX_BINDS_IN_FLIGHT)

    def events(self, profile: str) -> EventRecorder:
        """Return the recorder that writes in the name of this profile."""
        return self.recorders[profile]
