"""PodTopologySpread's codes, raw and normalised scores equal a plain model written from framework.md §10.10."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import NodeBuilder, PodBuilder, node, pod, requirement
from support.plugins import PluginBench

from koordsched.api.core import Node, Pod, TopologySpreadConstraint
from koordsched.api.meta import LabelSelector
from koordsched.config.args import PodTopologySpreadArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.tolerations import first_untolerated
from koordsched.plugins.podtopologyspread.plugin import REFUSED_LABEL, REFUSED_UNEVEN, PodTopologySpread

HOSTNAME, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
MISSING, UNEVEN = "missing", "uneven"


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    made = node(name)
    zone, rack = draw(st.sampled_from(["a", "b", "c", ""])), draw(st.sampled_from(["1", "2", ""]))
    made = made.zone(zone) if zone else made
    made = made.label(RACK, rack) if rack else made
    made = made.label("disk", draw(st.sampled_from(["ssd", "hdd"])))
    return made.taint("dedicated", "NoSchedule", "x") if draw(st.booleans()) else made


@st.composite
def running(draw: st.DrawFn) -> PodBuilder:
    made = pod("r", draw(st.sampled_from(["default", "default", "other"]))).label("app", draw(st.sampled_from(["x", "x", "y"])))
    return made.deleted_at("2026-01-01T00:00:00Z") if draw(st.integers(0, 4)) == 0 else made


@st.composite
def constraints(draw: st.DrawFn) -> TopologySpreadConstraint:
    selector = draw(
        st.sampled_from(
            [
                LabelSelector(match_labels={"app": "x"}),
                LabelSelector(match_expressions=(requirement("app", "Exists"),)),
                LabelSelector(),
                None,
            ]
        )
    )
    return TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 3)),
        topology_key=draw(st.sampled_from([HOSTNAME, ZONE, ZONE, RACK, "unknown"])),
        when_unsatisfiable=draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
        label_selector=selector,
        min_domains=draw(st.sampled_from([None, None, 1, 3])),
        node_affinity_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
        node_taints_policy=draw(st.sampled_from([None, "Honor", "Ignore"])),
    )


@st.composite
def incoming(draw: st.DrawFn) -> PodBuilder:
    made = pod("new").label("app", draw(st.sampled_from(["x", "y"]))).spread(*draw(st.lists(constraints(), min_size=1, max_size=3)))
    made = made.node_selector({"disk": "ssd"}) if draw(st.booleans()) else made
    return made.tolerates("dedicated", "x", "NoSchedule") if draw(st.booleans()) else made


class Model:
    """One node after the other, one pod after the other."""

    def __init__(self, cluster: list[tuple[Node, list[Pod]]], made: Pod) -> None:
        self.cluster = cluster
        self.pod = made

    def of(self, action: str) -> list[TopologySpreadConstraint]:
        return [each for each in self.pod.spec.topology_spread_constraints if each.when_unsatisfiable == action]

    def selects(self, each: TopologySpreadConstraint, labels: dict[str, str]) -> bool:
        selector = each.label_selector
        if selector is None:
            return False
        wanted = selector.match_labels.items() <= labels.items()
        return wanted and all(expression.key in labels for expression in selector.match_expressions)

    def count(self, each: TopologySpreadConstraint, pods: list[Pod]) -> int:
        if each.label_selector == LabelSelector():
            return 0
        same = [other for other in pods if other.metadata.namespace == "default" and other.metadata.deletion_timestamp is None]
        return sum(self.selects(each, other.metadata.labels) for other in same)

    def eligible(self, each: TopologySpreadConstraint, keys: list[str], there: Node) -> bool:
        if not all(key in there.metadata.labels for key in keys):
            return False
        matches = self.pod.spec.node_selector.items() <= there.metadata.labels.items()
        if each.node_affinity_policy in {None, "Honor"} and not matches:
            return False
        return each.node_taints_policy != "Honor" or first_untolerated(there.spec.taints, self.pod.spec.tolerations) is None

    def verdict(self, there: Node) -> str | None:
        hard = self.of("DoNotSchedule")
        keys = [each.topology_key for each in hard]
        for each in hard:
            if each.topology_key not in there.metadata.labels:
                return MISSING
            sums: dict[str, int] = {}
            for other, pods in self.cluster:
                if self.eligible(each, keys, other):
                    value = other.metadata.labels[each.topology_key]
                    sums[value] = sums.get(value, 0) + self.count(each, pods)
            least = 0 if len(sums) < (each.min_domains or 1) else min(sums.values())
            own = self.selects(each, self.pod.metadata.labels)
            if sums.get(there.metadata.labels[each.topology_key], 0) + own - least > each.max_skew:
                return UNEVEN
        return None

    def raw(self) -> dict[str, tuple[int, bool]]:
        """Return each node's (score, whether it takes part); every node is feasible."""
        soft = self.of("ScheduleAnyway")
        keys = [each.topology_key for each in soft]
        taking = [there for there, _ in self.cluster if all(key in there.metadata.labels for key in keys)]
        found = {}
        for there, pods in self.cluster:
            total = 0.0
            for each in soft if there in taking else []:
                values = {other.metadata.labels[each.topology_key] for other in taking}
                if each.topology_key == HOSTNAME:
                    size, count = len(taking), self.count(each, pods)
                else:
                    size, value = len(values), there.metadata.labels[each.topology_key]
                    count = sum(
                        self.count(each, others)
                        for other, others in self.cluster
                        if self.eligible(each, keys, other) and other.metadata.labels[each.topology_key] == value
                    )
                total += count * math.log(size + 2) + (each.max_skew - 1)
            found[there.metadata.name] = (math.floor(total + 0.5), there in taking)
        return found

    def normalized(self) -> dict[str, int]:
        raw = self.raw()
        taking = [score for score, takes_part in raw.values() if takes_part]
        most, least = max([0, *taking]), min(taking, default=0)
        return {
            name: 0 if not takes_part else 100 if most == 0 else 100 * (most + least - score) // most
            for name, (score, takes_part) in raw.items()
        }


