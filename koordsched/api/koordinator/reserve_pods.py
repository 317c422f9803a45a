"""Reserve pods: the pods that stand for Reservations on their way through the scheduler (reservation.md §3).

A reserve pod is made of its Reservation's template and exists in the scheduler alone. What has to be found out, reported or written about
it concerns the Reservation, which it carries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.api.core import Container, Pod, PodStatus, PodTemplateSpec, ResourceRequirements
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.meta import Int32, ObjectMeta
from koordsched.api.quantity import QuantityError, QuantityFormat, format_of, nano, quantity_text
from koordsched.api.resources import exact_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import ResourceList

RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"
RESERVATION_NAME = "scheduling.koordinator.sh/reservation-name"
RESERVATION_NODE = "scheduling.koordinator.sh/reservation-node"
IS_PRE_ALLOCATION = "scheduling.koordinator.sh/is-pre-allocation"
"""Annotations that reserve pods alone have: the node that the template names, and what they are, for other programs (`shown_pod`)."""
RESIZE_ALLOCATABLE = "scheduling.koordinator.sh/reservation-resize-allocatable"
"""Annotation of Reservations: amounts that replace those of the template when it becomes Available (`{"resources": {..}}`)."""
PRIORITY = "koordinator.sh/priority"
"""Label of Reservations: the priority of a reserve pod whose template has none."""

DEFAULT_NAMESPACE, DEFAULT_SCHEDULER = "default", "default-scheduler"
MOST_IMPORTANT = 2**31 - 1
"""The priority of a reserve pod where nothing says another one."""
PENDING, AVAILABLE, WAITING, SUCCEEDED, FAILED = "Pending", "Available", "Waiting", "Succeeded", "Failed"
CAPACITY_CONTAINER = "__internal_fake_container__"

NO_TEMPLATE = "the reservation misses the template spec"
NO_OWNERS = "the reservation misses the owner spec"
NO_EXPIRATION = "the reservation misses the expiration spec"


KEPT_LABELS = 1024
"""Sets of labels that reserve pods have in common, at most."""
_NOTHING_SAID = PodStatus()
_STATUSES = {phase: PodStatus(phase=phase) for phase in (SUCCEEDED, FAILED)}


class ReservePod(Pod):
    """A pod that stands for a Reservation; name and uid are the Reservation's uid."""

    reservation: Reservation = Reservation()


class _Latest:
    """The pod that was made last: all handlers of one change of a Reservation share it."""

    __slots__ = ("key", "pod")

    def __init__(self) -> None:
        self.pod = ReservePod()
        self.key = ""  # of `pod`, once it was asked for


_latest = _Latest()


def reserve_pod(reservation: Reservation) -> ReservePod:
    """Return the pod that stands for a Reservation as it is now, not to be changed. QuantityError when amounts of it cannot be read."""
    if _latest.pod.reservation is not reservation:
        _latest.pod, _latest.key = _made(reservation), ""
    return _latest.pod


def reserve_pod_key(pod: Pod) -> str:
    """Return namespace/name: one text for all that keep it of one change of a Reservation."""
    if _latest.pod is pod and _latest.key:
        return _latest.key
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if _latest.pod is pod:
        _latest.key = key
    return key


def _made(reservation: Reservation) -> ReservePod:
    template, meta, status = reservation.spec.template or PodTemplateSpec(), reservation.metadata, reservation.status
    spec, labels = template.spec, template.metadata.labels
    annotations = meta.annotations
    if template.metadata.annotations:
        annotations = {**template.metadata.annotations, **annotations}
    if spec.node_name:
        annotations = {**annotations, RESERVATION_NODE: spec.node_name}
    pod = ReservePod(
        metadata=ObjectMeta(
            name=meta.uid,
            namespace=template.metadata.namespace or DEFAULT_NAMESPACE,
            uid=meta.uid,
            resource_version=meta.resource_version,
            generation=meta.generation,
            labels=_merged(tuple(labels.items()), tuple(meta.labels.items())) if meta.labels else labels,
            annotations=annotations,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            owner_references=template.metadata.owner_references,
        ),
        spec=replace(
            spec,
            node_name=status.node_name,
            scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
            priority=spec.priority if spec.priority is not None else _labelled_priority(meta.labels.get(PRIORITY, "")),
        ),
        status=_STATUSES.get(status.phase, _NOTHING_SAID),
        reservation=reservation,
    )
    return _with_amounts(pod, status.allocatable) if is_available(reservation) else pod


