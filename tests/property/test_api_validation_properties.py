"""Whatever stands anywhere in a manifest: the answer is a list of errors, never another exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.ways import ways

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import KINDS, NODE, POD, Kind
from koordsched.api.podinfo import PodInfo
from koordsched.api.resources import node_allocatable
from koordsched.api.validation import FieldError, InvalidObject, decode, validate

TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}], "matchFields": []}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
AFFINITY_TERM = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaces": ["default"],
    "namespaceSelector": {},
    "matchLabelKeys": ["k"],
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LIST = {"cpu": "1", "memory": 1024}

MANIFESTS: list[tuple[Kind, dict[str, Any]]] = [
    (
        POD,
        {
            "metadata": {
                "name": "a",
                "namespace": "b",
                "labels": {"a": "b"},
                "annotations": {"a": "b"},
                "ownerReferences": [{"kind": "X"}],
            },
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "resources": {"requests": LIST, "limits": LIST},
                        "ports": [{"hostPort": 1, "protocol": "TCP"}],
                    }
                ],
                "initContainers": [{"name": "d", "restartPolicy": "Always"}],
                "overhead": LIST,
                "resources": {"requests": LIST},
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
                "affinity": {
                    "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}, PREFERRED: [{"weight": 1, "preference": TERM}]},
                    "podAffinity": {REQUIRED: [AFFINITY_TERM], PREFERRED: [{"weight": 1, "podAffinityTerm": AFFINITY_TERM}]},
                },
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR, "minDomains": 1}
                ],
                "schedulingGates": [{"name": "g"}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
                "priority": 1,
            },
            "status": {
                "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "a", "status": "True"}],
                "containerStatuses": [{"name": "c", "allocatedResources": LIST, "resources": {"requests": LIST}}],
            },
        },
    ),
    (
        NODE,
        {
            "metadata": {"name": "n", "labels": {"a": "b"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"unschedulable": False, "taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]},
            "status": {"allocatable": LIST, "capacity": LIST, "images": [{"names": ["i"], "sizeBytes": 1}], "conditions": []},
        },
    ),
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "-1", "1Gi", "a b", "", "Exists", "2026-01-01T00:00:00Z", 2**31, 2**63, 10**400])
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6
)


def replaced(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    copied = json.loads(json.dumps(value))
    target = copied
    for step in way[:-1]:
        target = target[step]
    target[way[-1]] = new
    return copied


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[Kind, Any]:
    """Put arbitrary JSON at one place of a manifest, or add it under a new key there."""
    kind, manifest = draw(st.sampled_from(MANIFESTS))
    way = draw(st.sampled_from([(), *ways(manifest)]))
    return kind, replaced(manifest, way, draw(json_values))


def test_the_manifests_are_valid_before_something_is_put_into_them() -> None:
    for kind, manifest in MANIFESTS:
        assert validate(kind, manifest) == []


@given(spoiled())
def test_anything_anywhere_gives_errors_with_a_path_or_an_object_that_scheduling_can_read(given_object: tuple[Kind, Any]) -> None:
    kind, raw = given_object
    before = repr(raw)
    errors = validate(kind, raw)
    assert repr(raw) == before
    for error in errors:
        assert isinstance(error, FieldError)
        assert str(error).startswith(error.path)
    if errors:
        return
    decoded = decode(kind, raw)
    if isinstance(decoded, Pod):
        PodInfo(decoded, counted_on_node=True)
    if isinstance(decoded, Node):
        node_allocatable(decoded)


@given(st.sampled_from(sorted(KINDS.values(), key=lambda kind: kind.plural_group)), json_values)
def test_any_json_is_an_object_of_its_kind_or_invalid(kind: Kind, raw: Any) -> None:
    errors = validate(kind, raw)
    try:
        decoded = decode(kind, raw)
    except InvalidObject as invalid:
        refused = invalid
    else:
        assert isinstance(decoded, kind.struct)
        return
    assert [str(error) for error in refused.errors] == [str(error) for error in errors]
    assert str(refused).startswith(f"{kind.kind} ")


@given(spoiled())
def test_nulls_never_change_the_verdict(given_object: tuple[Kind, Any]) -> None:
    kind, raw = given_object
    if not isinstance(raw, dict) or not isinstance(raw.get("spec"), dict):
        return
    padded = {**raw, "extra": None, "spec": {**raw["spec"], "nodeName": raw["spec"].get("nodeName"), "none": None}}
    assert [str(error) for error in validate(kind, padded)] == [str(error) for error in validate(kind, raw)]
