"""The pod that stands for a Reservation (reservation.md §3)."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from koordsched.api.core import Pod
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.koordinator.reserve_pods import (
    CAPACITY_CONTAINER,
    IS_PRE_ALLOCATION,
    RESERVATION_NAME,
    RESERVATION_NODE,
    RESERVE_POD,
    ReservePod,
    problem_of,
    reserve_pod,
    reserve_pod_key,
    shown_pod,
    template_requests,
)
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError


def reservation(template: dict[str, Any] | None = None, **more: Any) -> Reservation:
    spec = {
        "owners": [{"object": {"name": "p"}}],
        "ttl": "24h",
        **({} if template is None else {"template": template}),
        **more.pop("spec", {}),
    }
    whole = {"metadata": {"name": "r", "uid": "u-1", **more.pop("metadata", {})}, "spec": spec, **more}
    return msgspec.convert(whole, Reservation)


def requesting(*requests: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{i}", "resources": {"requests": each}} for i, each in enumerate(requests)], **spec}}


def test_it_has_the_uid_of_its_reservation_as_name_and_the_metadata_of_both() -> None:
    template = {"metadata": {"namespace": "n", "labels": {"a": "1", "b": "1"}, "annotations": {"x": "1"}}, **requesting({"cpu": "1"})}
    metadata = {"resourceVersion": "7", "labels": {"b": "2"}, "annotations": {"x": "2", "y": "2"}}
    made = reserve_pod(reservation(template, metadata=metadata))
    assert (made.metadata.name, made.metadata.uid, made.metadata.namespace, made.metadata.resource_version) == ("u-1", "u-1", "n", "7")
    assert made.metadata.labels == {"a": "1", "b": "2"}
    assert made.metadata.annotations == {"x": "2", "y": "2"}
    assert made.spec.scheduler_name == "default-scheduler"


def test_other_programs_are_shown_a_plain_pod_that_says_what_it_is() -> None:
    made = reserve_pod(reservation(requesting({"cpu": "1"}), metadata={"annotations": {"x": "2"}}))
    shown = shown_pod(made)
    assert type(shown) is Pod
    assert shown.metadata.annotations == {"x": "2", RESERVE_POD: "true", RESERVATION_NAME: "r"}
    assert replace(shown.metadata, annotations=made.metadata.annotations) == made.metadata
    assert (shown.spec, shown.status) == (made.spec, made.status)
    pre = reserve_pod(replace(made.reservation, spec=replace(made.reservation.spec, pre_allocation=True)))
    assert shown_pod(pre).metadata.annotations[IS_PRE_ALLOCATION] == "true"
    assert shown_pod(shown) is shown


def test_the_key_of_the_pod_of_a_reservation_is_kept_once() -> None:
    first, second = (reservation(requesting({"cpu": "1"}), metadata={"uid": uid}) for uid in ("u-1", "u-2"))
    info = PodInfo.of_reservation(first)
    assert info.key == "default/u-1"
    assert reserve_pod_key(info.pod) is info.key
    assert PodInfo.of_reservation(second).key == "default/u-2"
    assert reserve_pod_key(info.pod) == "default/u-1"


def test_without_a_namespace_in_the_template_it_is_in_default() -> None:
    assert reserve_pod(reservation({})).metadata.namespace == "default"


def test_the_node_that_the_template_names_is_an_annotation_and_the_status_says_where_it_is() -> None:
    pending = reserve_pod(reservation(requesting({"cpu": "1"}, nodeName="n1"), spec={"preAllocation": True}))
    assert pending.spec.node_name == ""
    assert pending.metadata.annotations[RESERVATION_NODE] == "n1"
    assert shown_pod(pending).metadata.annotations[IS_PRE_ALLOCATION] == "true"
    status = {"phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "1"}}
    assert reserve_pod(reservation(requesting({"cpu": "1"}, nodeName="n1"), status=status)).spec.node_name == "n2"


@pytest.mark.parametrize(
    ("template", "label", "priority"),
    [(5, "7", 5), (None, "7", 7), (None, "-3", -3), (None, "", 2**31 - 1), (None, "high", 2**31 - 1), (None, str(2**31), 2**31 - 1)],
)
def test_its_priority_is_the_templates_else_the_labels_else_the_highest(template: int | None, label: str, priority: int) -> None:
    spec = {} if template is None else {"priority": template}
    made = reserve_pod(reservation(requesting({"cpu": "1"}, **spec), metadata={"labels": {"koordinator.sh/priority": label}}))
    assert made.spec.priority == priority


@pytest.mark.parametrize(
    ("phase", "pod_phase"), [("Succeeded", "Succeeded"), ("Failed", "Failed"), ("Available", ""), ("Pending", ""), ("", "")]
)
def test_its_phase_says_whether_the_reservation_has_ended(phase: str, pod_phase: str) -> None:
    assert reserve_pod(reservation({}, status={"phase": phase})).status.phase == pod_phase


def test_available_it_asks_for_what_the_reservation_has_in_a_container_of_its_own() -> None:
    template = requesting(
        {"cpu": "1", "memory": "1Gi"}, overhead={"cpu": "1"}, initContainers=[{"name": "i", "resources": {"requests": {"cpu": "9"}}}]
    )
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "3"}}
    made = reserve_pod(reservation(template, status=status))
    assert [container.name for container in made.spec.containers] == ["c0", CAPACITY_CONTAINER]
    assert made.spec.containers[1].resources.requests == made.spec.containers[1].resources.limits
    # cpu is the Reservation's; memory, of which it says nothing, the template's
    assert PodInfo(made).resources.requests == {"cpu": 3000, "memory": 2**30}


def test_available_with_what_the_template_asks_for_it_stays_as_it_is() -> None:
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1000m", "memory": "1024Mi"}}
    made = reserve_pod(reservation(requesting({"cpu": "1", "memory": "1Gi"}), status=status))
    assert [container.name for container in made.spec.containers] == ["c0"]


def test_the_facts_of_a_reserve_pod_name_its_reservation_and_follow_it() -> None:
    first, second = reservation(requesting({"cpu": "1"})), reservation(requesting({"cpu": "1"}), metadata={"resourceVersion": "2"})
    info = PodInfo.of_reservation(first)
    assert info.reservation is first
    assert info.with_pod(reserve_pod(second)).reservation is second
    assert isinstance(info.pod, ReservePod)


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (reservation(), "the reservation misses the template spec"),
        (reservation({}, spec={"owners": []}), "the reservation misses the owner spec"),
        (reservation({}, spec={"ttl": None}), "the reservation misses the expiration spec"),
        (reservation({}, spec={"ttl": None, "expires": "2026-01-01T00:00:00Z"}), None),
        (reservation({}), None),
    ],
)
def test_what_a_reservation_must_have(made: Reservation, problem: str | None) -> None:
    assert problem_of(made) == problem


def test_requests_of_a_template_are_summed_and_written_as_they_were() -> None:
    template = requesting({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "512Mi", "a.b/c": "2"}, overhead={"cpu": "100m"})
    assert template_requests(reservation(template)) == {"cpu": "1600m", "memory": "1536Mi", "a.b/c": "2"}
    assert template_requests(reservation({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}})) == {}
    with pytest.raises(QuantityError):
        template_requests(reservation(requesting({"cpu": "much"})))


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (requesting({"cpu": "4"}, {"cpu": "-1"}), 'spec.containers[1].resources.requests[cpu]: "-1" is negative'),
        (requesting({"cpu": "4"}, overhead={"memory": "-1Mi"}), 'spec.overhead[memory]: "-1Mi" is negative'),
        (
            requesting({}, initContainers=[{"name": "i", "resources": {"requests": {"example.com/gpu": -1}}}]),
            "spec.initContainers[0].resources.requests[example.com/gpu]: -1 is negative",
        ),
        (requesting({}, resources={"requests": {"cpu": "-1m"}}), 'spec.resources.requests[cpu]: "-1m" is negative'),
    ],
)
def test_a_template_must_not_request_less_than_nothing(template: dict[str, Any], problem: str) -> None:
    with pytest.raises(QuantityError, match=f"^{re.escape(problem)}$"):
        PodInfo.of_reservation(reservation(template))


def test_an_available_reservation_cannot_have_less_than_nothing() -> None:
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "-1"}}
    with pytest.raises(QuantityError, match='"-1" is negative'):
        PodInfo.of_reservation(reservation(requesting({"cpu": "1"}), status=status))


def test_labels_of_equal_reservations_are_one_object() -> None:
    template = {"metadata": {"labels": {"a": "1"}}, **requesting({"cpu": "1"})}
    first, second = (reserve_pod(reservation(template, metadata={"uid": uid, "labels": {"b": "2"}})) for uid in ("u-1", "u-2"))
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.labels == {"a": "1", "b": "2"}