def shown_pod(pod: Pod) -> Pod:
    """Return what other programs are shown of a pod: of a reserve pod a plain one, with annotations that say what it is."""
    if type(pod) is not ReservePod:
        return pod
    meta, reservation = pod.metadata, pod.reservation
    marks = {RESERVE_POD: "true", RESERVATION_NAME: reservation.metadata.name}
    if reservation.spec.pre_allocation:
        marks[IS_PRE_ALLOCATION] = "true"
    return Pod(metadata=replace(meta, annotations={**meta.annotations, **marks}), spec=pod.spec, status=pod.status)


def problem_of(reservation: Reservation) -> str | None:
    """Return why a Reservation is not to be scheduled at all, None if it is."""
    spec = reservation.spec
    if spec.template is None:
        return NO_TEMPLATE
    if not spec.owners:
        return NO_OWNERS
    return NO_EXPIRATION if spec.ttl is None and spec.expires is None else None


def is_available(reservation: Reservation) -> bool:
    return bool(reservation.status.node_name) and reservation.status.phase == AVAILABLE


def is_active(reservation: Reservation) -> bool:
    """Answer whether the Reservation is on a node, be it that it only waits there."""
    return bool(reservation.status.node_name) and reservation.status.phase in {AVAILABLE, WAITING}


def has_ended(reservation: Reservation) -> bool:
    return reservation.status.phase in {SUCCEEDED, FAILED}


def template_requests(reservation: Reservation) -> ResourceList:
    """Return what the template requests, in the formats in which it is written. QuantityError when an amount cannot be read."""
    template = reservation.spec.template or PodTemplateSpec()
    spec = template.spec
    formats: dict[str, QuantityFormat] = {}
    lists = [container.resources.requests for container in (*spec.containers, *spec.init_containers)]
    for amounts in (*lists, spec.resources.requests if spec.resources is not None else {}, spec.overhead):
        for name, quantity in amounts.items():
            formats.setdefault(name, format_of(quantity))
    return {name: quantity_text(amount, formats[name]) for name, amount in exact_requests(Pod(spec=spec)).items()}


@lru_cache(maxsize=KEPT_LABELS)
def _merged(labels: tuple[tuple[str, str], ...], others: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return all labels, of equal names the others: one object for many pods, not to be changed."""
    return {**dict(labels), **dict(others)}


def _labelled_priority(text: str) -> Int32:
    if not text:
        return MOST_IMPORTANT
    try:
        priority = int(text)
    except ValueError:
        return MOST_IMPORTANT
    return priority if -(2**31) <= priority <= MOST_IMPORTANT else MOST_IMPORTANT


def _with_amounts(pod: ReservePod, allocatable: ResourceList) -> ReservePod:
    """Let the pod ask for what the Reservation has, if that is not what its template asks for."""
    if _is_written_alike(pod, allocatable):
        return pod
    asked, has = exact_requests(pod), {name: nano(quantity) for name, quantity in allocatable.items()}
    if _amounts(asked) == _amounts(has):
        return pod
    amounts = {name: quantity_text(amount, QuantityFormat.DECIMAL_SI) for name, amount in asked.items()} | allocatable
    none, spec = ResourceRequirements(), pod.spec
    capacity = Container(CAPACITY_CONTAINER, resources=ResourceRequirements(requests=amounts, limits=amounts))
    return replace(
        pod,
        spec=replace(
            spec,
            overhead={},
            resources=None,
            containers=(*[replace(container, resources=none) for container in spec.containers], capacity),
            init_containers=tuple(replace(container, resources=none) for container in spec.init_containers),
        ),
    )


def _is_written_alike(pod: ReservePod, allocatable: ResourceList) -> bool:
    """Answer whether the one container of a plain template requests just this, in the same words, which can be read."""
    spec = pod.spec
    if len(spec.containers) != 1 or spec.init_containers or spec.overhead or spec.resources is not None:
        return False
    if spec.containers[0].resources.requests != allocatable:
        return False
    try:
        return min(exact_requests(pod).values(), default=1) > 0
    except QuantityError:
        return False


def _amounts(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
