"""What every generator of histories makes."""

from __future__ import annotations

from typing import NamedTuple

from support.differential.choosing import Json
from support.differential.koordinator.generated import SCHEDULER_NAME
from support.koordinator_chart import ChartValues, configuration

LIFE = "life"
"""The label of nodes by which pods stay on those of their life."""


class Change(NamedTuple):
    """One change of an object. verb: "create" with the object, "delete" with what names it, "patch" or "status" with that and the patch."""

    verb: str
    body: Json


class Life(NamedTuple):
    """What happens on some nodes; names of objects begin with `name` and a dash. The changes of one step are made at the same time.

    objects: the nodes, and what else is there before the scheduler starts.
    """

    name: str
    objects: list[Json]
    steps: list[list[Change]]


class History(NamedTuple):
    """config: a KubeSchedulerConfiguration. flags: of the scheduler. lives: played on one cluster at the same time."""

    config: Json
    lives: list[Life]
    flags: tuple[str, ...] = ()


def chart_profile() -> Json:
    """Return what Koordinator's chart configures, except that a refused pod is tried again after a second and all nodes are looked at."""
    config = configuration(ChartValues())
    del config["leaderElection"]
    return {**config, "percentageOfNodesToScore": 100, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def node(life: str, name: str, cpu: str, memory: str, **labels: str) -> Json:
    amounts = {"cpu": cpu, "memory": memory, "pods": "20"}
    own = {"kubernetes.io/hostname": f"{life}-{name}", LIFE: life, **labels}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{life}-{name}", "labels": own}, "status": status}


def pod(life: str, name: str, requests: Json, **metadata: Json) -> Json:
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    spec = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "nodeSelector": {LIFE: life}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{life}-{name}", "namespace": "default", **metadata}, "spec": spec}


def named(body: Json) -> Json:
    """Return what names the object."""
    kept = {key: value for key, value in body["metadata"].items() if key in {"name", "namespace"}}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": kept}
