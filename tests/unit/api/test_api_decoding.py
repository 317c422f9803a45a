from __future__ import annotations

from typing import Any

import pytest

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE, POD, unstructured_kind
from koordsched.api.meta import Unstructured
from koordsched.api.validation import FieldError, InvalidObject, decode, strip_nulls

WIDGET = unstructured_kind("example.com/v1", "Widget")


def errors_of(raw: Any) -> list[FieldError]:
    with pytest.raises(InvalidObject) as caught:
        decode(POD, raw)
    return list(caught.value.errors)


def test_json_becomes_the_struct_of_the_kind_and_unknown_fields_are_dropped() -> None:
    found = decode(POD, {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "dnsPolicy": "Default"}})
    assert isinstance(found, Pod)
    assert (found.metadata.name, found.spec.node_name) == ("a", "n")


def test_nulls_count_as_absent_wherever_they_stand() -> None:
    raw = {"metadata": {"name": "a", "labels": None}, "spec": {"nodeName": None, "containers": [None, {"name": "c", "ports": None}]}}
    assert decode(POD, raw) == decode(POD, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}})


def test_an_object_of_a_kind_without_struct_keeps_its_json_without_nulls() -> None:
    raw = {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": {"name": "r"}, "spec": {"ttl": "1h", "x": [1, None]}}
    found = decode(WIDGET, raw)
    assert isinstance(found, Unstructured)
    assert (found.api_version, found.kind, found.metadata.name) == ("example.com/v1", "Widget", "r")
    assert found.raw == {**raw, "spec": {"ttl": "1h", "x": [1]}}
    assert raw["spec"] == {"ttl": "1h", "x": [1, None]}


def test_stripping_shares_what_has_no_nulls() -> None:
    kept = {"b": [1, {"c": 2}]}
    raw = {"a": kept, "n": None}
    assert strip_nulls(raw) == {"a": kept}
    assert strip_nulls(raw)["a"] is kept
    assert strip_nulls(kept) is kept


@pytest.mark.parametrize(
    ("raw", "path", "value", "message"),
    [
        (
            {"spec": {"containers": [{"ports": [{}, {"hostPort": "80"}]}]}},
            "spec.containers[0].ports[1].hostPort",
            "80",
            "must be an integer",
        ),
        ({"spec": {"containers": {"a": 1}}}, "spec.containers", {"a": 1}, "must be a list"),
        ({"spec": {"containers": ["a"]}}, "spec.containers[0]", "a", "must be an object"),
        ({"spec": 3}, "spec", 3, "must be an object"),
        ({"metadata": {"labels": {"a": "b", "c": 1}}}, "metadata.labels[c]", 1, "must be a string"),
        ({"metadata": {"labels": {"a": "b", 7: "c"}}}, "metadata.labels[7]", 7, "a key must be a string"),
        ({"spec": {"overhead": {"cpu": 1, "memory": True}}}, "spec.overhead[memory]", True, "must be an integer or a number or a string"),
        ({"spec": {"hostNetwork": "yes"}}, "spec.hostNetwork", "yes", "must be true or false"),
        ({"spec": {"priority": 2**31}}, "spec.priority", 2**31, "must be <= 2147483647"),
        ({"spec": {"priority": -(2**31) - 1}}, "spec.priority", -(2**31) - 1, "must be >= -2147483648"),
        ({"spec": {"tolerations": [{"tolerationSeconds": 1.5}]}}, "spec.tolerations[0].tolerationSeconds", 1.5, "must be an integer"),
        ([], "", [], "must be an object"),
        ("pod", "", "pod", "must be an object"),
    ],
)
def test_a_wrong_type_is_named_with_path_and_value(raw: Any, path: str, value: Any, message: str) -> None:
    assert errors_of(raw) == [FieldError(path, value, message)]


def test_a_missing_field_is_named() -> None:
    raw = {"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}}
    assert errors_of(raw) == [FieldError("spec.topologySpreadConstraints[0].topologyKey", None, "Required value: must be given")]


def test_all_wrong_fields_are_reported_together() -> None:
    raw = {"metadata": {"name": "a", "namespace": "b", "labels": {"x": 1, "y": 2}}, "spec": {"priority": "high", "nodeName": []}}
    with pytest.raises(InvalidObject) as caught:
        decode(POD, raw)
    assert {error.path for error in caught.value.errors} == {"metadata.labels[x]", "metadata.labels[y]", "spec.priority", "spec.nodeName"}
    assert str(caught.value).startswith('Pod "b/a" is invalid: ')
    assert 'spec.priority: Invalid value: "high": must be an integer' in str(caught.value)


def test_the_number_of_reported_errors_is_bounded() -> None:
    assert len(errors_of({"metadata": {"labels": {str(i): i for i in range(1000)}}})) == 20


def test_nesting_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidObject, match="nested too deeply"):
        decode(WIDGET, {"spec": deep})


def test_a_nameless_object_is_named_by_its_kind() -> None:
    with pytest.raises(InvalidObject, match=r'^Node "" is invalid: status: Invalid value: 1: must be an object$'):
        decode(NODE, {"status": 1})
