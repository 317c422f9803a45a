"""Random trials for LoadAwareScheduling, NodeResourcesFitPlus and ScarceResourceAvoidance (frameworkext.md §5, §6).

Between two pods the usage of some nodes is reported anew or withdrawn, thresholds change, and bound pods go or get on.
"""

from __future__ import annotations

from random import Random

from support.differential.choosing import Json, merged
from support.differential.koordinator.arguments import fit_plus, load_aware, scarce
from support.differential.koordinator.generated import GeneratedTrial, Step, configuration
from support.differential.koordinator.node_metrics import node_metric
from support.differential.koordinator.nodes import node, without_reservation
from support.differential.koordinator.pods import RUNTIME_CLASS, bound_pod, overhead, pending_pod, progress
from support.differential.koordinator.vocabulary import PRIORITY_CLASSES

PODS = 25


def trial(random: Random) -> GeneratedTrial:
    """Make a cluster of three to eight nodes with PODS pods to schedule."""
    arguments = [each(random) for chance, each in ((0.95, load_aware), (0.6, fit_plus), (0.6, scarce)) if random.random() < chance]
    plugins = [{"name": each["kind"].removesuffix("Args"), "weight": random.choice([1, 1, 2, 5])} for each in arguments]
    nodes = [without_reservation(node(random, f"n{i}")) for i in range(random.randint(3, 8))]
    running = [bound_pod(random, f"r{i}", random.choice(nodes)["metadata"]["name"]) for i in range(random.randint(0, 3 * len(nodes)))]
    reported = [("default", f"p{i}") for i in range(0, PODS, 3)]
    metrics = [node_metric(random, each, reportable(random, each, running, reported)) for each in nodes if random.random() < 0.92]
    metrics += [node_metric(random, {**nodes[0], "metadata": {"name": "gone"}}, reported)] if random.random() < 0.2 else []
    # NodeResourcesFitPlus of the reference ends its process at a pod with overhead (differences.md).
    with_overhead = 0.0 if any(each["kind"].startswith("NodeResourcesFitPlus") for each in arguments) else 0.1
    objects, steps = [*PRIORITY_CLASSES, RUNTIME_CLASS, *nodes, *metrics, *running], []
    for i in range(PODS):
        written, deleted = changes(random, nodes, running, reported) if i and random.random() < 0.4 else ([], [])
        pod = pending_pod(random, f"p{i}")
        steps.append(Step(written, deleted, merged([pod, overhead(random)]) if random.random() < with_overhead else pod))
    return GeneratedTrial(configuration({"multiPoint": {"enabled": plugins}}, arguments), objects, steps)


def reportable(random: Random, on: Json, running: list[Json], others: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Name most pods of the node, and some that may be anywhere."""
    own = [("default", pod["metadata"]["name"]) for pod in running if pod["spec"]["nodeName"] == on["metadata"]["name"]]
    return [each for each in own if random.random() < 0.8] + [each for each in others if random.random() < 0.2]


def changes(random: Random, nodes: list[Json], running: list[Json], reported: list[tuple[str, str]]) -> tuple[list[Json], list[Json]]:
    """Return what is written and what is deleted. A node or pod that is written is the same one from then on."""
    i = random.randrange(len(nodes))
    kind = random.choices(["metric", "no metric", "node", "progress", "delete"], [50, 8, 17, 15, 10])[0]
    if kind == "metric":
        return [node_metric(random, nodes[i], reportable(random, nodes[i], running, reported))], []
    if kind == "no metric":
        return [], [node_metric(random, nodes[i], [])]
    if kind == "node":
        nodes[i] = node(random, nodes[i]["metadata"]["name"])
        return [nodes[i]], []
    if not running:
        return [], []
    pod = running.pop(random.randrange(len(running)))
    if kind == "delete":
        return [], [pod]
    running.append({**pod, "status": progress(random)})
    return [running[-1]], []
