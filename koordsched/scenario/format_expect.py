"""Read the `expect` block of a scenario strictly (scenarios.md "Expectations"): one function for each key, listed in `KEYS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from koordsched.manifests.strict import StrictReader, join
from koordsched.plugins import tooling
from koordsched.scenario.format_given import read_target
from koordsched.scenario.model import (
    CountRule,
    EventRule,
    Expect,
    HttpRule,
    LabelRule,
    NodeRule,
    ObjectRule,
    PodRule,
)
from koordsched.yamltext.documents import shown


def read_expect(reader: StrictReader, value: Any, path: str) -> Expect:
    """Read the whole block; it must state something."""
    fields = reader.mapping(value, path, KEYS)
    if isinstance(value, dict) and not fields.keys() - {"within", "stays"}:
        reader.mistake(path, "expects nothing")
    return Expect(**{key: KEYS[key](reader, item, join(path, key)) for key, item in fields.items()})


def pod_key(name: str) -> str:
    """Return ns/name of a pod that a scenario calls `ns/name` or `name`."""
    return name if "/" in name else f"default/{name}"


def _pods(reader: StrictReader, value: Any, path: str) -> dict[str, PodRule]:
    rules: dict[str, PodRule] = {}
    for name, rule in reader.mapping(value, path).items():
        where = join(path, name)
        if pod_key(name) in rules:
            reader.mistake(where, f"{pod_key(name)} is there already, under its other name")
        rules[pod_key(name)] = _pod(reader, rule, where)
    return rules


def _pod(reader: StrictReader, value: Any, path: str) -> PodRule:
    fields = reader.mapping(value, path, POD_KEYS.keys() | PLUGIN_KEYS.keys())
    if isinstance(value, dict) and not fields:
        reader.mistake(path, "expects nothing")
    rules = {key: POD_KEYS[key](reader, item, join(path, key)) for key, item in fields.items() if key in POD_KEYS}
    by_plugin = {key: PLUGIN_KEYS[key](reader, item, join(path, key)) for key, item in fields.items() if key in PLUGIN_KEYS}
    return PodRule(**rules, by_plugin=by_plugin)


def _node(reader: StrictReader, value: Any, path: str) -> NodeRule:
    if isinstance(value, str):
        if not value:
            reader.mistake(path, "names no node")
        return NodeRule(one_of=(value,))
    fields = reader.mapping(value, path, ("in", "not"))
    if isinstance(value, dict) and not fields:
        reader.mistake(path, "expects nothing")
    one_of = reader.texts(fields["in"], join(path, "in")) if "in" in fields else ()
    if "in" in fields and not one_of:
        reader.mistake(join(path, "in"), "names no node")
    none_of = fields.get("not", [])
    return NodeRule(one_of=one_of, none_of=reader.texts(none_of if isinstance(none_of, list) else [none_of], join(path, "not")))


def _pending(reader: StrictReader, value: Any, path: str) -> bool | str:
    if not isinstance(value, bool | str):
        reader.mistake(path, f"{shown(value)}: expected true, false or a text that the condition's message contains")
        return True
    return value


POD_KEYS: dict[str, Callable[[StrictReader, Any, str], Any]] = {
    "node": _node,
    "pending": _pending,
    "gated": StrictReader.flag,
    "gone": StrictReader.flag,
    "annotations": StrictReader.mapping,
    "nominated": StrictReader.text,
}
PLUGIN_KEYS: dict[str, Callable[[StrictReader, Any, str], Any]] = {check.key: check.read for each in tooling() for check in each.pod_checks}


def _objects(reader: StrictReader, value: Any, path: str) -> tuple[ObjectRule, ...]:
    return tuple(_object(reader, item, where) for where, item in reader.list_(value, path))


def _object(reader: StrictReader, value: Any, path: str) -> ObjectRule:
    known = ("apiVersion", "kind", "name", "namespace", "has", "gone")
    fields = reader.mapping(value, path, known, required=("kind", "name"))
    if isinstance(value, dict) and ("has" in fields) == ("gone" in fields):
        reader.mistake(path, "expected exactly one of has and gone")
    return ObjectRule(
        target=read_target(reader, fields, path),
        has=reader.mapping(fields["has"], join(path, "has")) if "has" in fields else None,
        gone=reader.flag(fields["gone"], join(path, "gone")) if "gone" in fields else False,
    )


def _count(reader: StrictReader, value: Any, path: str) -> CountRule:
    if not isinstance(value, dict):
        return CountRule(count=reader.number(value, path))
    fields = reader.mapping(value, path, ("selector", "count"), required=("count",))
    selector = reader.mapping(fields.get("selector", {}), join(path, "selector"))
    return CountRule(
        count=reader.number(fields.get("count", 0), join(path, "count")),
        selector={key: reader.text(item, join(join(path, "selector"), key)) for key, item in selector.items()},
    )


def _groups(reader: StrictReader, value: Any, path: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_group(reader, item, where) for where, item in reader.list_(value, path))


def _group(reader: StrictReader, value: Any, path: str) -> tuple[str, ...]:
    pods = tuple(pod_key(name) for name in reader.texts(value, path))
    if isinstance(value, list) and len(pods) < 2:  # noqa: PLR2004  # a relation has two ends
        reader.mistake(path, "expected at least two pods")
    return pods


def _labels(reader: StrictReader, value: Any, path: str) -> tuple[LabelRule, ...]:
    return tuple(_label(reader, item, where) for where, item in reader.list_(value, path))


def _label(reader: StrictReader, value: Any, path: str) -> LabelRule:
    fields = reader.mapping(value, path, ("key", "pods"), required=("key", "pods"))
    return LabelRule(
        key=reader.text(fields.get("key", ""), join(path, "key")),
        pods=_group(reader, fields["pods"], join(path, "pods")) if "pods" in fields else (),
    )


def _events(reader: StrictReader, value: Any, path: str) -> tuple[EventRule, ...]:
    return tuple(_event(reader, item, where) for where, item in reader.list_(value, path))


def _event(reader: StrictReader, value: Any, path: str) -> EventRule:
    name, kind = ("name", ("kind",)) if isinstance(value, dict) and "kind" in value else ("pod", ())
    fields = reader.mapping(value, path, (*kind, name, "reason", "contains"), required=(name, "reason"))
    return EventRule(
        name=pod_key(reader.text(fields.get(name, ""), join(path, name))),
        reason=reader.text(fields.get("reason", ""), join(path, "reason")),
        contains=reader.text(fields.get("contains", ""), join(path, "contains")),
        kind=reader.text(fields.get("kind", "Pod"), join(path, "kind")),
    )


def _http(reader: StrictReader, value: Any, path: str) -> tuple[HttpRule, ...]:
    return tuple(_answer(reader, item, where) for where, item in reader.list_(value, path))


def _answer(reader: StrictReader, value: Any, path: str) -> HttpRule:
    fields = reader.mapping(value, path, ("path", "status", "contains"), required=("path",))
    contains = fields.get("contains")
    if "contains" in fields and not isinstance(contains, dict | list | str):
        reader.mistake(join(path, "contains"), f"{shown(contains)}: expected a map (contained in the JSON body) or a text")
        contains = None
    asked = reader.text(fields.get("path", "/"), join(path, "path"))
    if not asked.startswith("/"):
        reader.mistake(join(path, "path"), f"{asked!r}: expected a path that begins with /")
    return HttpRule(path=asked, status=reader.number(fields.get("status", 200), join(path, "status")), contains=contains)


KEYS: dict[str, Callable[[StrictReader, Any, str], Any]] = {
    "pods": _pods,
    "objects": _objects,
    "bound": _count,
    "pending": _count,
    "samenode": _groups,
    "distinctnodes": _groups,
    "samelabel": _labels,
    "disjoint": _group,
    "events": _events,
    "http": _http,
    "stays": StrictReader.duration,
    "within": StrictReader.duration,
}
