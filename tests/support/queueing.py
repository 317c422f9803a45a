"""A scheduling queue to test with: a clock that is set by hand, metrics that are remembered, and a profile made of plain functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from koordsched.cache.cache import Cache
from koordsched.queue.hints import ALWAYS_QUEUE
from koordsched.queue.nominator import Nominator
from koordsched.queue.profile import (
    FEASIBLE,
    INFEASIBLE,
    NEEDS_PREEMPTION,
    PreEnqueueRefusal,
    ProbeOutcome,
    ProbeResult,
    QueueProfile,
    QueueSettings,
)
from koordsched.queue.scheduling_queue import SchedulingQueue

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.events import EventHint
    from koordsched.queue.hints import Rejectors
    from koordsched.queue.queued_pod import QueuedPodInfo
    from support.builders import PodBuilder

PROFILE = "default-scheduler"


class HandClock:
    """Time that stands still until it is set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now
        self.readings = 1e6

    def now(self) -> float:
        return self.time

    def perf(self) -> float:
        """Return one second more each time, far from 0: a sum of two readings is no duration."""
        self.readings += 1.0
        return self.readings

    def uptime(self) -> float:
        return self.time


class RememberedMetrics:
    """All counts and gauges, by their labels."""

    def __init__(self) -> None:
        self.incoming_pods: Counter[tuple[str, str]] = Counter()
        self.hints: Counter[tuple[str, str, str]] = Counter()
        self.unschedulable: Counter[str] = Counter()
        self.probes_skipped = 0
        self.retries_skipped = 0

    def incoming(self, queue: str, event: str) -> None:
        self.incoming_pods[queue, event] += 1

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        assert seconds == 1.0
        self.hints[plugin, event, hint] += 1

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        assert profile == PROFILE
        self.unschedulable[plugin] += delta

    def probe_skipped(self, profile: str) -> None:
        assert profile == PROFILE
        self.probes_skipped += 1

    def retry_skipped(self, profile: str) -> None:
        assert profile == PROFILE
        self.retries_skipped += 1


