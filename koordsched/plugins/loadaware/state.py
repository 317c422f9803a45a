"""The load of every node, kept up to date with NodeMetrics, nodes and pods (frameworkext.md §5.2): one truth for all profiles.

A pod counts on its node from its assumption on, as the cache counts it, until it leaves; what a simulation adds or takes away changes
nothing here, since no victim makes a node less used. A restart reads pods and metrics again; when a pod was scheduled stands in its
PodScheduled condition. What profiles make of it by their own factors and thresholds is in one `NodeLoads` for each different arguments.

Metrics expire by a heap of times: one timer is set, for the first of them, and no clock is read for a node. A change marks its node's row
with a kind of its own, so that it concerns no pod that asks for something else.

`check` compares the columns with the objects, and mends what differs.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from koordsched.api.kinds import NODE, NODE_METRIC, POD
from koordsched.api.koordinator.loads import RAW_ALLOCATABLE, RESERVE_POD, USAGE_THRESHOLDS, raw_allocatable
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.plugin_state import PodFollower
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import Arrival
from koordsched.config.koordinator_args import LoadAwareSchedulingArgs
from koordsched.framework.object_problems import ProblemReporter
from koordsched.log import get_logger
from koordsched.plugins.loadaware.estimation import true_since
from koordsched.plugins.loadaware.measurements import MetricProblems, report_interval, update_time
from koordsched.plugins.loadaware.node_loads import NEVER, Measurement, NodeLoads
from koordsched.plugins.loadaware.thresholds import threshold_problems
from koordsched.queue.events import ActionType, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched._core.load import PodLoad
    from koordsched.api.core import Node, ResourceList
    from koordsched.api.koordinator.measurements import NodeMetric
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle
    from koordsched.plugins.loadaware.thresholds import Aggregation

log = get_logger(__name__)

INVALID_METRIC_EVENT = "InvalidNodeLoad"
LOOK_SECONDS = 10.0
"""How long at most until expiries are looked at: a clock that is set forward expires metrics at once."""
UNKNOWN_NODE_SECONDS = 60.0
"""How long a NodeMetric may be there without its node before that is said."""
MAX_CLOCK_SKEW = 60.0
"""Seconds that the clock of a node may differ before that is said: as long as between two reports."""
NOT_DUE = float("inf")
CLOCK_IS_WRONG = "so the clock of the node or of the scheduler is wrong, by seconds"
METRIC_EXPIRED = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, NODE_METRIC.plural_group)


class NodeEntry:
    """What is known of a node."""

    __slots__ = ("aggregations", "due", "index", "measurement", "name", "pods")

    def __init__(self, name: str) -> None:
        self.name = name
        self.index = 0  # in the columns; 0: there is no such node, so that it has none
        self.measurement: Measurement | None = None
        self.aggregations: tuple[Aggregation | None, ...] = ()  # of each NodeLoads: which statistic of use its thresholds are of
        self.due = NOT_DUE  # the time in the heap of expiries that stands for the metric
        self.pods: dict[str, tuple[PodLoad, ...]] = {}  # by uid: the pod under each NodeLoads


class LoadState(PodFollower):
    """The loads of all nodes."""

    hides = False  # loads stay what they are in simulations, and so in views of owners of credits

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._cache = handle.cache
        self._table = handle.cache.table
        self._names = handle.columns.name_column.values  # held for every node that is there
        self._index_attribute = handle.columns.name_column.attribute
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._metrics: Mapping[str, NodeMetric] = handle.informer(NODE_METRIC).store
        self.change = handle.cache.change_kinds.register("LoadAwareScheduling")  # with which the row is marked
        self._change = int(self.change)
        self._entries: dict[str, NodeEntry] = {}
        self.loads: list[NodeLoads] = []
        self._expiries: list[tuple[float, str]] = []  # heap of (time, node), one for each that is due some time
        self._looks_at = NOT_DUE  # the time for which the timer is set
        self._without_node: dict[str, None] = {}  # metrics whose node is not there, until that is said
        self._asked_for_nodes = False
        self.expired = 0  # metrics that did
        self._problems = ProblemReporter(handle, INVALID_METRIC_EVENT, "an object about the load of a node is not right")
        handle.informer(NODE).add_handler(_Nodes(self))
        metrics = handle.informer(NODE_METRIC)
        metrics.add_handler(_Metrics(self))
        metrics.take_over_after(handle.informer(POD))  # a metric counts all pods of its node at once
        handle.cache.follow(self)

    # Profiles

    def loads_under(self, args: LoadAwareSchedulingArgs) -> NodeLoads:
        """Return the columns under these arguments."""
        found = next((loads for loads in self.loads if loads.args == args), None)
        if found is None:
            found = NodeLoads(args, self._table, self._index_attribute)
            self.loads.append(found)
            for name, entry in self._entries.items():
                self._rebuild(entry, self._nodes.get(name))
        return found

    # Reading

    @property
    def entries(self) -> Mapping[str, NodeEntry]:
        """Return the nodes of which something is known."""
        return self._entries

    def count_metrics(self) -> Mapping[str, float]:
        """Return how many metrics are in which state, under the first profile's arguments."""
        found = {"fresh": 0.0, "expired": 0.0, "unmeasured": 0.0}
        now, loads = self._clock.now(), self.loads[0]
        for entry in self._entries.values():
            if entry.measurement is not None:
                expired = loads.is_expired(entry.measurement, now)
                measured = entry.measurement.metric.status.node_metric is not None
                found["expired" if expired else "fresh" if measured else "unmeasured"] += 1
        return found

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating or stands_for_reservation(pod):
            return
        entry = self._entry(self._name(row, pod))
        counted = self._loads_of(pod)
        entry.pods[pod.uid] = counted
        measurement = entry.measurement
        if measurement is not None and entry.index:
            for loads, load in zip(self.loads, counted, strict=True):
                loads.add_pod(entry.index, measurement, load)
            self._mark(entry)
        if not pod.pod.spec.node_name:  # where it is bound already this was said before
            self._report_pod(pod)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            return
        entry = self._entries.get(self._name(row, pod))
        counted = None if entry is None else entry.pods.pop(pod.uid, None)
        if entry is None or counted is None:
            return
        measurement = entry.measurement
        if measurement is not None and entry.index:
            for loads, load in zip(self.loads, counted, strict=True):
                loads.remove_pod(entry.index, measurement, load)
            self._mark(entry)
        self._drop_unknown(entry)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Loads are kept by the names of nodes."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        before, after = old.pod, new.pod
        same = before.status.conditions == after.status.conditions and before.metadata.annotations == after.metadata.annotations
        if not same or before.metadata.labels != after.metadata.labels or before.spec != after.spec:
            self.pod_removed(old, row)
            self.pod_added(new, row)

    def _loads_of(self, pod: PodInfo) -> tuple[PodLoad, ...]:
        scheduled = true_since(pod.pod, "PodScheduled")
        timestamp = self._clock.now() if scheduled is None else scheduled
        return tuple([loads.estimator.load(pod, timestamp) for loads in self.loads])

    def _report_pod(self, pod: PodInfo) -> None:
        """Say what is wrong with a pod's annotations."""
        for loads in self.loads:
            for problem in loads.estimator.problems(pod.pod):
                log.warning("what a pod says of its load cannot be meant", pod=pod.key, problem=problem)
                self._handle.event_on(pod.pod, EventText("Warning", INVALID_METRIC_EVENT, "Scheduling", problem))

    def _name(self, row: int, pod: PodInfo) -> str:
        info = self._cache.infos[row]
        return pod.pod.spec.node_name if info is None else info.name  # the row of unknown nodes is none's own

    # Nodes

    def set_node(self, node: Node) -> None:
        """Take over a node that came or changed."""
        name = node.metadata.name
        entry = self._entry(name)
        if not entry.index:
            self._without_node.pop(name, None)
            entry.index = self._names.hold(name)
            self._rebuild(entry, node)
        else:
            self._write_node(entry, node)
        self._mark(entry)
        self._problems.set_problems(NODE.kind, name, node_problems(node))

    def remove_node(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is None or not entry.index:
            return
        for loads in self.loads:
            loads.table.clear_node(entry.index)
        self._names.release(entry.index)
        entry.index = 0
        self._problems.set_problems(NODE.kind, name, {})
        if entry.measurement is not None:
            self._look_for_node(name)
        self._drop_unknown(entry)

    def _write_node(self, entry: NodeEntry, node: Node) -> None:
        """Bring what the node has and may use into the columns, and the metric again where another statistic of it counts now."""
        capacity = node_capacity(node)
        before, annotations = entry.aggregations, node.metadata.annotations
        entry.aggregations = tuple([loads.set_node(entry.index, capacity, annotations) for loads in self.loads])
        if entry.aggregations != before:
            self._write_measurement(entry)

    # Metrics

    def set_metric(self, metric: NodeMetric, *, is_news: bool) -> None:
        """Take over a metric that came or changed. is_news: it was reported just now, as opposed to being there at start."""
        name = metric.metadata.name
        entry = self._entry(name)
        problems = MetricProblems()
        reported_at = update_time(metric, problems)
        before = entry.measurement
        kept = NEVER if before is None else before.update_time
        entry.measurement = Measurement(metric, reported_at, kept if reported_at is None else reported_at, report_interval(metric))
        is_news = is_news and reported_at is not None and (before is None or before.reported_at != reported_at)
        if reported_at is not None:
            self._compare_clocks(reported_at, problems, is_news=is_news)
        if entry.index:
            self._write_measurement(entry, problems)
            self._mark(entry)
        else:
            self._look_for_node(name)
        self._problems.set_problems(NODE_METRIC.kind, name, problems.found)

    def remove_metric(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is None or entry.measurement is None:
            return
        entry.measurement = None
        self._without_node.pop(name, None)
        self._problems.set_problems(NODE_METRIC.kind, name, {})
        if entry.index:
            for loads in self.loads:
                loads.table.clear_metric(entry.index)
            self._mark(entry)
        self._drop_unknown(entry)

    def _write_measurement(self, entry: NodeEntry, problems: MetricProblems | None = None) -> None:
        measurement = entry.measurement
        if measurement is None:
            return
        now = self._clock.now()
        for i, loads in enumerate(self.loads):
            pods = [counted[i] for counted in entry.pods.values()]
            loads.set_measurement(entry.index, measurement, entry.aggregations[i], pods, now=now, problems=problems or MetricProblems())
            expires_at = loads.expires_at(measurement)
            if expires_at is not None and expires_at > now:
                self._expire_later(entry, expires_at)

    def _compare_clocks(self, reported_at: float, problems: MetricProblems, *, is_news: bool) -> None:
        """Say when a node's clock must be wrong: its times are taken as they are, so its metric expires too late or too early."""
        ahead = reported_at - self._clock.now()
        if ahead > MAX_CLOCK_SKEW:
            problems.add("status.updateTime", f"later than now, {CLOCK_IS_WRONG}", round(ahead))
        elif is_news and -ahead > max(MAX_CLOCK_SKEW, min(loads.args.node_metric_expiration_seconds for loads in self.loads)):
            problems.add("status.updateTime", f"new, but long ago, {CLOCK_IS_WRONG}", round(-ahead))

    # Metrics of nodes that are not there

    def _look_for_node(self, name: str) -> None:
        self._without_node[name] = None
        if not self._asked_for_nodes:
            self._asked_for_nodes = True
            self._handle.call_later(UNKNOWN_NODE_SECONDS, self._report_missing_nodes)

    def _report_missing_nodes(self) -> None:
        self._asked_for_nodes = False
        for name in self._without_node:
            log.warning("a NodeMetric says something of a node that does not exist", node_metric=name)
        self._without_node.clear()

    # Expiry

    def _expire_later(self, entry: NodeEntry, when: float) -> None:
        """Look at the metric at that time, unless it is looked at earlier: then it will be found renewed and look on."""
        if when < entry.due:
            entry.due = when
            heappush(self._expiries, (when, entry.name))
            if when < self._looks_at:
                self._look_later()

    def _look_later(self) -> None:
        now = self._clock.now()
        at = self._looks_at = min(self._expiries[0][0], now + LOOK_SECONDS)
        self._handle.call_later(max(0.0, at - now), partial(self._look, at))

    def _look(self, at: float) -> None:
        """Look at what is due, unless an earlier look has been set since: that one has set the next."""
        if at == self._looks_at:
            self._looks_at = NOT_DUE
            self.expire()
            if self._expiries and self._looks_at == NOT_DUE:
                self._look_later()

    def expire(self) -> None:
        """Let the metrics expire whose time has come."""
        now, may_help = self._clock.now(), False
        while self._expiries and self._expiries[0][0] <= now:
            when, name = heappop(self._expiries)
            entry = self._entries.get(name)
            if entry is None or entry.due != when:
                continue  # an earlier time has come in between, or the node has gone
            entry.due = NOT_DUE
            if entry.measurement is not None and entry.index:
                may_help |= self._expire(entry, entry.measurement, now)
        if may_help:
            self._handle.announce(METRIC_EXPIRED)

    def _expire(self, entry: NodeEntry, measurement: Measurement, now: float) -> bool:
        """Let a metric expire for the profiles for which it has, and answer whether that may help pods."""
        may_help = changed = False
        for loads in self.loads:
            expires_at = loads.expires_at(measurement)
            if expires_at is not None and expires_at > now:
                self._expire_later(entry, expires_at)
            elif loads.table.set_expired(entry.index, True):
                changed = True
                may_help |= loads.args.filter_expired_node_metrics and loads.args.enable_schedule_when_node_metrics_expired
        if changed:
            self.expired += 1
            self._mark(entry)
        return may_help

    # Entries

    def _entry(self, name: str) -> NodeEntry:
        found = self._entries.get(name)
        if found is None:
            found = self._entries[name] = NodeEntry(name)
        return found

    def _drop_unknown(self, entry: NodeEntry) -> None:
        if not entry.index and entry.measurement is None and not entry.pods:
            self._entries.pop(entry.name, None)

    def _mark(self, entry: NodeEntry) -> None:
        info = self._cache.nodes_by_name.get(entry.name)
        if info is not None and not info.shares_row:
            self._table.mark(info.row, self._change)

    def _rebuild(self, entry: NodeEntry, node: Node | None) -> None:
        """Write all of a node anew, for pods as the cache counts them."""
        info = self._cache.nodes_by_name.get(entry.name)
        known, entry.pods = entry.pods, {}
        for uid, pod in {} if info is None else info.pods.items():
            if stands_for_reservation(pod):
                continue
            scheduled = true_since(pod.pod, "PodScheduled")
            if scheduled is None:
                scheduled = known[uid][0].timestamp if known.get(uid) else self._clock.now()
            entry.pods[uid] = tuple([loads.estimator.load(pod, scheduled) for loads in self.loads])
        if not entry.index or node is None:
            return
        entry.aggregations = ()
        for loads in self.loads:
            loads.table.clear_node(entry.index)
        self._write_node(entry, node)

    # Mending

    def rebuild(self, name: str) -> None:
        """Forget all that is kept of a node, and derive it again from its objects."""
        entry, metric, node = self._entry(name), self._metrics.get(name), self._nodes.get(name)
        if (node is not None) != bool(entry.index):
            self.set_node(node) if node is not None else self.remove_node(name)
        if metric is None:
            entry.measurement = None
        elif entry.measurement is None or entry.measurement.metric is not metric:
            self.set_metric(metric, is_news=False)
        self._entries[name] = entry
        self._rebuild(entry, node)
        self._mark(entry)
        self._drop_unknown(entry)


class _Nodes:
    def __init__(self, state: LoadState) -> None:
        self._state = state

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._state.set_node(node)

    def on_update(self, old: Node, new: Node) -> None:
        if old.status.allocatable != new.status.allocatable or _own_annotations(old) != _own_annotations(new):
            self._state.set_node(new)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._state.remove_node(node.metadata.name)


class _Metrics:
    def __init__(self, state: LoadState) -> None:
        self._state = state

    def on_add(self, metric: NodeMetric, arrival: Arrival) -> None:
        self._state.set_metric(metric, is_news=arrival is not Arrival.INITIAL)

    def on_update(self, _old: NodeMetric, new: NodeMetric) -> None:
        self._state.set_metric(new, is_news=True)

    def on_delete(self, metric: NodeMetric, _final_state: FinalState) -> None:
        self._state.remove_metric(metric.metadata.name)


def node_capacity(node: Node) -> ResourceList:
    """Return what a node has: its allocatable amounts, or where it says so what they were before they were amplified."""
    try:
        return {**node.status.allocatable, **raw_allocatable(node.metadata.annotations)}
    except Malformed:
        return node.status.allocatable


def node_problems(node: Node) -> dict[str, str]:
    """Return what is wrong with a node's annotations, by text."""
    problems = threshold_problems(node.metadata.annotations)
    try:
        raw_allocatable(node.metadata.annotations)
    except Malformed as error:
        problems.append(str(error))
    return {problem: problem for problem in problems}


def _own_annotations(node: Node) -> tuple[str | None, str | None]:
    annotations = node.metadata.annotations
    return annotations.get(USAGE_THRESHOLDS), annotations.get(RAW_ALLOCATABLE)


def stands_for_reservation(pod: PodInfo) -> bool:
    return pod.reservation is not None or pod.pod.metadata.annotations.get(RESERVE_POD) == "true"
