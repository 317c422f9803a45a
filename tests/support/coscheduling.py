"""Clusters with the plugin Coscheduling, and gangs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koordsched.api.kinds import POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.config import Environment, SchedulerConfiguration, load_config_object
from koordsched.embedded.cluster import EmbeddedCluster
from support.fakes import SCHEDULER, pod_manifest

POINTS = ("preEnqueue", "preFilter", "postFilter", "preScore", "score", "reserve", "permit", "preBind", "postBind")


def coscheduling_profile(name: str = SCHEDULER, *, others: Sequence[str] = (), **args: Any) -> dict[str, Any]:
    """Return a profile in which Coscheduling runs at all its points, and preempts alone. others: plugins at preFilter and reserve.

    args: CoschedulingArgs.
    """
    plugins: dict[str, Any] = {point: {"enabled": [{"name": "Coscheduling"}]} for point in POINTS}
    plugins["postFilter"]["disabled"] = [{"name": "*"}]
    plugins["preBind"]["enabled"].append({"name": "DefaultPreBind"})
    for point in ("preFilter", "reserve"):
        plugins[point]["enabled"] += [{"name": other} for other in others]
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": [{"name": "Coscheduling", "args": args}]}


def coscheduling_config(*profiles: dict[str, Any]) -> SchedulerConfiguration:
    """Return the configuration with these profiles, or with one of Coscheduling's defaults."""
    found = list(profiles) or [coscheduling_profile()]
    configuration = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": found}
    return load_config_object(configuration, Environment())


async def create_pod_group(world: EmbeddedCluster, name: str, least: int, annotations: Mapping[str, str] | None = None) -> None:
    metadata = {"name": name, "namespace": "default", "annotations": dict(annotations or {})}
    await world.create(POD_GROUP, {"metadata": metadata, "spec": {"minMember": least}})


async def create_member(
    world: EmbeddedCluster, gang: str, name: str, cpu: str = "1", annotations: Mapping[str, str] | None = None, **spec: Any
) -> None:
    made = pod_manifest(name, cpu)
    made["metadata"] |= {"labels": {POD_GROUP_LABEL: gang}, "annotations": dict(annotations or {})}
    made["spec"] |= spec
    await world.create(POD, made)
