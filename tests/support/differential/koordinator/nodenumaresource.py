"""Random trials for NodeNUMAResource: CPUs bound by pods and by nodes, NUMA policies of both, amplified CPUs (nodenumaresource.md).

Between two pods some that hold CPUs end or are deleted, policies of nodes change, and topologies are reported anew.
"""

from __future__ import annotations

from random import Random

from support.differential.choosing import Json, merged, some
from support.differential.koordinator.generated import GeneratedTrial, Step, arguments_of, configuration
from support.differential.koordinator.numa_nodes import NUMA_POLICIES, NUMA_POLICY, Machine, holding_pods, machine, topology
from support.differential.koordinator.numa_pods import pending_pod
from support.differential.koordinator.vocabulary import PRIORITY_CLASSES

PODS = 20


def trial(random: Random) -> GeneratedTrial:
    """Make a cluster of one to four nodes with PODS pods to schedule."""
    machines = [machine(random, f"n{i}") for i in range(random.choice([1, 2, 3, 3, 4]))]
    running = holding_pods(random, machines)
    described = [body for each in machines for body in (each.node, each.topology) if body is not None]
    steps = []
    for i in range(PODS):
        written, deleted = changes(random, machines, running, i) if i and random.random() < 0.5 else ([], [])
        steps.append(Step(written, deleted, pending_pod(random, f"p{i}")))
    enabled = [{"name": "NodeNUMAResource", "weight": random.choice([1, 1, 3])}, {"name": "Reservation"}, {"name": "DefaultPreBind"}]
    plugins = {"multiPoint": {"enabled": enabled}}
    return GeneratedTrial(configuration(plugins, [arguments(random)]), [*PRIORITY_CLASSES, *described, *running], steps)


def arguments(random: Random) -> Json:
    """Return arguments. Both strategies have the same resources: the reference reads those of the first for the second (§16, D10)."""
    fields: Json = {}
    if random.random() < 0.4:
        fields["defaultCPUBindPolicy"] = random.choice(["FullPCPUs", "SpreadByPCPUs"])
    if random.random() < 0.6:
        resources = [{"name": name, "weight": random.choice([1, 1, 3])} for name in some(random, ("cpu", "memory"), 2)]
        for name in ("scoringStrategy", "numaScoringStrategy"):
            fields[name] = {"type": random.choice(["LeastAllocated", "MostAllocated"]), "resources": resources}
    return arguments_of("NodeNUMAResource", fields)


def changes(random: Random, machines: list[Machine], running: list[Json], coming: int) -> tuple[list[Json], list[Json]]:
    """Return what is written and what is deleted before the coming pod."""
    i = random.randrange(len(machines))
    kind = random.choices(["release", "done", "policy", "topology"], [60, 15, 15, 10])[0]
    if kind == "done" and running:
        return [{**running.pop(random.randrange(len(running))), "status": {"phase": "Succeeded"}}], []
    if kind == "policy":
        changed = merged([machines[i].node, {"metadata": {"labels": {NUMA_POLICY: random.choice([*NUMA_POLICIES, ""])}}}])
        machines[i] = machines[i]._replace(node=changed)
        return [changed], []
    if kind == "topology" and machines[i].topology:
        changed = topology(random, machines[i].node["metadata"]["name"], machines[i].layout)
        return [changed], []
    if kind == "release":
        names = random.sample([f"p{number}" for number in range(coming)], min(coming, 3))
        return [], [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}} for name in names]
    return [], []
