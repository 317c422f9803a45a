"""Judge one pod: one function for each key under `expect.pods.NAME`, listed in `POD_CHECKS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from koordsched.api.meta import JSON_ERRORS
from koordsched.scenario.contains import missing
from koordsched.scenario.model import NodeRule, PodRule
from koordsched.scenario.observation import PLUGIN_CHECKS, Json, Seen, node_of, refusal, state, tried


class Mismatch(msgspec.Struct, frozen=True):
    """One thing that does not hold."""

    subject: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.subject}: expected {self.expected}, seen {self.seen}"


class LookedAt(msgspec.Struct, frozen=True):
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
            yield from check(LookedAt(name, body, seen), rule)
    elif any(asked not in (None, {}) for asked in (rule.node, rule.pending, rule.gated, rule.annotations, rule.by_plugin, rule.nominated)):
        yield Mismatch(name, "exists", state(None))


def _check_node(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
    if rule.node is None:
        return
    node = node_of(pod.body)
    allowed = not rule.node.one_of or node in rule.node.one_of
    if not node or not allowed or node in rule.node.none_of:
        yield pod.differs(f"on {_nodes(rule.node)}")


def _nodes(rule: NodeRule) -> str:
    wanted = " or ".join(rule.one_of) or "a node"
    return f"{wanted} other than {' or '.join(rule.none_of)}" if rule.none_of else wanted


def _check_pending(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
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


def _check_gated(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
    gated = not node_of(pod.body) and not tried(pod.body)
    if rule.gated is not None and gated is not rule.gated:
        yield pod.differs("held back before scheduling" if rule.gated else "not held back before scheduling")


def _check_nominated(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
    found = pod.body.get("status", {}).get("nominatedNodeName") or ""
    if rule.nominated is not None and found != rule.nominated:
        yield pod.differs(f"nominated to {rule.nominated!r}", f"nominated to {found!r}, {state(pod.body)}")


def _check_annotations(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
    found = pod.body["metadata"].get("annotations") or {}
    for key, expected in rule.annotations.items():
        text = found.get(key)
        if lacks := _lacks(text, expected):
            yield pod.differs(f"annotation {key} {_wanted(expected)}", lacks)


def _lacks(text: str | None, expected: Any) -> str:
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


def _check_by_plugin(pod: LookedAt, rule: PodRule) -> Iterator[Mismatch]:
    for key, wanted in rule.by_plugin.items():
        check = PLUGIN_CHECKS[key]
        of_node = pod.seen.of_nodes.get(check.node_kind, {}).get(node_of(pod.body))
        for expected in check.differences(wanted, pod.body, of_node):
            yield pod.differs(expected, check.seen(pod.body, state(pod.body)))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


POD_CHECKS: tuple[Callable[[LookedAt, PodRule], Iterator[Mismatch]], ...] = (
    _check_node,
    _check_pending,
    _check_gated,
    _check_nominated,
    _check_annotations,
    _check_by_plugin,
)
