"""Judge what was seen against an `expect` block: pure functions, one for each key of scenarios.md.

`CHECKS` lists those of the block, `POD_CHECKS` those of one pod, below `expect.pods.NAME`. Each yields a `Mismatch` for everything that
does not hold; none means that the block holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.plugins import tooling
from koordsched.scenario.cluster import named
from koordsched.scenario.model import CountRule, Expect, PodRule
from koordsched.scenario.observation import PLUGIN_CHECKS, Json, Seen, events_about, missing, node_of, refusal, state, tried

SHOWN_BODY = 200
EXAMPLES = 5

EXCLUSIVE = tuple(resource for each in tooling() for resource in each.exclusive)


class Mismatch(msgspec.Struct, frozen=True):
    """One thing that does not hold. subject: of what; "" of the cluster."""

    subject: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, seen {self.seen}".removeprefix(": ")


def differences(seen: Seen, expect: Expect) -> list[Mismatch]:
    """Return everything in which the cluster differs from the block."""
    return [difference for check in CHECKS for difference in check(seen, expect)]


def check_pods(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for name, rule in expect.pods.items():
        yield from check_pod(seen, name, rule)


def check_objects(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.objects:
        found = seen.objects[rule.target]
        if rule.gone:
            if found is not None:
                yield Mismatch(named(rule.target), "gone", "exists")
        elif found is None:
            yield Mismatch(named(rule.target), "exists", "no such object")
        elif lacks := missing(found, rule.has or {}):
            yield Mismatch(named(rule.target), f"has {_json(rule.has)}", lacks)


def check_counts(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for key, rule, bound in (("bound", expect.bound, True), ("pending", expect.pending, False)):
        if rule is None:
            continue
        counted = counted_pods(seen, rule, bound=bound)
        if len(counted) != rule.count:
            examples = f" ({', '.join(counted[:EXAMPLES])}{', ...' if len(counted) > EXAMPLES else ''})" if counted else ""
            yield Mismatch(key, f"{rule.count} pods", f"{len(counted)}{examples}")


def counted_pods(seen: Seen, rule: CountRule, *, bound: bool) -> list[str]:
    """Return the pods that carry the rule's labels and have a node, or have none."""
    return [name for name, pod in seen.pods.items() if _selected(pod, rule) and bool(node_of(pod)) is bound]


