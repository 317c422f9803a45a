"""The registry makes every plugin under its own name, and every plugin keeps the promises of the contract."""

from __future__ import annotations

import msgspec
import pytest
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench

from koordsched.api.core import Pod
from koordsched.config.args import IN_TREE_ARGS
from koordsched.config.koordinator_args import KOORDINATOR_ARGS
from koordsched.framework.interface import (
    UNSIGNABLE,
    FilterNodesPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ScoreNodesPlugin,
)
from koordsched.plugins import REGISTRY


def make(name: str) -> Plugin:
    args = IN_TREE_ARGS.get(name) or KOORDINATOR_ARGS.get(name)
    return REGISTRY[name](args() if args else None, PluginBench(node("n"), cluster=object()))


REFUSING = (PreEnqueuePlugin, PreFilterPlugin, FilterNodesPlugin)
APART = {"Coscheduling"}  # it refuses pods at PreEnqueue only, of which shapes know nothing
SIGNING = [name for name in REGISTRY if isinstance(make(name), (*REFUSING, ScoreNodesPlugin)) and name not in APART]


TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}
SPEC = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    "topologySpreadConstraints": [SPREAD],
    "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "d", "gcePersistentDisk": {"pdName": "d"}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    "preemptionPolicy": "Never",
}
DEMANDING = PodBuilder(
    msgspec.convert({"metadata": pod().build().metadata, "spec": {**msgspec.to_builtins(pod().build().spec), **SPEC}}, Pod)
)
RICH = (
    DEMANDING.cpu("1")
    .annotation("scheduling.koordinator.sh/reservation-affinity", "{}")
    .request("nvidia.com/gpu", "1")
    .tolerates(key="a")
    .node_selector({"a": "b"})
    .host_port(80)
    .image("i")
    .gate("g")
    .on("n")
)
"""A pod of which every plugin has something to read."""


@pytest.mark.parametrize("name", REGISTRY)
def test_every_plugin_has_the_name_it_is_registered_under(name: str) -> None:
    assert make(name).name == name


def test_only_the_queue_order_who_writes_and_who_decides_apart_from_shapes_need_no_signature() -> None:
    others = {"PrioritySort", "DefaultBinder", "DefaultPreBind", "Coscheduling", "ElasticQuota", "SchedulingHint"}
    assert set(REGISTRY) - set(SIGNING) == others


@pytest.mark.parametrize("name", SIGNING)
def test_every_plugin_that_looks_at_pods_signs_them_with_something_hashable(name: str) -> None:
    plugin = make(name)
    plain_sign, rich_sign = plugin.sign(pod().info()), plugin.sign(RICH.info())
    assert UNSIGNABLE not in {plain_sign, rich_sign}
    assert plain_sign != rich_sign


@pytest.mark.parametrize("name", REGISTRY)
def test_every_plugin_that_refuses_says_what_may_help(name: str) -> None:
    plugin = make(name)
    activates_by_itself = name == "DefaultPreemption"
    assert bool(plugin.events_to_register()) is (isinstance(plugin, REFUSING) and not activates_by_itself)
