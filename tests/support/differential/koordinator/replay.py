"""Lets ours decide about a recorded trial, and says where it decides otherwise than the reference did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from koordsched.api.kinds import DEVICE, NODE_RESOURCE_TOPOLOGY, POD, kind_of
from koordsched.clock import VIRTUAL_EPOCH
from support.differential.choosing import Json, merged
from support.differential.comparison import differences
from support.differential.koordinator.allocations import allocation_differences
from support.differential.koordinator.circumstances import Circumstances
from support.differential.koordinator.deliberate import deliberate
from support.differential.koordinator.equal import comparable
from support.differential.koordinator.moments import absolute
from support.differential.koordinator.recording import RecordedStep, Recording
from support.differential.objects import LASTING
from support.differential.ours import Judgement, Ours
from support.differential.reference import Decision, unscheduled
from support.differential.reproduction import Case

BEGUN = int(VIRTUAL_EPOCH)


def replay(recording: Recording) -> Iterator[Case]:
    """Yield each pod with both decisions. After each, the cluster is made what it was after the reference's."""
    known = [body for body in recording.objects if kind_of(body["apiVersion"], body["kind"])]  # a RuntimeClass is the API server's alone
    with Ours(absolute(known, BEGUN), (), json.dumps(recording.config), recording.gates) as ours:
        writes = "DefaultPreBind" in enabled(recording.config)
        for step in recording.steps:
            ours.wait_until(step.at)
            ours.change(absolute(step.written, BEGUN), step.deleted)
            pod, others, pods = absolute(step.pod, BEGUN), ours.objects((*LASTING, DEVICE, NODE_RESOURCE_TOPOLOGY)), ours.objects((POD,))
            judgement = ours.judge(pod)
            decision = decision_of(step, pods)
            name = f"{recording.name}-{pod['metadata']['name']}"
            said, own = in_comparable_words(decision, judgement, pod)
            differing = differences(said, own)
            got, given = annotated(pod, step), {}
            if writes and judgement.best and decision.node in ("", *judgement.best):
                made = ours.place(pod, decision.node)
                given = made["metadata"].get("annotations", {})
                refusal = comparable(unscheduled(made), pod)
                if decision.message and refusal:  # found after Filter, by Reserve or PreBind
                    differing = [] if refusal == said.message else [f"the reference: {said.message}\nours:          {refusal}"]
                elif decision.node:
                    differing += allocation_differences(got, given)
            objects = [*others, *pods]
            circumstances = Circumstances(recording.config, objects, pod, decision, judgement, got, given, differing)
            rule = deliberate(circumstances) if differing else ""
            yield Case(name, objects, (), pod, decision, judgement, [] if rule else differing, recording.config, rule)
            left = [body for body in pods if body["metadata"]["name"] not in step.evicted]
            ours.follow([*left, bound(pod, step)] if step.node else left)


def enabled(config: Json) -> set[str]:
    """Return the plugins that the profile has besides Kubernetes' own."""
    return {each["name"] for each in config["profiles"][0]["plugins"]["multiPoint"]["enabled"]}


def decision_of(step: RecordedStep, pods: Sequence[Json]) -> Decision:
    """Return what the reference decided, its victims by their priorities."""
    scores = {node: {plugin: values[i] for plugin, values in step.scores.items()} for i, node in enumerate(step.nodes)}
    evicted = tuple(sorted(pod["spec"].get("priority", 0) for pod in pods if pod["metadata"]["name"] in step.evicted))
    return Decision("" if step.message else step.node, step.message, step.nominated, scores, [], evicted)


def in_comparable_words(decision: Decision, judgement: Judgement, pod: Json) -> tuple[Decision, Judgement]:
    said, own = comparable(decision.message, pod), comparable(judgement.message, pod)
    return decision._replace(message=said), judgement._replace(message=own)


def annotated(pod: Json, step: RecordedStep) -> dict[str, str]:
    """Return the pod's annotations after it had been bound."""
    return {**pod["metadata"].get("annotations", {}), **step.annotations}


def bound(pod: Json, step: RecordedStep) -> Json:
    """Return the pod as it was after it had been bound."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": absolute(step.scheduled, BEGUN)}
    status = {"phase": "Pending", "conditions": [condition]}
    return merged([pod, {"metadata": {"annotations": step.annotations}, "spec": {"nodeName": step.node}, "status": status}])
