"""What ours does otherwise than the reference's NodeNUMAResource because that is wrong or gives up too early (docs/differences.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from koordsched.api.koordinator.cpulist import parse_cpus
from koordsched.api.koordinator.topology import CPU_TOPOLOGY
from support.differential.choosing import Json
from support.differential.koordinator.circumstances import Circumstances, Rule
from support.differential.koordinator.devices import NUMA_POLICY
from support.differential.koordinator.numa_nodes import AMPLIFICATION
from support.differential.koordinator.numa_pods import NUMA_SPEC, RESOURCE_STATUS

NOT_ENOUGH = r"Insufficient NUMA \w+|node\(s\) missing NUMA resources|not enough cpus available to satisfy request"
IN_RESERVE = re.compile(rf"0/1 nodes are available: 1 ({NOT_ENOUGH})\.")
"""A node that was chosen, and refused by Reserve."""
IN_SCORE = re.compile(rf'running Score plugins: plugin "NodeNUMAResource" failed with: ({NOT_ENOUGH})')
NO_CHOICE = re.compile(r"\d+ (Unsatisfied NUMA \w+|Unaligned NUMA Hint cause [\w ,\[\]]*?(?=, \d+ [A-Za-z]|\.))")
"""Why no choice of NUMA nodes will do."""
SCORED_NODE = re.compile(r"\w+ on (\w+): the reference ")
"""A line about the score of a plugin on a node."""


def refused_in_reserve(case: Circumstances) -> bool:
    """Say whether ours refuses in Filter what the reference refuses in Reserve, or while it scores.

    These are nodes under BestEffort, and those without the CPUs that a pod only prefers to bind.
    """
    if IN_RESERVE.fullmatch(case.theirs.message) or IN_SCORE.fullmatch(case.theirs.message):
        return True
    theirs, ours = case.feasible()
    refused = theirs - ours | ({case.theirs.nominated} - {"", case.ours.nominated})
    anywhere = may_prefer_binding(case.pod) or says_best_effort(case.pod)
    return ours <= theirs and bool(refused) and (anywhere or refused <= under_best_effort(case.objects))


def may_prefer_binding(pod: Json) -> bool:
    return pod["metadata"].get("labels", {}).get("koordinator.sh/qosClass") in ("LSR", "LSE")


def says_best_effort(pod: Json) -> bool:
    spec: Json = json.loads(pod["metadata"].get("annotations", {}).get(NUMA_SPEC, "{}"))
    return spec.get("numaTopologyPolicy") == "BestEffort"


def under_best_effort(objects: Sequence[Json]) -> frozenset[str]:
    return frozenset(name for name, found in policies(objects).items() if "BestEffort" in found)


def under_a_policy(objects: Sequence[Json]) -> frozenset[str]:
    return frozenset(name for name, found in policies(objects).items() if found)


def policies(objects: Sequence[Json]) -> dict[str, list[str]]:
    """Return each node's policies: that of its label, or those of its NodeResourceTopology where the label says nothing."""
    reported = {body["metadata"]["name"]: body["topologyPolicies"] for body in objects if body["kind"] == "NodeResourceTopology"}
    labels = {body["metadata"]["name"]: body["metadata"].get("labels", {}).get(NUMA_POLICY) for body in objects if body["kind"] == "Node"}
    return {name: [label] if label else reported.get(name, []) for name, label in labels.items()}


def as_many_as_can_be_bound(case: Circumstances) -> bool:
    """Say whether it is about CPUs of several NUMA nodes: the reference takes equal shares, ours what is free on each."""
    theirs, ours = case.feasible()
    if theirs < ours:
        return ours - theirs <= under_a_policy(case.objects)
    return bool(case.theirs.message) and without_choices(case.theirs.message) == without_choices(case.ours.message)


def without_choices(message: str) -> str:
    """Return the message without what it says of choices of NUMA nodes, and without what is between its parts."""
    return re.sub("[, ]", "", NO_CHOICE.sub("", message))


def victims_leave_their_numa_nodes(case: Circumstances) -> bool:
    """Say whether ours makes room for a pod that must have a NUMA node to itself: for the reference its victims are still there."""
    found_then = case.theirs.message.partition("preemption: ")[2]
    return bool(case.ours.nominated) and NUMA_SPEC in case.pod["metadata"].get("annotations", {}) and "Unaligned NUMA Hint" in found_then


def amounts_have_gone(case: Circumstances) -> bool:
    """Say whether it is about amplified CPUs on NUMA nodes of which no pod has amounts now.

    The reference amplifies these if a pod has had amounts there since it started, ours does not.
    """
    nodes = {body["metadata"]["name"] for body in case.objects if body["kind"] == "Node" and keeps_cpus_without_amounts(body, case.objects)}
    theirs, ours = case.feasible()
    scored = {found[1] for line in case.differences if (found := SCORED_NODE.match(line))}
    looked_at = {case.theirs.node, *case.ours.best} | scored
    return bool(nodes & looked_at) and theirs <= ours and ours - theirs <= nodes and scored <= nodes


def keeps_cpus_without_amounts(node: Json, objects: Sequence[Json]) -> bool:
    """Answer whether a node with amplified cpu has a NUMA node of which pods have CPUs and no pod has amounts."""
    name = node["metadata"]["name"]
    if annotation(node, AMPLIFICATION).get("cpu", 1) <= 1:
        return False
    reported = [body for body in objects if body["kind"] == "NodeResourceTopology" and body["metadata"]["name"] == name]
    numa_nodes = {each["id"]: each["node"] for body in reported for each in annotation(body, CPU_TOPOLOGY).get("detail", ())}
    held = [annotation(body, RESOURCE_STATUS) for body in objects if body["kind"] == "Pod" and body["spec"].get("nodeName") == name]
    cpus = [parse_cpus(status.get("cpuset", "")) for status in held]
    with_cpus = {numa_node for cpu, numa_node in numa_nodes.items() if any(mask >> cpu & 1 for mask in cpus)}
    with_amounts = {each["node"] for status in held for each in status.get("numaNodeResources", ())}
    return bool(with_cpus - with_amounts)


def annotation(body: Json, key: str) -> Json:
    """Return an annotation that holds a JSON object; one that cannot be read is as none."""
    try:
        found: Json = json.loads(body["metadata"].get("annotations", {}).get(key, "{}"))
    except ValueError:
        return {}
    return found


RULES: tuple[Rule, ...] = (refused_in_reserve, as_many_as_can_be_bound, victims_leave_their_numa_nodes, amounts_have_gone)
