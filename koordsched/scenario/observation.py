"""What a scenario sees of the cluster at one moment: everything that an `expect` block asks about, as JSON.

`look` does the reading; `Seen` is what was read, and the functions on it answer questions without I/O, for `expectations` to judge.

`contains` is the subset rule of scenarios. A map contains a map when each expected key is there with a value that contains the expected one
(an expected null: the key is absent or null). A list contains a list when the expected items are found in it in order, others between them
allowed. All else must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from koordsched.api.kinds import EVENT, NODE, POD, Kind
from koordsched.cluster.port import ClusterError, Ref
from koordsched.plugins import tooling
from koordsched.scenario.cluster import HttpAnswer, ScenarioCluster
from koordsched.scenario.model import Expect

Json = dict[str, Any]

PLUGIN_CHECKS = {check.key: check for each in tooling() for check in each.pod_checks}
"""What plugins add below `expect.pods.NAME`, by key."""


class Seen(msgspec.Struct):
    """A moment of the cluster. Pods are keyed by ns/name; what the block does not ask about is empty."""

    pods: dict[str, Json] = {}
    nodes: dict[str, Json] = {}
    of_nodes: dict[Kind, dict[str, Json]] = {}  # objects that have a node's name, by it
    events: list[Json] = []
    objects: dict[Ref, Json | None] = {}
    answers: dict[str, HttpAnswer] = {}


async def look(cluster: ScenarioCluster, expect: Expect) -> Seen:
    """Read all that the block asks about. ClusterError."""
    seen = Seen()
    if expect.pods or expect.bound or expect.pending or expect.samenode or expect.distinctnodes or expect.samelabel or expect.disjoint:
        seen.pods = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in await cluster.list(POD)}
    if expect.samelabel:
        seen.nodes = _by_name(await cluster.list(NODE))
    asked_keys = {key for rule in expect.pods.values() for key in rule.by_plugin}
    for kind in {PLUGIN_CHECKS[key].node_kind for key in sorted(asked_keys)}:
        seen.of_nodes[kind] = _by_name(await cluster.list(kind))
    if expect.events:
        seen.events = list(await cluster.list(EVENT))
    for rule in expect.objects:
        seen.objects[rule.target] = await cluster.get(rule.target)
    for asked in expect.http:
        seen.answers[asked.path] = await _answer(cluster, asked.path)
    return seen


async def _answer(cluster: ScenarioCluster, path: str) -> HttpAnswer:
    """Ask the scheduler; one that does not answer yet counts as status 0."""
    try:
        return await cluster.http(path)
    except ClusterError as error:
        return HttpAnswer(0, error.message.encode())


def node_of(pod: Json) -> str:
    """Return the node the pod is bound to, or ""."""
    return str(pod.get("spec", {}).get("nodeName") or "")


def refusal(pod: Json) -> tuple[str, str] | None:
    """Return reason and message of the pod's PodScheduled=False condition, or None."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason", ""), condition.get("message", "")
    return None


def tried(pod: Json) -> bool:
    """Return whether scheduling was attempted and failed, as seen from outside: a gated pod has no condition or reason SchedulingGated."""
    said = refusal(pod)
    return said is not None and said[0] != "SchedulingGated"


def state(pod: Json | None) -> str:
    """Describe for a message where a pod is."""
    if pod is None:
        return "no such pod"
    if pod["metadata"].get("deletionTimestamp"):
        return f"terminating{f' on {node_of(pod)}' if node_of(pod) else ''}"
    if node_of(pod):
        return f"bound to {node_of(pod)}"
    said = refusal(pod)
    return f"not bound: {said[0]}: {said[1]}" if said else "not bound and not tried"


def events_about(seen: Seen, kind: str, name: str) -> Iterable[tuple[str, str]]:
    """Yield reason and text of the events about an object (ns/name), in either API's form of an event."""
    for event in seen.events:
        subject = event.get("regarding") or event.get("involvedObject") or {}
        if subject.get("kind", "Pod") == kind and f"{subject.get('namespace', '')}/{subject.get('name', '')}" == name:
            yield event.get("reason", ""), event.get("note") or event.get("message") or ""


def _by_name(objects: Iterable[Json]) -> dict[str, Json]:
    return {item["metadata"]["name"]: item for item in objects}


def contains(seen: Any, expected: Any) -> bool:
    """Return whether a JSON value contains another."""
    if isinstance(expected, dict):
        return isinstance(seen, dict) and all(_at(seen, key, value) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(seen, list) and _in_order(seen, expected)
    return type_of(seen) == type_of(expected) and bool(seen == expected)


def type_of(value: Any) -> str:
    """Name the JSON type, so that true is not 1 while 1 is 1.0."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def missing(seen: Any, expected: Any, path: str = "") -> str:
    """Return in a few words where `seen` fails to contain `expected`; "" when it contains it."""
    if contains(seen, expected):
        return ""
    if isinstance(expected, dict) and isinstance(seen, dict):
        for key, value in expected.items():
            if not _at(seen, key, value):
                return missing(seen[key], value, f"{path}.{key}".lstrip(".")) if key in seen else f"no {f'{path}.{key}'.lstrip('.')}"
    return f"{path} is {seen!r}" if path else repr(seen)


def _at(seen: dict[str, Any], key: str, value: Any) -> bool:
    if value is None:
        return seen.get(key) is None
    return key in seen and contains(seen[key], value)


def _in_order(seen: list[Any], expected: list[Any]) -> bool:
    """Match each expected item with the first later one that contains it: if any assignment in order exists, this one does."""
    position = 0
    for wanted in expected:
        while position < len(seen) and not contains(seen[position], wanted):
            position += 1
        if position == len(seen):
            return False
        position += 1
    return True
