"""The standing check of loads: compares what `state` keeps of a node with the node's objects, and mends what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.load_facts import NodeLoad
from koordsched.api.kinds import NODE, NODE_METRIC
from koordsched.cache.plugin_state import StateDifference
from koordsched.plugins.loadaware.estimation import true_since
from koordsched.plugins.loadaware.measurements import MetricProblems
from koordsched.plugins.loadaware.state import node_capacity, stands_for_reservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import Node
    from koordsched.api.koordinator.measurements import NodeMetric
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.plugins.loadaware.state import LoadState, NodeEntry


class LoadCheck:
    """A `CheckedState`: the check of one `LoadState`."""

    name = "LoadAwareScheduling"

    def __init__(self, state: LoadState, handle: Handle) -> None:
        self._state = state
        self._cache = handle.cache
        self._clock = handle.clock
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._metrics: Mapping[str, NodeMetric] = handle.informer(NODE_METRIC).store

    def names(self) -> Iterable[str]:
        return self._state.entries.keys()

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Compare metric, pods and columns of a node with its objects; when an assumed pod was scheduled is known here only."""
        self._state.expire()  # what is due and not done yet is no difference
        entry, metric, info = self._state.entries.get(node), self._metrics.get(node), self._cache.nodes_by_name.get(node)
        pods = {} if info is None else {uid: pod for uid, pod in info.pods.items() if not stands_for_reservation(pod)}
        if entry is None:
            if metric is not None or pods or node in self._nodes:
                yield StateDifference("known", False, True)
            return
        kept = None if entry.measurement is None else entry.measurement.metric
        if kept is not metric and kept != metric:
            yield StateDifference("metric", _version(kept), _version(metric))
        for uid in entry.pods.keys() ^ pods.keys():
            yield StateDifference(f"pod {uid}", uid in entry.pods, uid in pods)
        for uid in entry.pods.keys() & pods.keys():
            yield from self._pod_differences(entry, uid, pods[uid])
        if bool(entry.index) != (node in self._nodes):
            yield StateDifference("node", bool(entry.index), node in self._nodes)
        elif entry.index:
            yield from self._column_differences(entry, self._nodes[node])

    def _pod_differences(self, entry: NodeEntry, uid: str, pod: PodInfo) -> Iterator[StateDifference]:
        scheduled = true_since(pod.pod, "PodScheduled")
        for loads, kept in zip(self._state.loads, entry.pods[uid], strict=True):
            expected = loads.estimator.load(pod, kept.timestamp if scheduled is None else scheduled)
            ours = (kept.estimate.values, kept.timestamp, kept.deadline)
            theirs = (expected.estimate.values, expected.timestamp, expected.deadline)
            if kept.estimate != expected.estimate or ours != theirs:
                yield StateDifference(f"load of {pod.key}", str(ours), str(theirs))

    def _column_differences(self, entry: NodeEntry, node: Node) -> Iterator[StateDifference]:
        for i, loads in enumerate(self._state.loads):
            anew = loads.new_table(loads.table.nodes, loads.table.index_attribute)
            anew.clear_node(1)
            aggregation = loads.set_node(1, node_capacity(node), node.metadata.annotations, anew)
            if entry.measurement is not None:
                pods = [counted[i] for counted in entry.pods.values()]
                loads.set_measurement(1, entry.measurement, aggregation, pods, now=self._clock.now(), problems=MetricProblems(), table=anew)
            ours, theirs = loads.table.load_of(entry.index), anew.load_of(1)
            for column, kept, expected in zip(NodeLoad._fields, ours, theirs, strict=True):
                if kept != expected:
                    yield StateDifference(column, str(kept), str(expected))

    def rebuild(self, node: str) -> None:
        self._state.rebuild(node)


def _version(metric: NodeMetric | None) -> str:
    return "" if metric is None else f"resourceVersion {metric.metadata.resource_version}"
