"""Reservations out of JSON: as msgspec alone would read them, with equal parts read once."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.kinds import NODE, RESERVATION
from koordsched.api.koordinator.reservation_decoding import KEPT, LONGEST
from koordsched.api.koordinator.reservations import Reservation, ReservationSpec, ReservationStatus
from koordsched.api.koordinator.reserve_pods import reserve_pod
from koordsched.cluster.apiserver.decoding import KindDecoder

TIME = "2026-01-01T00:00:00Z"
SPEC: dict[str, Any] = {
    "template": {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], "priority": 3},
    },
    "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}, {"object": {"name": "p"}}],
    "ttl": "1h",
    "expires": TIME,
    "allocateOnce": False,
    "allocatePolicy": "Restricted",
    "preAllocation": True,
    "preAllocationPolicy": {"mode": "Cluster", "enableMultiple": True},
    "unschedulable": True,
    "taints": [{"key": "k", "effect": "NoSchedule"}],
}
STATUS: dict[str, Any] = {
    "phase": "Available",
    "nodeName": "n",
    "allocatable": {"cpu": "1", "memory": "1Gi"},
    "allocated": {"cpu": "500m"},
    "conditions": [{"type": "Ready", "status": "True", "reason": "Available", "message": "m", "lastProbeTime": TIME}],
    "currentOwners": [{"namespace": "default", "name": "p", "uid": "u"}],
}


def body(name: str = "r", labels: dict[str, str] | None = None, **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "resourceVersion": "7", "labels": {"team": "a"} if labels is None else labels}
    return {
        "apiVersion": RESERVATION.api_version,
        "kind": RESERVATION.kind,
        "metadata": metadata,
        **({"spec": SPEC, "status": STATUS} | parts),
    }


def read(raw: dict[str, Any], decoder: KindDecoder | None = None) -> Reservation:
    return cast("Reservation", (decoder or KindDecoder(RESERVATION)).object(msgspec.json.encode(raw)))


def some(parts: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return the object with some of its fields, at two levels."""
    inner = {name: some(part) if isinstance(part, dict) and part else st.just(part) for name, part in parts.items()}
    return st.fixed_dictionaries({}, optional=inner)


@given(some({"spec": SPEC, "status": STATUS, "metadata": {"name": "r", "labels": {"a": "b"}, "annotations": {"c": "d"}}}))
def test_whatever_is_left_out_it_is_what_msgspec_reads(raw: dict[str, Any]) -> None:
    expected = msgspec.structs.replace(msgspec.convert(raw, Reservation), api_version=RESERVATION.api_version, kind=RESERVATION.kind)
    assert read(raw) == expected


def test_the_parts_that_are_tried_are_all_that_a_reservation_has() -> None:
    for parts, struct in ((SPEC, ReservationSpec), (STATUS, ReservationStatus)):
        assert {field.encode_name for field in msgspec.structs.fields(struct)} == parts.keys()


def test_equal_parts_are_one_object() -> None:
    decoder = KindDecoder(RESERVATION)
    first, second = (read(body(name), decoder) for name in ("r1", "r2"))
    assert first.spec is second.spec
    assert first.status.allocatable is second.status.allocatable
    assert first.status.conditions is second.status.conditions
    assert first.metadata.labels is second.metadata.labels
    assert first.api_version is second.api_version
    assert (first.metadata.name, second.metadata.name) == ("r1", "r2")


def test_the_pods_of_different_reservations_are_one_spec() -> None:
    first, second = (read(body(spec=SPEC | {"ttl": ttl})) for ttl in ("1h", "2h"))
    assert first.spec.template is not None
    assert second.spec.template is not None
    assert first.spec.template.spec is second.spec.template.spec
    assert (first.spec.ttl, second.spec.ttl) == ("1h", "2h")


def test_a_selector_of_the_labels_of_the_template_is_the_same_map_and_any_other_its_own() -> None:
    owners = [{"labelSelector": {"matchLabels": {"app": app}}} for app in ("web", "db")]
    spec = read(body(spec=SPEC | {"owners": owners})).spec
    assert spec.template is not None
    same, other = (owner.label_selector for owner in spec.owners)
    assert same is not None
    assert other is not None
    assert same.match_labels is spec.template.metadata.labels
    assert (same.match_labels, other.match_labels) == ({"app": "web"}, {"app": "db"})


def test_labels_of_the_reservation_change_neither_the_map_of_its_template_nor_that_of_its_owners() -> None:
    found = read(body(labels={"app": "mine", "team": "a"}))
    assert reserve_pod(found).metadata.labels == {"app": "mine", "team": "a"}
    selector = found.spec.owners[0].label_selector
    assert selector is not None
    assert found.spec.template is not None
    assert selector.match_labels == found.spec.template.metadata.labels == {"app": "web"}


def test_texts_that_reservations_of_different_owners_have_in_common_are_one_object() -> None:
    specs = [{"owners": [{"object": {"name": name}}], "ttl": "0s", "expires": TIME, "allocatePolicy": "Restricted"} for name in ("p", "q")]
    first, second = (read(body(name, spec=spec, status=STATUS)) for name, spec in (("r1", specs[0]), ("r2", specs[1])))
    assert first.spec is not second.spec
    assert first.spec.ttl is second.spec.ttl
    assert first.spec.expires is second.spec.expires
    assert first.spec.allocate_policy is second.spec.allocate_policy


def test_a_node_and_the_reservations_on_it_have_its_name_in_common() -> None:
    named = KindDecoder(NODE).object(msgspec.json.encode({"metadata": {"name": "a-node-with-a-name"}}))
    found = read(body(status=STATUS | {"nodeName": "a-node-with-a-name"}))
    assert found.status.node_name is named.metadata.name


def test_events_of_a_watch_have_parts_in_common_with_the_list() -> None:
    listed = read(body("r1"))
    line = msgspec.json.encode({"type": "MODIFIED", "object": body("r1", status=STATUS | {"phase": "Succeeded"})}) + b"\n"
    [event] = KindDecoder(RESERVATION).batch(line).events
    changed = cast("Reservation", event.object)
    assert type(changed) is Reservation
    assert changed.spec is listed.spec
    assert changed.status.phase == "Succeeded"


@pytest.mark.parametrize("parts", [{"spec": None}, {"status": None}, {"spec": {"owners": None}}, {"status": {"conditions": None}}])
def test_nulls_count_as_absent(parts: dict[str, Any]) -> None:
    found = read(body(**parts))
    assert found.spec.owners == (() if "spec" in parts else read(body()).spec.owners)
    assert found.status.conditions == (() if "status" in parts else read(body()).status.conditions)


def test_a_field_of_another_type_is_named() -> None:
    with pytest.raises(ValueError, match="template"):
        read(body(spec={"template": {"spec": {"containers": "main"}}}))


def test_long_texts_and_the_oldest_of_many_are_not_kept() -> None:
    long = [read(body(spec={"ttl": "1h", "expires": "x" * LONGEST})) for _ in range(2)]
    assert long[0].spec == long[1].spec
    assert long[0].spec is not long[1].spec
    before = read(body(spec={"ttl": "1m"}))
    for number in range(KEPT):
        read(body(spec={"ttl": f"{number + 2}m"}))
    assert read(body(spec={"ttl": "1m"})).spec is not before.spec