class FakeQueueAdmission:
    """Admission plugins that let a number of pods pass under each key; a pod waits under its label of the plugin's name."""

    def __init__(self, *plugins: str) -> None:
        self.plugins = frozenset(plugins)
        self.room: Counter[tuple[str, Hashable]] = Counter()  # by plugin and key: how many pods may pass
        self.may_preempt = False
        self.probed: list[str] = []

    def key(self, plugin: str, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.labels.get(plugin)

    def signature(self, plugin: str, pod: PodInfo) -> Hashable:
        return pod.pod.metadata.labels.get("kind")

    def probe(self, plugin: str, pod: PodInfo) -> ProbeOutcome:
        self.probed.append(pod.key)
        if self.room[plugin, self.key(plugin, pod)] > 0:
            return FEASIBLE
        return NEEDS_PREEMPTION if self.may_preempt else INFEASIBLE


class FakeProfile:
    """The functions of a QueueProfile, each with a knob, and the pods they were asked about."""

    def __init__(self, hints: Mapping[str, Sequence[EventHint]] | None = None, rejectors: Rejectors | None = None) -> None:
        self.hints = dict(hints or {"Fit": ALWAYS_QUEUE})
        self.gates: dict[str, str] = {}  # pod key -> plugin that gates it
        self.gating_fails = False  # such a plugin has failed rather than refused
        self.passing = True  # what a probe finds: a node passes
        self.may_preempt = False  # what it finds where none does: preemption may help
        self.rejectors = rejectors  # and the plugins that refuse then
        self.unchanged = False
        self.probed: list[str] = []
        self.asked_for_nodes: list[str] = []  # the pods probed without preemption
        self.preferred: list[str] = []  # the plugin to ask first, as handed to PreEnqueue
        self.on_pre_enqueue: Callable[[PodInfo], None] = lambda _: None  # what its plugins do meanwhile
        self.admission: FakeQueueAdmission | None = None

    def build(self) -> QueueProfile:
        return QueueProfile(
            sort_key=by_priority,
            pre_enqueue=self._pre_enqueue,
            hints=self.hints,
            probe=self._probe,
            probe_without_preemption=self._probe_without_preemption,
            unchanged_since_failure=lambda _: self.unchanged,
            admission=self.admission,
        )

    def _pre_enqueue(self, pod: PodInfo, preferred: str) -> PreEnqueueRefusal | None:
        self.preferred.append(preferred)
        self.on_pre_enqueue(pod)
        plugin = self.gates.get(pod.key)
        return (plugin, f"gated by {plugin}", self.gating_fails) if plugin else None

    def _probe_without_preemption(self, pod: PodInfo) -> ProbeResult:
        self.asked_for_nodes.append(pod.key)
        return (FEASIBLE, None) if self.passing else (INFEASIBLE, self.rejectors)

    def _probe(self, pod: PodInfo) -> ProbeResult:
        self.probed.append(pod.key)
        if self.passing:
            return FEASIBLE, None
        return NEEDS_PREEMPTION if self.may_preempt else INFEASIBLE, self.rejectors


class Bench:
    """A queue with its fakes, and short ways to bring pods into a state."""

    def __init__(
        self,
        hints: Mapping[str, Sequence[EventHint]] | None = None,
        *,
        settings: QueueSettings | None = None,
        rejectors: Rejectors | None = None,
        admission: FakeQueueAdmission | None = None,
    ) -> None:
        self.clock = HandClock()
        self.metrics = RememberedMetrics()
        self.profile = FakeProfile(hints, rejectors)
        self.profile.admission = admission
        profiles = {PROFILE: self.profile.build()}
        self.queue = SchedulingQueue(self.clock, profiles, settings or QueueSettings(), self.metrics, Nominator(Cache()))

    def pop(self) -> QueuedPodInfo:
        """Pop a pod that must be there."""
        info = self.queue.pop()
        assert info is not None
        return info

    def popped(self) -> list[str]:
        """Pop whatever is there and return the names."""
        names = []
        while (info := self.queue.pop()) is not None:
            names.append(name_of(info.key))
        return names

    def fail(self, *plugins: str, info: QueuedPodInfo | None = None, in_filter: bool = True, pending: Sequence[str] = ()) -> QueuedPodInfo:
        """Let the next pod (or this one) be refused by these plugins."""
        info = info or self.pop()
        info.unschedulable_plugins = set(plugins)
        info.pending_plugins = set(pending)
        info.rejected_in_filter = in_filter
        self.queue.add_unschedulable_if_not_present(info)
        self.queue.check_invariants()
        return info

    def refuse(self, plugin: str, info: QueuedPodInfo | None = None, *, pending: bool = False) -> QueuedPodInfo:
        """Let the next pod (or this one) be refused by this admission plugin."""
        info = info or self.pop()
        info.admission_plugin = plugin
        return self.fail(*(() if pending else (plugin,)), info=info, in_filter=False, pending=(plugin,) if pending else ())

    def refuse_all(self, plugin: str, *, pending: bool = False) -> None:
        """Let every poppable pod be refused by this admission plugin once."""
        for info in [self.pop() for _ in range(self.queue.sizes().active)]:
            self.refuse(plugin, info, pending=pending)

    def fail_all(self, *plugins: str, in_filter: bool = True) -> None:
        """Let every poppable pod be refused once."""
        for info in [self.pop() for _ in range(self.queue.sizes().active)]:
            self.fail(*plugins, info=info, in_filter=in_filter)

    def add(self, *builders: PodBuilder, shape: Hashable | None = None) -> list[PodInfo]:
        """Add pending pods of one shape."""
        pods = [pod_of(builder, shape) for builder in builders]
        for pod in pods:
            self.queue.add(pod)
        return pods

    def wait_out_backoff(self) -> None:
        """Let every backoff pass without flushing anything."""
        self.clock.time += 60

    def places(self) -> dict[str, str]:
        """Return where each pod waits: name -> active, backoff, unschedulable or gated."""
        return {name_of(info.key): info.place.value for info in self.queue.pending()}


def by_priority(info: QueuedPodInfo) -> tuple[float, ...]:
    """Sort as PrioritySort does."""
    return (-info.pod_info.priority, info.timestamp)


def pod_of(builder: PodBuilder, shape: Hashable | None = None) -> PodInfo:
    info = builder.info()
    info.shape = shape
    return info


def name_of(key: str) -> str:
    return key.partition("/")[2]
