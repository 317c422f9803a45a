"""What every generator makes: a cluster, and what happens on it."""

from __future__ import annotations

from typing import NamedTuple

from support.differential.choosing import Json

SCHEDULER_NAME = "koord-scheduler"


class Step(NamedTuple):
    """What happens to the cluster, and the pod that is scheduled then.

    `written` are whole objects, which are created or take the place of what is there. `deleted` name objects by kind, namespace and name;
    they may be gone already.
    """

    written: list[Json]
    deleted: list[Json]
    pod: Json


class GeneratedTrial(NamedTuple):
    """Moments are relative (`moments.py`). `config` is a KubeSchedulerConfiguration with one profile, `SCHEDULER_NAME`.

    `gates` is what --feature-gates says.
    """

    config: Json
    objects: list[Json]
    steps: list[Step]
    gates: str = ""


def configuration(plugins: Json, arguments: list[Json]) -> Json:
    """Write the configuration of a profile that has these plugins and arguments besides Kubernetes' own."""
    entries = [{"name": each["kind"].removesuffix("Args"), "args": each} for each in arguments]
    profile = {"schedulerName": SCHEDULER_NAME, "plugins": plugins, "pluginConfig": entries}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }


def arguments_of(plugin: str, fields: Json) -> Json:
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args", **fields}