@settings(max_examples=200, deadline=None)
@given(data=st.data(), made=incoming(), count=st.integers(1, 6))
def test_filter_and_score_equal_the_model(data: Any, made: PodBuilder, count: int) -> None:
    bench = PluginBench()
    cluster = []
    for i in range(count):
        built = data.draw(nodes(f"n{i}"))
        bench.set(built)
        pods = data.draw(st.lists(running(), max_size=4))
        for j, each in enumerate(pods):
            bench.put(each.uid(f"{i}-{j}"), f"n{i}")
        cluster.append((built.build(), [each.build() for each in pods]))
    plugin, model = PodTopologySpread(PodTopologySpreadArgs(), bench), Model(cluster, made.build())
    reasons = {MISSING: REFUSED_LABEL, UNEVEN: REFUSED_UNEVEN, None: None}
    wanted = {there.metadata.name: reasons[model.verdict(there)] for there, _ in cluster}
    assert bench.filter(plugin, made) == wanted
    compare_scores(bench, plugin, made, model)


def compare_scores(bench: PluginBench, plugin: PodTopologySpread, made: PodBuilder, model: Model) -> None:
    state, info, nodes = CycleState(), made.info(), bench.cache.nodes()
    if plugin.pre_score(state, info, nodes) is not None:
        assert not model.of("ScheduleAnyway")
        return
    scores = plugin.score_nodes(state, info, nodes)
    assert scores is not None
    names = [nodes.info(row).name for row in nodes.rows.tolist()]
    assert dict(zip(names, scores.tolist(), strict=True)) == {name: score for name, (score, _) in model.raw().items()}
    normalized = plugin.normalize_scores(state, info, nodes, np.asarray(scores))
    assert dict(zip(names, normalized.tolist(), strict=True)) == model.normalized()
