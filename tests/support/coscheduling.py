"""Clusters with the plugin Coscheduling."""

from __future__ import annotations

from typing import Any

from koordsched.config import Environment, SchedulerConfiguration, load_config_object
from support.fakes import SCHEDULER

POINTS = ("preEnqueue", "preFilter", "postFilter", "preScore", "score", "reserve", "permit", "preBind", "postBind")


def coscheduling_profile(name: str = SCHEDULER, **args: Any) -> dict[str, Any]:
    """Return a profile in which Coscheduling runs at all its points, and preempts alone. args: CoschedulingArgs."""
    plugins: dict[str, Any] = {point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS}
    plugins["postFilter"]["disabled"] = [{"name": "*"}]
    plugins["preBind"]["enabled"].append({"name": "DefaultPreBind"})
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": [{"name": "Coscheduling", "args": args}]}


def coscheduling_config(*profiles: dict[str, Any]) -> SchedulerConfiguration:
    """Return the configuration with these profiles, or with one of Coscheduling's defaults."""
    found = list(profiles) or [coscheduling_profile()]
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": found}
    return load_config_object(configuration, Environment())