def check_same_node(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for pods in expect.samenode:
        nodes = [_node(seen, pod) for pod in pods]
        if "" in nodes or len(set(nodes)) > 1:
            yield Mismatch("samenode", f"{', '.join(pods)} on one node", _where(seen, pods))


def check_distinct_nodes(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for pods in expect.distinctnodes:
        nodes = [_node(seen, pod) for pod in pods]
        if "" in nodes or len(set(nodes)) < len(nodes):
            yield Mismatch("distinctnodes", f"{', '.join(pods)} on different nodes", _where(seen, pods))


def check_same_label(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.samelabel:
        values = [_label(seen, pod, rule.key) for pod in rule.pods]
        if None in values or len(set(values)) > 1:
            found = ", ".join(f"{pod} {rule.key}={found}" for pod, found in zip(rule.pods, values, strict=True))
            wanted = f"{', '.join(rule.pods)} on nodes with one value of {rule.key}"
            yield Mismatch("samelabel", wanted, f"{found}; {_where(seen, rule.pods)}")


def check_disjoint(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for absent in (name for name in expect.disjoint if name not in seen.pods):
        yield Mismatch("disjoint", f"{absent} exists", "no such pod")
    present = [(name, seen.pods[name]) for name in expect.disjoint if name in seen.pods]
    for (first, one), (second, other) in combinations(present, 2):
        if not node_of(one) or node_of(one) != node_of(other):
            continue
        for resource in EXCLUSIVE:
            if shared := resource.units(one) & resource.units(other):
                for text in resource.shown(shared):
                    yield Mismatch(
                        "disjoint", f"{first} and {second} hold different {resource.name}", f"both hold {text} of {node_of(one)}"
                    )


def check_events(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.events:
        found = list(events_about(seen, rule.kind, rule.name))
        if not any(reason == rule.reason and rule.contains in note for reason, note in found):
            wanted = f"{rule.reason}{f' with {rule.contains!r}' if rule.contains else ''}"
            listed = "; ".join(f"{reason}: {note}" for reason, note in found[-3:]) or "no event"
            yield Mismatch(f"events of {rule.name}", wanted, listed)


def check_http(seen: Seen, expect: Expect) -> Iterator[Mismatch]:
    for rule in expect.http:
        answer = seen.answers[rule.path]
        text = answer.body.decode(errors="replace")
        if answer.status != rule.status:
            yield Mismatch(f"GET {rule.path}", f"status {rule.status}", f"{answer.status} {text[:SHOWN_BODY].strip()}")
        elif isinstance(rule.contains, str):
            if rule.contains not in text:
                yield Mismatch(f"GET {rule.path}", f"text with {rule.contains!r}", text[:SHOWN_BODY].strip())
        elif rule.contains is not None and (lacks := _lacks(answer.body, rule.contains)):
            yield Mismatch(f"GET {rule.path}", f"contains {_json(rule.contains)}", lacks)


CHECKS: tuple[Callable[[Seen, Expect], Iterable[Mismatch]], ...] = (
    check_pods,
    check_objects,
    check_counts,
    check_same_node,
    check_distinct_nodes,
    check_same_label,
    check_disjoint,
    check_events,
    check_http,
)


def _selected(pod: Json, rule: CountRule) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == wanted for key, wanted in rule.selector.items())


def _node(seen: Seen, name: str) -> str:
    return node_of(seen.pods[name]) if name in seen.pods else ""


def _where(seen: Seen, pods: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {state(seen.pods.get(name))}" for name in pods)


def _label(seen: Seen, pod: str, key: str) -> str | None:
    labels = seen.nodes.get(_node(seen, pod), {}).get("metadata", {}).get("labels") or {}
    found = labels.get(key)
    return None if found is None else str(found)


def _lacks(body: bytes, expected: Any) -> str:
    try:
        return missing(msgspec.json.decode(body), expected)
    except JSON_ERRORS:
        return f"no JSON: {body[:SHOWN_BODY].decode(errors='replace').strip()}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class ObservedPod(msgspec.Struct, frozen=True):
    """A pod that exists, under the name a rule gives it."""

    name: str
    body: Json
    seen: Seen

    def differs(self, expected: str, seen: str = "") -> Mismatch:
        return Mismatch(self.name, expected, seen or state(self.body))


def check_pod(seen: Seen, name: str, rule: PodRule) -> Iterator[Mismatch]:
    """Yield what does not hold of the pod called ns/name."""
    body = seen.pods.get(name)
    if rule.gone is not None:
        gone = body is None or bool(body["metadata"].get("deletionTimestamp"))
        if gone is not rule.gone:
            yield Mismatch(name, "gone" if rule.gone else "not gone", state(body))
    if body is not None:
        for check in POD_CHECKS:
            yield from check(ObservedPod(name, body, seen), rule)
    elif any(asked not in (None, {}) for asked in (rule.node, rule.pending, rule.gated, rule.annotations, rule.by_plugin, rule.nominated)):
        yield Mismatch(name, "exists", state(None))


def _check_node(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    if rule.node is None:
        return
    node = node_of(pod.body)
    allowed = not rule.node.one_of or node in rule.node.one_of
    if not node or not allowed or node in rule.node.none_of:
        wanted = " or ".join(rule.node.one_of) or "a node"
        other = f" other than {' or '.join(rule.node.none_of)}" if rule.node.none_of else ""
        yield pod.differs(f"on {wanted}{other}")


def _check_pending(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    if rule.pending is None:
        return
    pending = not node_of(pod.body) and tried(pod.body)
    if rule.pending is False:
        if pending:
            yield pod.differs("not pending")
    elif not pending:
        yield pod.differs(f"pending{f' with {rule.pending!r}' if isinstance(rule.pending, str) else ''}")
    elif isinstance(rule.pending, str) and rule.pending not in (refusal(pod.body) or ("", ""))[1]:
        yield pod.differs(f"pending with {rule.pending!r}")


def _check_gated(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    gated = not node_of(pod.body) and not tried(pod.body)
    if rule.gated is not None and gated is not rule.gated:
        yield pod.differs("held back before scheduling" if rule.gated else "not held back before scheduling")


def _check_nominated(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    found = pod.body.get("status", {}).get("nominatedNodeName") or ""
    if rule.nominated is not None and found != rule.nominated:
        yield pod.differs(f"nominated to {rule.nominated!r}", f"nominated to {found!r}, {state(pod.body)}")


def _check_annotations(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    found = pod.body["metadata"].get("annotations") or {}
    for key, expected in rule.annotations.items():
        text = found.get(key)
        if lacks := _annotation_lacks(text, expected):
            yield pod.differs(f"annotation {key} {_wanted(expected)}", lacks)


def _annotation_lacks(text: str | None, expected: Any) -> str:
    """Say how an annotation's text fails an expectation; "" when it does not."""
    if expected is None or text is None:
        return "" if expected is text else ("it is absent" if text is None else repr(text))
    if not isinstance(expected, dict | list):
        wanted = expected if isinstance(expected, str) else _json(expected)
        return "" if text == wanted else repr(text)
    try:
        return missing(msgspec.json.decode(text), expected)
    except JSON_ERRORS:
        return f"no JSON: {text!r}"


def _wanted(expected: Any) -> str:
    if expected is None:
        return "absent"
    return f"contains {_json(expected)}" if isinstance(expected, dict | list) else f"equals {expected!r}"


def _check_by_plugin(pod: ObservedPod, rule: PodRule) -> Iterator[Mismatch]:
    for key, wanted in rule.by_plugin.items():
        check = PLUGIN_CHECKS[key]
        of_node = pod.seen.of_nodes.get(check.node_kind, {}).get(node_of(pod.body))
        for expected in check.differences(wanted, pod.body, of_node):
            yield pod.differs(expected, check.seen(pod.body, state(pod.body)))


POD_CHECKS: tuple[Callable[[ObservedPod, PodRule], Iterator[Mismatch]], ...] = (
    _check_node,
    _check_pending,
    _check_gated,
    _check_nominated,
    _check_annotations,
    _check_by_plugin,
)
