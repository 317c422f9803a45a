"""What users read of gangs, in the reference's words (coscheduling.md §5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.preemption.rules import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

ALL_ATTEMPTED = "all pending pods is already been attempted"
GANG_NOT_FOUND = "Gang not found"
NO_TOPOLOGY = "no cluster network topology"


def unknown_gang(gang: str, pod: str) -> str:
    return f"can't find gang, gangName: {gang}, podName: {pod}"


def not_initialised(gang: str, pod: str) -> str:
    return f"gang has not init, gangName: {gang}, podName: {pod}"


def incomplete_group(group: Sequence[str], missing: Sequence[str], uninitialised: Sequence[str], gang: str, pod: str) -> str:
    """Return what a group lacks. group: the ids of all its gangs; missing and uninitialised: of those that are at fault."""
    parts = []
    if missing:
        parts.append(f"memberGangs {_listed(missing)} doesn't exists")
    if uninitialised:
        parts.append(f"memberGangs {_listed(uninitialised)} has not init")
    if not parts:
        parts.append(f"memberGangs {_listed(group)} child pod not collect enough")
    return f"gangGroup {_listed(group)} basic check: {', '.join(parts)}, current gang: {gang}, podName: {pod}"


def represented(representative: str, group: str) -> str:
    return f"representative pod {representative} of gangGroupID {group} already exists"


def group_rejected(group: str, member: str, reason: str, waiting: int) -> str:
    cause = f'member Pod "{member}" is unschedulable with reason "{reason}"' if member else ALL_ATTEMPTED
    return f'GangGroup "{group}" gets rejected due to {cause}, alreadyWaitForBound: {waiting}'


def already_attempted(member: str, message: str) -> str:
    """Return what members say that were not tried after preemption for this one. message: what it says itself."""
    return f"{PREFIX}preemption already attempted by {member} with message {message.removeprefix(PREFIX)}"


def unreserved(gang: str, pod_name: str) -> str:
    return f'Gang "{gang}" gets rejected due to Pod "{pod_name}" in Unreserve'


def no_candidates(wanted: int, slots: Sequence[str], reasons: str, multiples: Sequence[str]) -> str:
    """Return that no domain takes all members. slots: LAYER/NAME: SLOTS of each domain; multiples: LAYER=NUMBER; reasons: of the nodes."""
    domains = ";".join(f"topology topologyNode {each}" for each in slots)
    text = f"no candidate topology nodes can accommodate job, desiredOfferSlot: {wanted}, {domains}, {reasons}"
    return f"{text}; podCountMultiple constraints: {', '.join(sorted(multiples))}" if multiples else text


def _listed(ids: Sequence[str]) -> str:
    return f"[{' '.join(ids)}]"
