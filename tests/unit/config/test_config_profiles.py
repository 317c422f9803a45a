"""Plugin sets: merging with the defaults, MultiPoint expansion, order and weights (framework.md §1.2, §1.3, §13 lines 1-3)."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.config import ConfigError, KubeSchedulerProfile, empty_config, load_config_object
from koordsched.config.catalogue import REFERENCE
from koordsched.config.extension_points import EXTENSION_POINTS
from koordsched.config.plugin_sets import expand, merge_plugin_set
from koordsched.config.types import SETS, PluginEntry, Plugins, PluginSet

POINTS = tuple(point.name for point in EXTENSION_POINTS)

PRE_FILTER = [
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
]


def configuration(*profiles: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": list(profiles)}


def profile(plugins: dict[str, Any]) -> KubeSchedulerProfile:
    return load_config_object(configuration({"schedulerName": "p", "plugins": plugins})).profiles[0]


def refused(plugins: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as error:
        profile(plugins)
    return [(mistake.path, mistake.problem) for mistake in error.value.errors]


def names(found: KubeSchedulerProfile, point: str) -> list[str]:
    return [ref.name for ref in found.points[point]]


def plugin_set(*enabled: str, disabled: tuple[str, ...] = ()) -> PluginSet:
    return PluginSet(enabled=tuple(PluginEntry(name=name) for name in enabled), disabled=tuple(PluginEntry(name=name) for name in disabled))


def on(*enabled: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in enabled]}


def off(*disabled: str) -> dict[str, Any]:
    return {"disabled": [{"name": name} for name in disabled]}


def test_a_profile_that_says_nothing_runs_the_default_plugins_in_their_order() -> None:
    found = empty_config().profiles[0]
    assert tuple(found.points) == POINTS
    assert names(found, "preEnqueue") == ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
    assert names(found, "queueSort") == ["PrioritySort"]
    assert names(found, "preFilter") == PRE_FILTER
    assert names(found, "filter") == ["NodeUnschedulable", "NodeName", "TaintToleration", *PRE_FILTER]
    assert names(found, "postFilter") == ["DynamicResources", "DefaultPreemption"]
    assert names(found, "preScore") == [
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
    ]
    assert [(ref.name, ref.weight) for ref in found.points["score"]] == [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("VolumeBinding", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ]
    assert names(found, "reserve") == ["VolumeBinding", "DynamicResources"]
    assert names(found, "permit") == []
    assert names(found, "preBind") == ["VolumeBinding", "DynamicResources", "DefaultPreBind"]
    assert names(found, "bind") == ["DefaultBinder"]
    assert names(found, "postBind") == []


def test_a_scorer_named_at_score_comes_first_with_its_own_weight() -> None:
    """framework.md §13 line 2."""
    found = profile({"score": {"enabled": [{"name": "ImageLocality", "weight": 7}]}})
    weights = [(ref.name, ref.weight) for ref in found.points["score"]]
    assert weights[0] == ("ImageLocality", 7)
    assert [name for name, _ in weights].count("ImageLocality") == 1


def test_a_point_that_disables_all_runs_what_it_enables() -> None:
    """framework.md §13 line 3."""
    found = profile({"filter": on("NodePorts") | off("*")})
    assert names(found, "filter") == ["NodePorts"]
    assert names(found, "preFilter") == PRE_FILTER


def test_own_plugins_that_are_multipoint_come_first_then_multipoint_then_the_rest() -> None:
    found = profile({"filter": on("DeviceShare", "NodePorts", "LoadAwareScheduling", "NodeName")})
    expected = ["NodePorts", "NodeName", "NodeUnschedulable", "TaintToleration"]
    expected += [name for name in PRE_FILTER if name != "NodePorts"]
    assert names(found, "filter") == [*expected, "DeviceShare", "LoadAwareScheduling"]


def test_a_plugin_disabled_at_a_point_still_runs_at_the_others() -> None:
    found = profile({"score": off("NodeResourcesFit", "ImageLocality")})
    assert "NodeResourcesFit" not in names(found, "score")
    assert "NodeResourcesFit" in names(found, "filter")
    assert names(found, "score")[-1] == "NodeResourcesBalancedAllocation"


def test_disabled_and_enabled_at_the_same_point_means_enabled_after_the_others() -> None:
    found = profile({"filter": on("NodeName") | off("NodeName")})
    assert names(found, "filter")[-1] == "NodeName"


def test_a_plugin_enabled_by_multipoint_plays_all_its_points() -> None:
    found = profile({"multiPoint": on("Coscheduling")})
    playing = {point for point in POINTS if "Coscheduling" in names(found, point)}
    assert playing == {"preEnqueue", "preFilter", "postFilter", "preScore", "score", "reserve", "permit", "preBind", "postBind"}
    assert found.points["score"][-1].weight == 1


def test_a_default_named_again_at_multipoint_keeps_its_place_with_the_new_weight() -> None:
    found = profile({"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 9}]}})
    assert [(ref.name, ref.weight) for ref in found.points["score"]][:2] == [("TaintToleration", 9), ("NodeAffinity", 2)]


def test_without_the_default_multipoint_plugins_only_the_named_ones_run() -> None:
    found = profile({"multiPoint": off("*"), "queueSort": on("PrioritySort"), "bind": on("DefaultBinder"), "filter": on("NodeName")})
    assert {point: names(found, point) for point in POINTS if names(found, point)} == {
        "queueSort": ["PrioritySort"],
        "filter": ["NodeName"],
        "preBind": ["DefaultPreBind"],
        "bind": ["DefaultBinder"],
    }


@pytest.mark.parametrize(
    ("default", "custom", "merged"),
    [
        (plugin_set("A", "B", "C"), plugin_set(), plugin_set("A", "B", "C")),
        (plugin_set("A", "B", "C"), plugin_set("D", disabled=("B",)), plugin_set("A", "C", "D", disabled=("B",))),
        (plugin_set("A", "B"), plugin_set("C", disabled=("*",)), plugin_set("C", disabled=("*",))),
        (plugin_set("A", "B"), plugin_set("B", "D", "A"), plugin_set("A", "B", "D")),
        (plugin_set("A", "B"), plugin_set("B", disabled=("B",)), plugin_set("A", "B", disabled=("B",))),
        (plugin_set("A"), plugin_set("A", "A"), plugin_set("A", "A")),
    ],
)
def test_merging_keeps_default_order_replaces_in_place_and_appends(default: PluginSet, custom: PluginSet, merged: PluginSet) -> None:
    assert merge_plugin_set(default, custom) == merged


@pytest.mark.parametrize(
    ("plugins", "mistake"),
    [
        ({"filter": on("NodePorts", "Fit")}, ("filter.enabled[1]", 'FilterPlugin "Fit" does not exist')),
        (
            {"postBind": on("Coschedulin")},
            ("postBind.enabled[0]", 'PostBindPlugin "Coschedulin" does not exist, did you mean "Coscheduling"?'),
        ),
        ({"multiPoint": on("Foo")}, ("multiPoint.enabled[0]", 'PreFilterPlugin "Foo" does not exist')),
        ({"score": on("NodeName")}, ("score.enabled[0]", 'plugin "NodeName" does not extend ScorePlugin plugin')),
        (
            {"filter": on("NodeName", "NodePorts", "NodeName")},
            ("filter.enabled[2]", 'plugin "NodeName" already registered as "FilterPlugin"'),
        ),
        (
            {"multiPoint": on("Coscheduling", "Coscheduling")},
            ("multiPoint.enabled[1]", 'plugin "Coscheduling" already registered as "PreFilterPlugin"'),
        ),
        (
            {"queueSort": off("*")},
            ("queueSort", 'only one queue sort plugin required for profile with scheduler name "p", but got 0'),
        ),
        ({"bind": off("DefaultBinder")}, ("bind", 'at least one bind plugin is needed for profile with scheduler name "p"')),
    ],
)
def test_plugins_that_cannot_be_run_so_are_refused_at_their_place(plugins: dict[str, Any], mistake: tuple[str, str]) -> None:
    path, problem = mistake
    assert refused(plugins) == [(f"profiles[0].plugins.{path}", problem)]


def test_a_repeated_multipoint_plugin_is_fine_where_its_only_point_names_it() -> None:
    found = profile({"multiPoint": on("ImageLocality", "ImageLocality"), "score": on("ImageLocality")})
    assert names(found, "score").count("ImageLocality") == 1


def test_weights_whose_sum_could_overflow_are_refused() -> None:
    heavy = Plugins(
        score=PluginSet(enabled=(PluginEntry(name="ImageLocality", weight=2**57),)),
        queue_sort=plugin_set("PrioritySort"),
        bind=plugin_set("DefaultBinder"),
    )
    found: list[tuple[str, str]] = []
    expand(heavy, REFERENCE.points, "p", lambda path, problem: found.append((path, problem)))
    assert found == [("score", "total score of Score plugins could overflow")]


@pytest.mark.parametrize(
    ("score", "multi_point", "overflows"),
    [
        ([("ImageLocality", -3)], [("NodeAffinity", 2)], True),  # as the reference has it: -300, and 2^63-1+300 is negative
        ([("NodeAffinity", 2), ("ImageLocality", -1)], [("TaintToleration", 3)], False),  # 200, 100, 400
        ([("NodeAffinity", 2), ("ImageLocality", -3)], [], False),  # 200, -100: nothing is added to it any more
        ([("NodeAffinity", 2), ("ImageLocality", -3)], [("NodeName", 0)], False),  # is no scorer
    ],
)
def test_a_sum_of_weights_that_is_negative_on_the_way_is_refused(
    score: list[tuple[str, int]], multi_point: list[tuple[str, int]], overflows: bool
) -> None:
    plugins = Plugins(
        score=PluginSet(enabled=tuple(PluginEntry(name=name, weight=weight) for name, weight in score)),
        multi_point=PluginSet(enabled=tuple(PluginEntry(name=name, weight=weight) for name, weight in multi_point)),
        queue_sort=plugin_set("PrioritySort"),
        bind=plugin_set("DefaultBinder"),
    )
    found: list[tuple[str, str]] = []
    expand(plugins, REFERENCE.points, "p", lambda path, problem: found.append((path, problem)))
    assert found == [("score", "total score of Score plugins could overflow")] * overflows


@pytest.mark.parametrize(
    ("pre_bind", "expected"),
    [
        ({}, ["VolumeBinding", "DynamicResources", "DefaultPreBind"]),
        (on("DefaultPreBind", "DeviceShare"), ["VolumeBinding", "DynamicResources", "DefaultPreBind", "DeviceShare"]),
        (on("DeviceShare"), ["VolumeBinding", "DynamicResources", "DeviceShare", "DefaultPreBind"]),
        (off("DefaultPreBind"), ["VolumeBinding", "DynamicResources"]),
        (on("DeviceShare") | off("*"), ["DeviceShare"]),
    ],
)
def test_default_pre_bind_is_appended_unless_it_is_there_or_disabled(pre_bind: dict[str, Any], expected: list[str]) -> None:
    """frameworkext.md §1.1 item 2."""
    assert names(profile({"preBind": pre_bind}), "preBind") == expected


def test_a_file_has_a_plugin_set_for_each_extension_point_and_for_multi_point() -> None:
    assert (*POINTS, "multiPoint") == SETS


def test_an_out_of_tree_plugin_is_known_through_its_catalogue() -> None:
    catalogue = REFERENCE.with_plugin("Mine", frozenset({"filter"}))
    plugins = Plugins(filter=plugin_set("Mine"), queue_sort=plugin_set("PrioritySort"), bind=plugin_set("DefaultBinder"))
    found: list[tuple[str, str]] = []
    points = expand(plugins, catalogue.points, "p", lambda path, problem: found.append((path, problem)))
    assert [ref.name for ref in points["filter"]] == ["Mine"]
    assert found == []
