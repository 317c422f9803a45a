"""The profile that Koordinator's chart v1.8.0 ships (frameworkext.md §2.2), and its copy for a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from koordsched.config import default_config
from koordsched.config.loading import DEFAULT_FILE
from koordsched.config.validate import config_warnings

CHECKOUT = Path(__file__).parents[3]
IN_TREE_FILTERS = 13


def test_the_file_for_a_cluster_is_the_one_in_the_package() -> None:
    assert yaml.safe_load((CHECKOUT / "config" / "koord-scheduler-config.yaml").read_text()) == json.loads(Path(DEFAULT_FILE).read_text())


def test_the_plugins_of_every_point_are_the_charts() -> None:
    (profile,) = default_config().profiles
    at = {point: [ref.name for ref in refs] for point, refs in profile.points.items()}
    assert profile.scheduler_name == "koord-scheduler"
    assert at["preEnqueue"] == ["SchedulingGates", "DynamicResources", "DefaultPreemption", "Coscheduling"]
    assert at["queueSort"] == ["PrioritySort"]
    own = ["SchedulingHint", "Coscheduling", "Reservation", "NodeNUMAResource", "DeviceShare", "ElasticQuota"]
    assert at["preFilter"][-6:] == own
    assert at["preFilter"][0] == "NodeAffinity"
    assert at["filter"][IN_TREE_FILTERS:] == ["Reservation", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare"]
    assert at["postFilter"] == ["Reservation", "Coscheduling", "ElasticQuota"]
    assert at["preScore"][-2:] == ["Reservation", "Coscheduling"]
    assert [(ref.name, ref.weight) for ref in profile.points["score"]][9:] == [
        ("LoadAwareScheduling", 1),
        ("NodeNUMAResource", 1),
        ("DeviceShare", 1),
        ("Reservation", 5000),
        ("Coscheduling", 1),
    ]
    reserving = ["Reservation", "LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Coscheduling", "ElasticQuota"]
    assert at["reserve"] == ["VolumeBinding", "DynamicResources", *reserving]
    assert at["permit"] == at["postBind"] == ["Coscheduling"]
    assert at["preBind"][2:] == ["NodeNUMAResource", "DeviceShare", "Reservation", "Coscheduling", "DefaultPreBind"]
    assert at["bind"] == ["Reservation", "DefaultBinder"]


def test_the_arguments_and_the_lease_are_the_charts() -> None:
    config = default_config()
    args = config.profiles[0].args
    resources = args["NodeResourcesFit"].scoring_strategy.resources
    batch = ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"]
    assert [(spec.name, spec.weight) for spec in resources] == [(name, 1) for name in ("cpu", "memory", *batch)]
    load_aware = args["LoadAwareScheduling"]
    assert (load_aware.filter_expired_node_metrics, load_aware.node_metric_expiration_seconds) == (False, 300)
    assert load_aware.usage_thresholds == {"cpu": 65, "memory": 95}
    assert args["ElasticQuota"].quota_group_namespace == "koordinator-system"
    assert (args["Coscheduling"].enable_preemption, args["Coscheduling"].aware_network_topology) == (True, True)
    assert [(model.vendor, model.model) for model in args["DeviceShare"].gpu_share_unsupported_models] == [
        ("huawei", "Ascend-310P3-300I-DUO")
    ]
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == ("koordinator-system", "koord-scheduler")


def test_nothing_in_it_is_doubtful() -> None:
    assert list(config_warnings(default_config())) == []
