"""Plays a generated trial on the reference and records what it decides."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from koordsched.api.kinds import POD, kind_of
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.differential.choosing import Json
from support.differential.koordinator.areas import AREAS
from support.differential.koordinator.koord_scheduler import koord_scheduler
from support.differential.koordinator.moments import absolute, relative
from support.differential.koordinator.recording import RecordedStep, Recording
from support.differential.objects import address, create, everything
from support.differential.reference import ReferenceScheduler, Scores
from support.differential.replacing import patches

SEEN_SECONDS = 0.15
"""Until a watch has brought the reference what was written: nothing says when it has."""
MOST_SECONDS = 80
"""A trial takes less, or usage would expire that was not meant to (`node_metrics.UPDATED`)."""


def record(plane: ControlPlane, executable: Path, area: str, seed: int, number: int) -> Recording:
    """Play one trial; what it is depends on the area, the seed and the number alone."""
    trial = AREAS[area](Random(f"{area} {seed} {number}"))
    plane.restore()
    rest = plane.rest()
    begun = int(time.time())
    for body in trial.objects:
        create(rest, absolute(body, begun))
    steps = []
    flags = [f"--feature-gates={trial.gates}"] if trial.gates else []
    with ReferenceScheduler(plane, rest, koord_scheduler(executable, trial.config, flags)) as reference:
        for step in trial.steps:
            change(rest, absolute(step.written, begun), step.deleted)
            at, before = round(time.time()) - begun, everything(rest, (POD,))
            decision = reference.decide(absolute(step.pod, begun))
            after = {pod["metadata"]["name"]: pod for pod in everything(rest, (POD,))}
            bound = after.get(step.pod["metadata"]["name"])
            names = sorted(decision.scores)
            steps.append(
                RecordedStep(
                    at,
                    step.pod,
                    written=step.written,
                    deleted=[head(body) for body in step.deleted],
                    node=bound["spec"]["nodeName"] if bound else "",
                    scheduled=relative(scheduled_at(bound), begun) if bound else "",
                    message=decision.message,
                    nominated=decision.nominated,
                    nodes=names,
                    scores=by_plugin(names, decision.scores),
                    evicted=sorted(pod["metadata"]["name"] for pod in before if pod["metadata"]["name"] not in after),
                    annotations=added(step.pod, bound) if bound else {},
                )
            )
    assert at <= MOST_SECONDS, f"the trial took {at} s: usage has expired meanwhile"
    return Recording(f"{area}-{seed}-{number}", trial.config, trial.objects, steps, trial.gates)


def change(rest: Rest, written: list[Json], deleted: list[Json]) -> None:
    """Write and delete, and let the reference see it. A pod that was evicted stays away; anything else that is missing is created."""
    for body in written:
        kind, path = kind_of(body["apiVersion"], body["kind"]), address(body).of(body["metadata"]["name"])
        assert kind is not None
        present = rest.get_or_none(path)
        if present is None and kind != POD:
            create(rest, body)
        for subresource, patch in patches(kind, present, body) if present else ():
            rest.patch(f"{path}/{subresource}".removesuffix("/"), patch)
    for body in deleted:
        path = address(body).of(body["metadata"]["name"])
        if rest.get_or_none(path):
            rest.delete(f"{path}?gracePeriodSeconds=0")
    if written or deleted:
        time.sleep(SEEN_SECONDS)


def head(body: Json) -> Json:
    """Return what names the object."""
    metadata = {key: value for key, value in body["metadata"].items() if key in {"name", "namespace"}}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata}


def scheduled_at(pod: Json) -> str:
    """Return when a pod that the reference has bound was scheduled, as the API server says."""
    return str(next(each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == "PodScheduled"))


def added(pod: Json, bound: Json) -> dict[str, str]:
    """Return the annotations that the pod has since it was bound and that it did not have, or not so."""
    before = pod["metadata"].get("annotations", {})
    return {key: value for key, value in bound["metadata"].get("annotations", {}).items() if before.get(key) != value}


def by_plugin(nodes: list[str], scores: Scores) -> dict[str, list[int]]:
    """Return the scores of each plugin that gave a node any."""
    plugins = sorted({plugin for node in nodes for plugin, score in scores[node].items() if score})
    return {plugin: [scores[node].get(plugin, 0) for node in nodes] for plugin in plugins}
