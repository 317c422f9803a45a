"""Arguments of the in-tree plugins: defaults and what is refused (framework.md §1.4)."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.config import ConfigError, Environment, PluginArgs, empty_config, load_config_object, parse_feature_gates
from koordsched.config.args import (
    CPU_AND_MEMORY,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    VolumeBindingArgs,
)

RATIO = "RequestedToCapacityRatio"


def configuration(name: str, args: Any, plugins: dict[str, Any]) -> dict[str, Any]:
    profile = {"schedulerName": "p", "plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def args_of(name: str, args: Any, gates: str = "", plugins: dict[str, Any] | None = None) -> Any:
    """Return the arguments as the plugin gets them; None when the profile does not enable it."""
    environment = Environment(gates=parse_feature_gates([gates]))
    return load_config_object(configuration(name, args, plugins or {}), environment).profiles[0].args.get(name)


def refused(name: str, args: Any, gates: str = "", plugins: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Return (path within the arguments, problem)."""
    with pytest.raises(ConfigError) as error:
        args_of(name, args, gates, plugins)
    return [(mistake.path.removeprefix("profiles[0].pluginConfig[0].args").lstrip("."), mistake.problem) for mistake in error.value.errors]


def test_an_enabled_plugin_without_arguments_gets_its_defaults() -> None:
    assert empty_config().profiles[0].args == {
        "DefaultPreemption": DefaultPreemptionArgs(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100),
        "DynamicResources": DynamicResourcesArgs(filter_timeout=empty_config().profiles[0].args["DynamicResources"].filter_timeout),
        "InterPodAffinity": InterPodAffinityArgs(hard_pod_affinity_weight=1),
        "NodeAffinity": NodeAffinityArgs(),
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs(resources=CPU_AND_MEMORY),
        "NodeResourcesFit": NodeResourcesFitArgs(),
        "PodTopologySpread": PodTopologySpreadArgs(defaulting_type="System"),
        "VolumeBinding": VolumeBindingArgs(bind_timeout_seconds=600),
    }
    assert empty_config().profiles[0].args["DynamicResources"].filter_timeout == 10


def test_resources_without_weight_weigh_one_and_none_mean_cpu_and_memory() -> None:
    given = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "a.b/c"}, {"name": "cpu", "weight": 3}]}}
    strategy = args_of("NodeResourcesFit", given).scoring_strategy
    assert strategy.resources == (ResourceSpec(name="a.b/c", weight=1), ResourceSpec(name="cpu", weight=3))
    assert args_of("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}).scoring_strategy.resources == CPU_AND_MEMORY


def test_a_strategy_without_type_is_refused_since_only_the_whole_block_has_a_default() -> None:
    ((path, problem),) = refused("NodeResourcesFit", {"scoringStrategy": {}})
    assert path == "scoringStrategy.type"
    assert problem.startswith('initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "": supported values: ')


@pytest.mark.parametrize(
    ("args", "path", "problem"),
    [
        (
            {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
            "Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
        ),
        (
            {"scoringStrategy": {"type": "Least"}},
            "scoringStrategy.type",
            f'Unsupported value: "Least": supported values: "LeastAllocated", "MostAllocated", "{RATIO}"',
        ),
        ({"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]", "Invalid value: \"a/b\": resource group name can't contain '/'"),
        ({"ignoredResources": ["-x"]}, "ignoredResources[0]", 'Invalid value: "-x": name part must consist of alphanumeric characters'),
        (
            {"scoringStrategy": {"type": RATIO}},
            "scoringStrategy.requestedToCapacityRatio",
            f"Required value: the type {RATIO} needs a shape",
        ),
        (
            {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {}}},
            "scoringStrategy.shape",
            "Required value: at least one point must be specified",
        ),
        (
            {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 0}]}}},
            "scoringStrategy.shape[0].utilization",
            "Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {"shape": [{"utilization": 1, "score": 11}]}}},
            "scoringStrategy.shape[0].score",
            "Invalid value: 11: not in valid range [0, 10]",
        ),
        (
            {"scoringStrategy": {"type": RATIO, "requestedToCapacityRatio": {"shape": [{"utilization": 5}, {"utilization": 5}]}}},
            "scoringStrategy.shape[1].utilization",
            "Invalid value: 5: values must be sorted in increasing order",
        ),
    ],
)
def test_arguments_of_node_resources_fit_are_refused_when_it_is_built(args: dict[str, Any], path: str, problem: str) -> None:
    ((found_path, found_problem),) = refused("NodeResourcesFit", args)
    assert found_path == path
    assert found_problem.startswith(f'initializing plugin "NodeResourcesFit": {path}: {problem}')


