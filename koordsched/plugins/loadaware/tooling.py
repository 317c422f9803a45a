"""What `simulate` knows of LoadAwareScheduling: what its refusals mean, and a report of use beside requests.

Nothing measures in a simulation: use is what the input's NodeMetrics say. What pods will use that no metric has seen is estimated by the
arguments of the first profile that has the plugin; without one only use and requests are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import NODE, NODE_METRIC
from koordsched.api.koordinator.loads import custom_thresholds, raw_allocatable
from koordsched.api.koordinator.measurements import NodeMetric
from koordsched.api.koordinator.reading import Malformed
from koordsched.framework.tooling import ObjectCheck, PluginReport, Report, Section, Tooling, bar, percent
from koordsched.plugins.loadaware.measurements import MetricProblems, amounts_of, update_time
from koordsched.plugins.loadaware.state import LoadState, node_capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koordsched.api.core import Node, Pod
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo

RESOURCES = ("cpu", "memory")
SHARE_DIGITS = 6


class ResourceLoad(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Shares of what the measured nodes have together: requested by their pods, used by their metrics, and expected: used, and what is
    estimated beyond that. expected is None where no profile has the plugin."""

    resource: str
    requested: float
    used: float
    expected: float | None


class LoadSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How many of the nodes have a metric with measurements, and what is true of these."""

    nodes: int
    measured: int
    resources: list[ResourceLoad]


class NodeUse(msgspec.Struct, frozen=True):
    """Amounts of one node by resource, in the order of RESOURCES; cpu in milli. offered: allocatable, which requests are held to; capacity:
    what use is compared with. expected is None where no profile has the plugin."""

    name: str
    offered: Sequence[int]
    capacity: Sequence[int]
    requested: Sequence[int]
    used: Sequence[int]
    expected: Sequence[int] | None

    @property
    def fullest(self) -> float:
        """Return the largest share of a resource that is used, or expected to be."""
        amounts = self.expected or self.used
        return max((amount / capacity for amount, capacity in zip(amounts, self.capacity, strict=True) if capacity), default=0.0)


def load_report(_pods: Iterable[Pod], metrics: Iterable[Object], cache: Cache) -> PluginReport | None:
    state, found = cache.shared.find(LoadState), []
    for metric in metrics:
        info = cache.nodes_by_name.get(metric.metadata.name)
        if isinstance(metric, NodeMetric) and metric.status.node_metric is not None and info is not None and info.node is not None:
            found.append(_use_of(info, metric, state))
    if not found:
        return None
    resources = [_resource_load(found, place, resource) for place, resource in enumerate(RESOURCES)]
    nodes = sum(info.node is not None for info in cache.nodes_by_name.values())
    summary = LoadSummary(nodes=nodes, measured=len(found), resources=resources)
    return PluginReport(summary, lambda limit: load_sections(summary, found, limit))


def _use_of(info: NodeInfo, metric: NodeMetric, state: LoadState | None) -> NodeUse:
    assert info.node is not None
    assert metric.status.node_metric is not None
    used = amounts_of(metric.status.node_metric.node_usage.resources, RESOURCES, "", MetricProblems())
    expected: list[int] | None = None
    if state is not None:
        loads, entry = state.loads[0], state.entries[info.name]
        beyond = dict(zip(loads.vector, loads.table.load_of(entry.index).delta, strict=True))
        expected = [amount + beyond[resource] for amount, resource in zip(used, RESOURCES, strict=True)]
    return NodeUse(
        info.name,
        [info.allocatable(resource) for resource in RESOURCES],
        amounts_of(node_capacity(info.node), RESOURCES, "", MetricProblems()),
        [info.requested(resource) for resource in RESOURCES],
        used,
        expected,
    )


def _resource_load(found: Sequence[NodeUse], place: int, resource: str) -> ResourceLoad:
    offered, capacity = sum(node.offered[place] for node in found), sum(node.capacity[place] for node in found)

    def share(total: int, whole: int) -> float:
        return round(total / whole, SHARE_DIGITS) if whole else 0.0

    expected = [node.expected[place] for node in found if node.expected is not None]
    return ResourceLoad(
        resource=resource,
        requested=share(sum(node.requested[place] for node in found), offered),
        used=share(sum(node.used[place] for node in found), capacity),
        expected=share(sum(expected), capacity) if expected else None,
    )


def load_sections(summary: LoadSummary, found: Sequence[NodeUse], limit: int) -> Sequence[Section]:
    """Return the table of all measured nodes together, and that of the hottest ones."""
    rows = [
        (
            load.resource,
            f"{100 * load.requested:.1f} %",
            f"{100 * load.used:.1f} %",
            "-" if load.expected is None else f"{100 * load.expected:.1f} %",
            bar(load.used if load.expected is None else load.expected),
        )
        for load in summary.resources
    ]
    notes = [
        f"Shares of the {summary.measured} nodes of {summary.nodes} that have a NodeMetric. used: what the metrics say.",
        "expected: that, and what pods are estimated to use beyond it until a metric has seen them (- without LoadAwareScheduling).",
    ]
    together = ("resource", "requested", "used", "expected", "expected of the nodes")
    made = [Section(title="Use", columns=together, align="<>>><", rows=rows, notes=notes)]
    hottest = sorted(found, key=lambda node: (-node.fullest, node.name))[:limit]
    if hottest:
        more = len(found) - len(hottest)
        notes = [f"{more} more nodes; --show-load N lists more."] if more else []
        columns = ("node", *(f"{resource} {what}" for resource in RESOURCES for what in ("requested", "used", "expected")))
        made.append(
            Section(
                title="Use of the hottest nodes", columns=columns, align="<>>>>>>", rows=[_cells(node) for node in hottest], notes=notes
            )
        )
    return made


def _cells(node: NodeUse) -> tuple[str, ...]:
    cells = [node.name]
    for place in range(len(RESOURCES)):
        cells.append(percent(node.requested[place], node.offered[place]))
        cells.append(percent(node.used[place], node.capacity[place]))
        cells.append("-" if node.expected is None else percent(node.expected[place], node.capacity[place]))
    return tuple(cells)


def metric_problems(metric: NodeMetric) -> Iterable[str]:
    """Return what cannot be used of a NodeMetric, whatever the plugin's arguments ask of it."""
    problems, measured = MetricProblems(), metric.status.node_metric
    update_time(metric, problems)
    if measured is not None:
        amounts_of(measured.node_usage.resources, RESOURCES, "status.nodeMetric.nodeUsage", problems)
        amounts_of(measured.system_usage.resources, RESOURCES, "status.nodeMetric.systemUsage", problems)
    for i, pod in enumerate(metric.status.pods_metric):
        amounts_of(pod.pod_usage.resources, RESOURCES, f"status.podsMetric[{i}].podUsage", problems)
    return problems.found.values()


def node_problems(node: Node) -> Iterator[str]:
    """Yield what cannot be read of a Node's own thresholds and of what it has before amplification."""
    for read in (custom_thresholds, raw_allocatable):
        try:
            read(node.metadata.annotations)
        except Malformed as malformed:
            yield str(malformed)


TOOLING = Tooling(
    explanations=(
        (r"node\(s\) (\S+) usage exceed threshold", "these nodes use so much {0} that with the pod it would be above the threshold"),
        (
            r"node\(s\) (\S+) aggregated usage exceed threshold",
            "these nodes have used so much {0} lately that with the pod it would be above the threshold",
        ),
        (r"node\(s\) nodeMetric expired", "nothing new is known of what these nodes use: is koordlet running there?"),
    ),
    reports=(Report("load", "--show-load", "nodes in the table of use (default 10)", NODE_METRIC, load_report),),
    object_checks=(ObjectCheck(NODE_METRIC, metric_problems), ObjectCheck(NODE, node_problems)),
)
