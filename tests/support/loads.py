"""NodeMetrics for tests, and a plugin bench on which metrics, nodes and pods come, change and go as watches report them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, cast

from koordsched.api.core import PodCondition
from koordsched.api.kinds import NODE_METRIC
from koordsched.api.validation import decode
from koordsched.clock import rfc3339
from koordsched.config.features import FeatureGates
from koordsched.config.koordinator_args import LoadAwareSchedulingAggregatedArgs, LoadAwareSchedulingArgs, _complete_load_aware
from koordsched.plugins.loadaware.plugin import LoadAwareScheduling, load_state
from koordsched.plugins.loadaware.state import LoadState
from support.builders import NodeBuilder, PodBuilder
from support.plugins import WatchingBench
from support.queueing import HandClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.api.core import Quantity
    from koordsched.api.koordinator.measurements import NodeMetric

VERSIONS = count(1)
START = 1_800_000_000.0
"""The time at which a bench begins, seconds since the epoch."""


def usage(cpu: Quantity = "0", memory: Quantity = "0", **others: Quantity) -> dict[str, Any]:
    """Write amounts as a NodeMetric does; "_" in the name of another resource stands for "/"."""
    return {"resources": {"cpu": cpu, "memory": memory, **{name.replace("_", "/"): amount for name, amount in others.items()}}}


def pod_usage(key: str, cpu: Quantity = "0", memory: Quantity = "0", *, priority: str = "koord-prod", **others: Quantity) -> dict[str, Any]:
    """Write what a metric says of a pod; key: namespace/name, or the name of one in `default`."""
    namespace, _, name = key.rpartition("/")
    return {"namespace": namespace or "default", "name": name, "priority": priority, "podUsage": usage(cpu, memory, **others)}


def metric(
    name: str,
    cpu: Quantity = "0",
    memory: Quantity = "0",
    *,
    at: float | None = START,
    pods: Sequence[dict[str, Any]] = (),
    aggregated: Mapping[tuple[str, str], dict[str, Any]] | None = None,
    system: dict[str, Any] | None = None,
    measured: bool = True,
    interval: int | None = None,
    **others: Quantity,
) -> NodeMetric:
    """Make the NodeMetric of a node. at: status.updateTime. aggregated: usage by statistic and duration."""
    status: dict[str, Any] = {"podsMetric": list(pods)}
    if at is not None:
        status["updateTime"] = rfc3339(at)
    if measured:
        durations: dict[str, dict[str, Any]] = {}
        for (kind, duration), amounts in (aggregated or {}).items():
            durations.setdefault(duration, {})[kind] = amounts
        status["nodeMetric"] = {
            "nodeUsage": usage(cpu, memory, **others),
            "aggregatedNodeUsages": [{"duration": duration, "usage": kinds} for duration, kinds in durations.items()],
            "systemUsage": system or {},
        }
    spec = {} if interval is None else {"metricCollectPolicy": {"reportIntervalSeconds": interval}}
    metadata = {"name": name, "uid": f"uid-metric-{name}", "resourceVersion": str(next(VERSIONS))}
    manifest = {"apiVersion": NODE_METRIC.api_version, "kind": NODE_METRIC.kind, "metadata": metadata, "spec": spec, "status": status}
    return cast("NodeMetric", decode(NODE_METRIC, manifest))


def scheduled(at: float) -> PodCondition:
    """Make the condition that a pod has since it was bound."""
    return PodCondition(type="PodScheduled", status="True", last_transition_time=rfc3339(at))


def load_args(*, aggregated: Mapping[str, Any] | None = None, **fields: Any) -> LoadAwareSchedulingArgs:
    """Make arguments, with defaults filled in as a configuration's are."""
    own = None if aggregated is None else LoadAwareSchedulingAggregatedArgs(**aggregated)
    return _complete_load_aware(LoadAwareSchedulingArgs(aggregated=own, **fields), FeatureGates())


class LoadBench(WatchingBench):
    """A plugin bench with NodeMetrics. Timers are called when `pass_time` comes to them."""

    def __init__(self, *nodes: NodeBuilder) -> None:
        super().__init__()
        self.hand = HandClock(START)
        self.clock = self.hand
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self._nodes = nodes

    def plugin(self, args: LoadAwareSchedulingArgs | None = None, **fields: Any) -> LoadAwareScheduling:
        """Make a plugin, as for one profile; the nodes come after the first."""
        made = LoadAwareScheduling(args or load_args(**fields), self)
        nodes, self._nodes = self._nodes, ()
        for builder in nodes:
            self.set(builder)
        return made

    @property
    def state(self) -> LoadState:
        return load_state(self)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.clock.now() + seconds, call))

    def pass_time(self, seconds: float) -> None:
        """Let this much time pass."""
        until = self.clock.now() + seconds
        while self.timers and min(when for when, _ in self.timers) <= until:
            due = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove(due)
            self.hand.time = max(self.hand.time, due[0])
            due[1]()
        self.hand.time = until

    def report(self, made: NodeMetric) -> None:
        """Let the metric come, or replace the one of its name."""
        self.came(NODE_METRIC, made)

    def unreport(self, name: str) -> None:
        """Let the metric be deleted."""
        self.went(NODE_METRIC, name)

    def assume(self, builder: PodBuilder, node_name: str) -> None:
        """Let the pod be assumed on the node."""
        self.cache.assume_pod(builder.info(), node_name)
