"""A case that differs, for whoever has to find out why: a scenario that can be played, and both schedulers' scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import yaml

from support.differential.choosing import Json
from support.differential.ours import Judgement
from support.differential.pods import OVERHEAD, RUNTIME_CLASS
from support.differential.reference import Decision

CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OWN_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
NOT_PART = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp", "selfLink"})


class Case(NamedTuple):
    """One pod on one cluster as it was when the pod came. `deliberate` names why both answers may differ, and then they do not count."""

    name: str
    objects: Sequence[Json]
    terminating: Sequence[Json]
    pod: Json
    theirs: Decision
    ours: Judgement
    differences: Sequence[str]
    config: Json = CONFIG
    deliberate: str = ""


def report(case: Case) -> str:
    """Return all that is known of the case."""
    parts = [f"# {case.name}", *(f"# differs: {line}" for each in case.differences for line in each.splitlines())]
    parts += ["# our scores, raw/normalised/weighted:", *(f"#   {line}" for line in our_scores(case.ours))]
    parts += ["# the reference's log of the pod:", *(f"#   {line}" for line in case.theirs.log), scenario(case)]
    return "\n".join(parts)


def our_scores(ours: Judgement) -> Iterable[str]:
    yield f"best: {', '.join(sorted(ours.best)) or 'none'}"
    for node, plugins in sorted(ours.scores.items()):
        terms = ", ".join(f"{plugin} {score.raw}/{score.normalised}/{score.weighted}" for plugin, score in plugins.items())
        yield f"{node}: {sum(score.weighted for score in plugins.values())} = {terms}"


def scenario(case: Case) -> str:
    """Write the case as a scenario that expects what kube-scheduler did."""
    given = [shown(body) for body in case.objects if worth_showing(body)]
    steps: list[Json] = [{"delete": [target(pod) for pod in case.terminating]}] if case.terminating else []
    key = f"{case.pod['metadata'].get('namespace', 'default')}/{case.pod['metadata']['name']}"
    expected = {"pending": case.theirs.message} if case.theirs.message else {"node": case.theirs.node}
    steps += [{"create": [shown(with_overhead(case.pod))]}, {"expect": {"pods": {key: expected}}}]
    body = {"name": case.name, "why": "The reference does so.", "config": case.config, "given": given, "steps": steps}
    return yaml.dump(body, Dumper=Plain, sort_keys=False, width=140, default_flow_style=None)


class Plain(yaml.SafeDumper):
    """Writes what is shared in full each time."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def worth_showing(body: Json) -> bool:
    name = body["metadata"]["name"]
    return not (body["kind"] == "Namespace" and name in OWN_NAMESPACES) and not name.startswith("system-") and name != "kubernetes"


def with_overhead(pod: Json) -> Json:
    """Write the overhead of the pod's class into it, as the API server does: the embedded cluster has no such classes."""
    if pod["spec"].get("runtimeClassName") != OVERHEAD:
        return pod
    return {**pod, "spec": {**pod["spec"], "overhead": RUNTIME_CLASS["overhead"]["podFixed"]}}


def target(body: Json) -> Json:
    return {"kind": body["kind"], "name": body["metadata"]["name"], "namespace": body["metadata"].get("namespace", "default")}


def shown(body: Json) -> Json:
    """Return the object without what the API server has written into it."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in NOT_PART}
    spec = {key: value for key, value in (body.get("spec") or {}).items() if key not in UNINTERESTING}
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}
    rest = {key: value for key, value in body.items() if key not in {*head, "spec", "status"}}
    status = {key: value for key, value in (body.get("status") or {}).items() if key in SHOWN_STATUS}
    return {**head, **rest, **({"spec": spec} if spec else {}), **({"status": status} if status else {})}


SHOWN_STATUS = frozenset({"allocatable", "conditions", "disruptionsAllowed", "images", "nodeMetric", "phase", "podsMetric", "updateTime"})
UNINTERESTING = frozenset(
    {
        "dnsPolicy",
        "enableServiceLinks",
        "restartPolicy",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "preemptionPolicy",
        "runtimeClassName",
    }
)
