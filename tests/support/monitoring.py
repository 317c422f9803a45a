"""The Prometheus operator's PodMonitor and PrometheusRule, defined as far as our manifests use them; another field is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.controlplane.definitions import COLLECTION, await_gone, install
from support.controlplane.rest import Rest

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
TEXTS: Json = {"type": "object", "additionalProperties": TEXT}


def _of(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


ENDPOINT = _of(
    port=TEXT,
    path=TEXT,
    scheme=TEXT,
    interval=TEXT,
    authorization=_of(type=TEXT, credentials=_of(name=TEXT, key=TEXT)),
    tlsConfig=_of(insecureSkipVerify={"type": "boolean"}),
)
POD_MONITOR = _of(selector=_of(matchLabels=TEXTS), namespaceSelector=_of(matchNames=_list(TEXT)), podMetricsEndpoints=_list(ENDPOINT))
RULE = _of(alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS)
RULE["properties"]["for"] = TEXT
PROMETHEUS_RULE = _of(groups=_list(_of(name=TEXT, rules=_list(RULE))))


def _definition(kind: str, spec: Json) -> Json:
    plural, group = f"{kind.lower()}s", "monitoring.coreos.com"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _of(spec=spec)}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    body = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": body,
    }


DEFINITIONS = [_definition("PodMonitor", POD_MONITOR), _definition("PrometheusRule", PROMETHEUS_RULE)]


@contextmanager
def defined(rest: Rest) -> Iterator[None]:
    """Define both kinds, and undefine them in the end."""
    install(rest, DEFINITIONS)
    try:
        yield
    finally:
        for definition in DEFINITIONS:
            rest.delete(f"{COLLECTION}/{definition['metadata']['name']}")
            await_gone(rest, definition)
