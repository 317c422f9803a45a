"""Reservations out of JSON. Parts whose text is the same are read once, and are one object.

Thousands of Reservations are made of a few templates, and a Deployment's worth of them in the same second. Read whole, each costs 4.1 KB,
most of it the template; with parts in common 0.6 KB, in half the time (bench_reservations_at_scale.py). A text that is long, or one of very
many, is read as ever.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict, force_setattr

from koordsched.api.core import PodSpec, PodTemplateSpec, ResourceList
from koordsched.api.koordinator.reservations import Reservation, ReservationCondition, ReservationOwner, ReservationSpec, ReservationStatus
from koordsched.api.meta import Object, ObjectMeta

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")

KEPT = 1024  # texts of each part
LONGEST = 4096
"""Bytes of a text that is kept."""
NOTHING: dict[str, Any] = {}
"""Stands for each map that says nothing; as all of the API's, it is never written to."""


class _TemplateText(PodTemplateSpec):
    spec: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


class _SpecText(ReservationSpec):
    template: _TemplateText | None = None


class _StatusText(ReservationStatus):
    allocatable: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    conditions: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


class ReservationText(Object):
    """A Reservation whose parts are still text."""

    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


def reservation_of(text: ReservationText) -> Reservation:
    """Read the parts. What msgspec raises, when one is not what it must be. `text` is new: its metadata may still be changed."""
    meta = text.metadata
    force_setattr(meta, "labels", _labels(tuple(meta.labels.items())))
    force_setattr(meta, "creation_timestamp", intern(meta.creation_timestamp or "") or None)
    if not meta.annotations:
        force_setattr(meta, "annotations", NOTHING)
    return Reservation(
        api_version=text.api_version,
        kind=text.kind,
        metadata=meta,
        spec=_read(_spec, text.spec, ReservationSpec()),
        status=_status(text.status),
    )


def _read(read: _lru_cache_wrapper[T], raw: msgspec.Raw, missing: T) -> T:
    """Read a part, unless a part of the same text has been read."""
    text = bytes(raw)
    if not text:
        return missing
    return read(text) if len(text) <= LONGEST else read.__wrapped__(text)


@lru_cache(maxsize=KEPT)
def _labels(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


@lru_cache(maxsize=KEPT)
def _spec(text: bytes) -> ReservationSpec:
    read = _specs.decode(text)
    fields: dict[str, Any] = {name: intern(value) if isinstance(value, str) else value for name, value in asdict(read).items()}
    if read.template is None:
        return ReservationSpec(**fields)
    template = PodTemplateSpec(metadata=read.template.metadata, spec=_read(_pod_spec, read.template.spec, PodSpec()))
    _share_maps(template.metadata, read.owners)
    return ReservationSpec(**{**fields, "template": template})


def _share_maps(meta: ObjectMeta, owners: tuple[ReservationOwner, ...]) -> None:
    """Let selectors that ask for the template's labels, as they mostly do, have these. All of it is new: it may still be changed."""
    if not meta.labels:
        force_setattr(meta, "labels", NOTHING)
    if not meta.annotations:
        force_setattr(meta, "annotations", NOTHING)
    for owner in owners:
        selector = owner.label_selector
        if selector is not None and selector.match_labels == meta.labels:
            force_setattr(selector, "match_labels", meta.labels)


def _status(raw: msgspec.Raw) -> ReservationStatus:
    if not bytes(raw):
        return ReservationStatus()
    status = _statuses.decode(raw)
    return ReservationStatus(
        phase=intern(status.phase),
        node_name=intern(status.node_name),  # as the node's own is
        allocatable=_read(_amounts, status.allocatable, NOTHING),
        allocated=status.allocated or NOTHING,
        conditions=_read(_conditions, status.conditions, ()),
        current_owners=status.current_owners,
    )


_specs = msgspec.json.Decoder(_SpecText)
_statuses = msgspec.json.Decoder(_StatusText)
_pod_spec = lru_cache(maxsize=KEPT)(msgspec.json.Decoder(PodSpec).decode)
_amounts = lru_cache(maxsize=KEPT)(msgspec.json.Decoder(ResourceList).decode)
_conditions = lru_cache(maxsize=KEPT)(msgspec.json.Decoder(tuple[ReservationCondition, ...]).decode)
