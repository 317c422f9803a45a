"""Turn the short manifests of a scenario into the objects to create (scenarios.md "Objects")."""

from __future__ import annotations

from collections.abc import Iterator

from koordsched.api.kinds import NODE, POD, Kind, kind_of, unstructured_kind
from koordsched.manifests.completion import complete_node, complete_pod
from koordsched.plugins import tooling
from koordsched.scenario.model import Given
from koordsched.scenario.observation import Json
from koordsched.scenario.templating import with_index, with_now

ALWAYS_THERE = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every API server has."""

SHORT_FORMS = tuple(form for each in tooling() for form in each.short_forms)


def expand(given: Given, *, now: float, scheduler_name: str) -> Iterator[tuple[Kind, Json]]:
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
    return complete_pod(body, scheduler_name) if kind is POD else body
