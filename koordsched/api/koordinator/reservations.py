"""Reservation and PodMigrationJob: capacity that is kept for pods to come, and the move of a pod to such a place (reservation.md §1).

Times and durations stay as written. A Reservation's template is a pod template that the API server does not check: one that cannot be
read makes the whole object unreadable, as any other field does.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from koordsched.api.core import ObjectReference, PodTemplateSpec, ResourceList, Taint
from koordsched.api.meta import Api, Int64, LabelSelector, Object


class ReservationController(Api):
    """A controller by what is given of it; an empty value matches any."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ReservationOwner(Api):
    """Pods that may use a reservation: all that is given of one owner has to match."""

    object: ObjectReference | None = None
    controller: ReservationController | None = None
    label_selector: LabelSelector | None = None


class PreAllocationPolicy(Api):
    mode: str = "Default"
    enable_multiple: bool = False


class ReservationSpec(Api):
    """`allocate_policy` is "" (Default), Aligned or Restricted. `ttl` is None where the API server's default was not applied."""

    template: PodTemplateSpec | None = None
    owners: tuple[ReservationOwner, ...] = ()
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool = True
    allocate_policy: str = ""
    pre_allocation: bool = False
    pre_allocation_policy: PreAllocationPolicy = PreAllocationPolicy()
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ReservationCondition(Api):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class ReservationStatus(Api):
    """`phase` is "" (Pending), Pending, Available, Succeeded, Failed or Waiting."""

    phase: str = ""
    node_name: str = ""
    allocatable: ResourceList = field(default_factory=dict)
    allocated: ResourceList = field(default_factory=dict)
    conditions: tuple[ReservationCondition, ...] = ()
    current_owners: tuple[ObjectReference, ...] = ()


class Reservation(Object):
    spec: ReservationSpec = ReservationSpec()
    status: ReservationStatus = ReservationStatus()


class MigrationPreconditions(Api):
    uid: str | None = None
    resource_version: str | None = None


class MigrationDeleteOptions(Api):
    grace_period_seconds: Int64 | None = None
    preconditions: MigrationPreconditions | None = None
    propagation_policy: str | None = None


class MigrationReservationOptions(Api):
    """The Reservation to use, or a template of the one to make, as JSON."""

    reservation_ref: ObjectReference | None = None
    template: Any = None


class PodMigrationJobSpec(Api):
    """`mode` is "" (ReservationFirst), ReservationFirst or EvictDirectly."""

    pod_ref: ObjectReference | None = None
    paused: bool = False
    mode: str = ""
    ttl: str | None = None
    delete_options: MigrationDeleteOptions | None = None
    reservation_options: MigrationReservationOptions | None = None


class PreemptedPodReservation(Api):
    namespace: str = ""
    name: str = ""
    node_name: str = ""
    phase: str = ""
    preempted_pod_ref: ObjectReference | None = None
    pods_ref: tuple[ObjectReference, ...] = ()


class PodMigrationJobStatus(Api):
    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    node_name: str = ""
    pod_ref: ObjectReference | None = None
    conditions: tuple[ReservationCondition, ...] = ()
    preempted_pods_ref: tuple[ObjectReference, ...] = ()
    preempted_pods_reservation: tuple[PreemptedPodReservation, ...] = ()


class PodMigrationJob(Object):
    spec: PodMigrationJobSpec = PodMigrationJobSpec()
    status: PodMigrationJobStatus = PodMigrationJobStatus()