def test_arguments_of_node_resources_fit_are_not_looked_at_when_it_is_not_enabled() -> None:
    args = {"scoringStrategy": {"type": "Least"}}
    assert args_of("NodeResourcesFit", args, plugins={"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}) is None


@pytest.mark.parametrize(
    ("name", "args", "mistakes"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                ("minCandidateNodesPercentage", "Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute"),
                ("minCandidateNodesAbsolute", "Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage"),
            ],
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
            [
                ("minCandidateNodesPercentage", "Invalid value: 101: not in valid range [0, 100]"),
                ("minCandidateNodesAbsolute", "Invalid value: -1: not in valid range [0, inf)"),
            ],
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            [("hardPodAffinityWeight", "Invalid value: 101: not in valid range [0, 100]")],
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]},
            [("resources[1].name", 'Duplicate value: "cpu"'), ("resources[1].weight", "Invalid value: 2: must be 1")],
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1, "shape": [{"utilization": 0, "score": 1}]},
            [
                ("bindTimeoutSeconds", "Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"),
                (
                    "shape",
                    'Invalid value: [{"utilization":0,"score":1}]: unexpected field `shape`, remove it or turn on the feature gate '
                    "StorageCapacityScoring",
                ),
            ],
        ),
        ("DynamicResources", {"filterTimeout": "-1s"}, [("filterTimeout", 'Invalid value: "-1s": must be zero or positive')]),
        (
            "DynamicResources",
            {"bindingTimeout": "10s"},
            [("bindingTimeout", "Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled")],
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "Lists"},
            [("defaultingType", 'Unsupported value: "Lists": supported values: "System", "List", did you mean "List"?')],
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
            [("defaultingType", 'Invalid value: "System": when .defaultConstraints are not empty')],
        ),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"labelSelector": {}},
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
                ],
            },
            [
                ("defaultConstraints[0].maxSkew", "Invalid value: 0: not in valid range (0, inf)"),
                ("defaultConstraints[0].topologyKey", "Required value: can not be empty"),
                ("defaultConstraints[0].whenUnsatisfiable", "Required value: can not be empty"),
                ("defaultConstraints[0].labelSelector", "Forbidden: constraint must not define a selector, as they deduced for each pod"),
                ("defaultConstraints[2]", 'Duplicate value: "{zone, ScheduleAnyway}"'),
            ],
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "a", "operator": "In"},
                                    {"key": "a", "operator": "Exists", "values": ["b"]},
                                    {"key": "a", "operator": "Gt", "values": ["b"]},
                                    {"key": "a", "operator": "Equals"},
                                ],
                                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}],
                            }
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}},
                        {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}},
                    ],
                }
            },
            [
                (
                    "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values",
                    "Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
                ),
                (
                    "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1].values",
                    'Invalid value: ["b"]: values set must be empty for exists and does not exist',
                ),
                (
                    "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[2].values[0]",
                    "Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
                ),
                (
                    "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[3].operator",
                    'Unsupported value: "Equals": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
                ),
                (
                    "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values",
                    'Invalid value: ["a","b"]: must have one element',
                ),
                (
                    "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].preference.matchFields[0].operator",
                    'Unsupported value: "Exists": supported values: "In", "NotIn"',
                ),
            ],
        ),
    ],
)
def test_arguments_out_of_range_are_refused_in_the_words_of_kube_scheduler(
    name: str, args: dict[str, Any], mistakes: list[tuple[str, str]]
) -> None:
    assert refused(name, args) == mistakes


