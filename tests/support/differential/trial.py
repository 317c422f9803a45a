"""Plays clusters, each with pods one after another, and collects the cases in which the two schedulers differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Refused, Rest
from support.differential.choosing import Json
from support.differential.clusters import GeneratedCluster, cluster
from support.differential.comparison import differences
from support.differential.features import Feature
from support.differential.objects import CHANGING, LASTING, address, create, everything
from support.differential.ours import Ours, lost
from support.differential.pods import Circumstances, pending_pod
from support.differential.reference import ReferenceScheduler, kube_scheduler
from support.differential.reproduction import Case

PODS = 30
UNPROCESSABLE = 422


class Plan(NamedTuple):
    """How much to play; all of it follows from the seed."""

    seed: int
    cases: int
    features: frozenset[Feature]


class Trial(NamedTuple):
    """What came of it: how many pods ended how, and the cases that differ."""

    outcomes: Counter[str]
    differing: list[Case]


def play(plane: ControlPlane, plan: Plan) -> Trial:
    """Play clusters of 30 pods each until there are enough cases."""
    outcomes: Counter[str] = Counter()
    differing = []
    number = 0
    while outcomes.total() < plan.cases:
        for case in play_cluster(plane, plan, number):
            outcomes["bound" if case.theirs.node else "nominated" if case.theirs.nominated else "refused"] += 1
            if case.differences:
                differing.append(case)
            if outcomes.total() == plan.cases:
                break
        number += 1
    return Trial(outcomes, differing)


def play_cluster(plane: ControlPlane, plan: Plan, number: int) -> Iterator[Case]:
    """Play one cluster; what it is depends on the seed and its number alone."""
    random = Random(f"{plan.seed} {number}")
    plane.restore()
    rest = plane.rest()
    made = cluster(random, plan.features)
    set_up(rest, made)
    circumstances = Circumstances(plan.features, made.claims)
    lasting, changing = everything(rest, LASTING), everything(rest, CHANGING)
    with ReferenceScheduler(plane, rest, kube_scheduler(plane)) as kube, Ours([*lasting, *changing], made.terminating) as ours:
        for i in range(PODS):
            pod = pending_pod(random, f"p{i}", circumstances)
            judgement, decision = ours.judge(as_stored(rest, pod)), kube.decide(pod)
            before, changing = changing, everything(rest, CHANGING)
            ours.follow(changing)
            decision = decision._replace(evicted=lost(before, changing))
            name = f"seed-{plan.seed}-cluster-{number}-pod-{i}"
            differing = differences(decision, judgement)
            yield Case(name, [*lasting, *before], made.terminating, pod, decision, judgement, differing)


def set_up(rest: Rest, made: GeneratedCluster) -> None:
    for body in made.objects:
        create(rest, body)
    for pod in made.terminating:
        rest.delete(address(pod).of(pod["metadata"]["name"]))


def as_stored(rest: Rest, pod: Json) -> Json:
    """Return the pod as the API server would store it, with all defaults. Refused: the generator has made an invalid one."""
    try:
        stored: Json = rest.create(f"{address(pod).collection}?dryRun=All", pod)
    except Refused as refused:
        raise AssertionError(f"the API server refuses a generated pod: {refused}\n{pod}") from None
    return stored
