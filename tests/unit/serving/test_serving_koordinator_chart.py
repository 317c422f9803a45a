"""What Koordinator's chart v1.8.0 installs is understood as it is: arguments and configuration, with each documented value changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.koordinator_chart import CHANGED, CONFIG_KEY, PATHS, ChartValues, config_map, deployment

from koordsched.config import default_config, load_config
from koordsched.config.flags import not_acted_on, parse_flags


def container(values: ChartValues) -> dict[str, Any]:
    (found,) = deployment(values)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def loaded(values: ChartValues, folder: Path) -> Any:
    path = folder / "config.yaml"
    path.write_text(config_map(values)["data"][CONFIG_KEY], encoding="utf-8")
    return load_config(path)


def test_every_documented_value_has_another_one_here() -> None:
    assert CHANGED.keys() == PATHS.keys() == set(ChartValues._fields)
    defaults = ChartValues()._asdict()
    assert [name for name, value in CHANGED.items() if defaults[name] == value] == []


def test_its_arguments_are_acted_on_and_its_configuration_is_the_shipped_one(tmp_path: Path) -> None:
    flags = parse_flags(container(ChartValues())["args"])
    assert not_acted_on(flags) == ()
    assert (flags.port, flags.v, flags.authentication_skip_lookup, flags.enable_network_topology_manager) == (10251, 4, True, True)
    assert flags.config == "/config/koord-scheduler.config"
    assert loaded(ChartValues(), tmp_path) == default_config()


@pytest.mark.parametrize("name", CHANGED)
def test_another_value_is_understood(tmp_path: Path, name: str) -> None:
    values = ChartValues()._replace(**{name: CHANGED[name]})
    flags = parse_flags(container(values)["args"])
    assert (flags.port, str(flags.v)) == (values.port, values.log_level)
    assert flags.gates["MultiQuotaTree"] is (name == "feature_gates")
    config = loaded(values, tmp_path)
    (profile,) = config.profiles
    assert config.leader_election.resource_namespace == values.namespace
    assert profile.args["ElasticQuota"].quota_group_namespace == values.namespace
    assert profile.args["Coscheduling"].enable_preemption is values.job_preemption
    assert ("DefaultPreemption" in {plugin.name for plugin in profile.points["postFilter"]}) is not values.job_preemption
    models = [{"vendor": model.vendor, "model": model.model} for model in profile.args["DeviceShare"].gpu_share_unsupported_models]
    assert models == [dict(model) for model in values.unshareable]