def test_a_gate_that_is_on_brings_its_fields_and_their_defaults() -> None:
    shape = args_of("VolumeBinding", {}, gates="StorageCapacityScoring=true").shape
    assert [(point.utilization, point.score) for point in shape] == [(0, 10), (100, 0)]
    assert args_of("DynamicResources", {}, gates="DRADeviceBindingConditions=true").binding_timeout == 600
    found = refused("DynamicResources", {"bindingTimeout": "900ms"}, gates="DRADeviceBindingConditions=true")
    assert found == [("bindingTimeout", 'Invalid value: "900ms": must be at least 1 second')]


def test_a_gate_that_is_off_takes_its_fields_away() -> None:
    assert args_of("DynamicResources", {}, gates="DRASchedulerFilterTimeout=false").filter_timeout is None
    found = refused("DynamicResources", {"filterTimeout": "5s"}, gates="DRASchedulerFilterTimeout=false")
    assert found == [("filterTimeout", "Forbidden: DRASchedulingFilterTimeout feature gate is disabled")]


def test_the_kind_of_the_arguments_may_be_left_out_but_must_fit() -> None:
    right = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
    assert args_of("InterPodAffinity", right).hard_pod_affinity_weight == 5
    assert refused("InterPodAffinity", {"kind": "NodeAffinityArgs"}) == [
        (
            "kind",
            'Invalid value: "NodeAffinityArgs": has to match plugin args: '
            "those of plugin InterPodAffinity are of kind InterPodAffinityArgs",
        )
    ]
    assert refused("InterPodAffinity", {"apiVersion": "v1"}) == [
        ("apiVersion", 'Invalid value: "v1": expected kubescheduler.config.k8s.io/v1')
    ]


def test_unknown_and_mistyped_arguments_are_refused_with_their_full_path() -> None:
    assert refused("InterPodAffinity", {"hardPodAffinityWeigth": 5, "ignorePreferredTermsOfExistingPods": "no"}) == [
        (
            "hardPodAffinityWeigth",
            '5: strict decoding error: unknown field "profiles[0].pluginConfig[0].args.hardPodAffinityWeigth", '
            'did you mean "hardPodAffinityWeight"?',
        ),
        ("ignorePreferredTermsOfExistingPods", '"no": expected true or false'),
    ]
    assert refused("InterPodAffinity", [1]) == [("", "[1]: expected a mapping")]


def test_arguments_for_a_plugin_that_does_not_exist_are_refused() -> None:
    expected = r'pluginConfig\[0\].name: Invalid value: "NodeResourceFit": no such plugin, did you mean "NodeResourcesFit"\?'
    with pytest.raises(ConfigError, match=expected):
        args_of("NodeResourceFit", {})


def test_a_plugin_without_a_class_of_arguments_keeps_them_as_they_are() -> None:
    assert args_of("NodeName", {"any": [1]}) == {"any": [1]}
    assert args_of("NodeName", None) is None


class MyArgs(PluginArgs):
    limit: int = 3

    def problems(self) -> list[tuple[str, str]]:
        return [] if self.limit > 0 else [("limit", f"Invalid value: {self.limit}: must be positive")]


@pytest.mark.parametrize(("limit", "expected"), [(5, None), (0, 'initializing plugin "Mine": limit: Invalid value: 0: must be positive')])
def test_an_out_of_tree_plugin_brings_its_own_class_of_arguments(limit: int, expected: str | None) -> None:
    environment = Environment(catalogue=Environment().catalogue.with_plugin("Mine", frozenset({"filter"}), MyArgs))
    value = configuration("Mine", {"limit": limit}, {"filter": {"enabled": [{"name": "Mine"}]}})
    if expected is None:
        assert load_config_object(value, environment).profiles[0].args["Mine"] == MyArgs(limit=5)
        return
    with pytest.raises(ConfigError) as error:
        load_config_object(value, environment)
    assert [mistake.problem for mistake in error.value.errors] == [expected]
