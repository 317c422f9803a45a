"""Turn the short manifests of a scenario into the objects to create (scenarios.md "Objects").

Inputs are never changed. `{i}` and `{i:03d}` are replaced only in repeated objects, so JSON in an annotation stays as it is elsewhere;
`${now}`, `${now-90s}` and `${now+2m}` become RFC 3339 UTC times when the object is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from koordsched.api.kinds import NODE, POD, RESERVATION, Kind, kind_of, unstructured_kind
from koordsched.clock import rfc3339
from koordsched.config.duration import Duration
from koordsched.manifests.completion import complete_node, complete_pod, complete_reservation
from koordsched.plugins import tooling
from koordsched.scenario.model import InitialObjects
from koordsched.scenario.observation import Json

ALWAYS_THERE = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every API server has."""

INDEX = re.compile(r"\{i(?::(0?[0-9]{0,2})d)?\}")
NOW = re.compile(r"\$\{now(?:([+-])([^}]*))?\}")
NOW_LIKE = re.compile(r"\$\{now[^}]*\}?")

SHORT_FORMS = tuple(form for each in tooling() for form in each.short_forms)


def expand(given: InitialObjects, *, now: float, scheduler_name: str) -> Iterator[tuple[Kind, Json]]:
    """Yield kind and full manifest of each copy, times replaced by `now` (seconds since the epoch)."""
    version, name = given.body["apiVersion"], given.body["kind"]
    kind = kind_of(version, name) or unstructured_kind(version, name)
    for index in range(1 if given.repeat is None else given.repeat):
        body = given.body if given.repeat is None else with_index(given.body, index)
        yield kind, _complete(kind, with_now(body, now), scheduler_name)


def _complete(kind: Kind, body: Json, scheduler_name: str) -> Json:
    if kind is NODE:
        return complete_node(body)
    for form in SHORT_FORMS:
        if kind is form.kind:
            body = form.complete(body)
    if kind.namespaced:
        body = {**body, "metadata": {"namespace": "default", **body["metadata"]}}
    if kind is RESERVATION:
        return complete_reservation(body, scheduler_name)
    return complete_pod(body, scheduler_name) if kind is POD else body


def with_index(value: Any, index: int) -> Any:
    """Replace `{i}` and `{i:03d}` in every string, keys included."""
    return _mapped(value, lambda text: INDEX.sub(lambda match: format(index, f"{match[1] or ''}d"), text) if "{i" in text else text)


def with_now(value: Any, now: float) -> Any:
    """Replace `${now...}` in every string by the time, given in seconds since the epoch."""
    return _mapped(value, lambda text: NOW.sub(lambda match: rfc3339(now + _offset(match)), text) if "${now" in text else text)


def bad_template(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each string whose `${now...}` cannot be read."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from bad_template(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from bad_template(item, f"{path}[{index}]")
    elif isinstance(value, str) and "${now" in value and not all(_readable(found) for found in NOW_LIKE.findall(value)):
        yield path, value


def _readable(text: str) -> bool:
    match = NOW.fullmatch(text)
    if match is None:
        return False
    try:
        _offset(match)
    except ValueError:
        return False
    return True


def _offset(match: re.Match[str]) -> float:
    if match[1] is None:
        return 0.0
    seconds = Duration.parse(match[2])
    return -seconds if match[1] == "-" else seconds


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value
