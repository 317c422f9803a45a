"""PodTopologySpread's hints: which changes of pods and nodes may help a refused pod (framework.md §3.5)."""

from __future__ import annotations

import pytest
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.plugins import PluginBench, hint

from koordsched.api.core import Pod, TopologySpreadConstraint
from koordsched.api.meta import LabelSelector
from koordsched.config.args import PodTopologySpreadArgs
from koordsched.plugins.podtopologyspread.plugin import PodTopologySpread
from koordsched.queue.events import QueueingHint

ZONE, HARD, SOFT = "topology.kubernetes.io/zone", "DoNotSchedule", "ScheduleAnyway"
ON_POD, ON_NODE = 0, 1


def spread(key: str = ZONE, action: str = HARD, taints: str | None = None, keys: tuple[str, ...] = ()) -> TopologySpreadConstraint:
    selector = LabelSelector(match_labels={"app": "x"})
    return TopologySpreadConstraint(1, key, action, label_selector=selector, node_taints_policy=taints, match_label_keys=keys)


WAITING = pod("waiting").label("app", "x").spread(spread())
BOUND = pod("bound").label("app", "x").on("n1")
OTHER = pod("other").label("app", "y").on("n1")


def helps(index: int, waiting: PodBuilder, old: PodBuilder | NodeBuilder | None, new: PodBuilder | NodeBuilder | None) -> bool:
    plugin = PodTopologySpread(PodTopologySpreadArgs(), PluginBench(cluster=object()))
    before, after = old.build() if old else None, new.build() if new else None
    return hint(plugin, index, waiting, before, after) is QueueingHint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, BOUND, True),
        (BOUND, None, True),
        (None, OTHER, False),
        (OTHER, None, False),
        (None, pod("foreign", "elsewhere").label("app", "x").on("n1"), False),
        (None, pod("pending").label("app", "x"), False),
        (OTHER, OTHER.label("app", "x"), True),
        (BOUND, BOUND.label("app", "y"), True),
        (BOUND, BOUND.label("tier", "front"), False),
        (BOUND, BOUND.deleted_at("2026-01-01T00:00:00Z"), True),
        (OTHER, OTHER.deleted_at("2026-01-01T00:00:00Z"), False),
        (BOUND.deleted_at("2026-01-01T00:00:00Z"), BOUND.deleted_at("2026-01-01T00:00:00Z").phase("Failed"), False),
    ],
)
def test_pods_that_count_or_cease_to(old: PodBuilder | None, new: PodBuilder | None, expected: bool) -> None:
    assert helps(ON_POD, WAITING, old, new) is expected


def test_a_pod_that_one_constraint_loses_to_another_helps() -> None:
    by_host = TopologySpreadConstraint(1, "kubernetes.io/hostname", HARD, label_selector=LabelSelector(match_labels={"app": "y"}))
    assert helps(ON_POD, WAITING.spread(by_host), BOUND, BOUND.label("app", "y"))
    assert not helps(ON_POD, WAITING.spread(by_host), BOUND, BOUND.label("tier", "front"))


def test_a_toleration_of_its_own_helps_where_taints_are_honoured() -> None:
    honoring = pod("waiting").label("app", "x").spread(spread(taints="Honor"))
    assert helps(ON_POD, honoring, honoring, honoring.tolerates("a"))
    assert not helps(ON_POD, WAITING, WAITING, WAITING.tolerates("a"))
    assert not helps(ON_POD, honoring, BOUND, BOUND.tolerates("a"))


def test_labels_of_its_own_help_when_they_make_other_constraints() -> None:
    assert helps(ON_POD, WAITING.label("app", "y"), WAITING, WAITING.label("app", "y"))
    assert not helps(ON_POD, WAITING, WAITING, WAITING.label("rev", "2"))
    keyed = pod("waiting").label("app", "x").spread(spread(keys=("rev",)))
    assert helps(ON_POD, keyed, keyed, keyed.label("rev", "2"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("n1").zone("a"), True),
        (node("n1").zone("a"), None, True),
        (None, node("n1"), False),
        (node("n1"), None, False),
        (node("n1"), node("n1").zone("a"), True),
        (node("n1").zone("a"), node("n1"), True),
        (node("n1").zone("a"), node("n1").zone("b"), True),
        (node("n1").zone("a"), node("n1").zone("a").label("disk", "ssd"), False),
        (node("n1").zone("a"), node("n1").zone("a").taint("a", "NoSchedule"), True),
        (node("n1"), node("n1").taint("a", "NoSchedule"), False),
    ],
)
def test_nodes_that_are_domains_or_cease_to_be(old: NodeBuilder | None, new: NodeBuilder | None, expected: bool) -> None:
    assert helps(ON_NODE, WAITING, old, new) is expected


def test_any_label_may_change_what_a_pod_with_a_node_selector_looks_at() -> None:
    choosy = WAITING.node_selector({"disk": "ssd"})
    assert helps(ON_NODE, choosy, node("n1").zone("a").label("disk", "ssd"), node("n1").zone("a"))


def test_soft_constraints_wait_for_nothing() -> None:
    soft = pod("waiting").label("app", "x").spread(spread(action=SOFT))
    assert not helps(ON_POD, soft, None, BOUND)
    assert not helps(ON_NODE, soft, None, node("n1").zone("a"))


def test_what_is_no_pod_or_node_is_no_help() -> None:
    plugin = PodTopologySpread(PodTopologySpreadArgs(), PluginBench(cluster=object()))
    assert hint(plugin, ON_POD, WAITING, None, None) is QueueingHint.SKIP
    assert hint(plugin, ON_NODE, WAITING, None, Pod()) is QueueingHint.SKIP
