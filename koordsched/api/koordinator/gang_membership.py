"""Which gang a pod is a member of, and what the gang wants (coscheduling.md §2).

A pod is a member by a label or an annotation. What its gang wants stands in a PodGroup, or in annotations of its members.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC, TopologySpec, topology_spec
from koordsched.api.koordinator.reading import Malformed, read_annotation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.koordinator.gangs import PodGroup
    from koordsched.api.meta import ObjectMeta

POD_GROUP_LABEL = "pod-group.scheduling.sigs.k8s.io"
LIGHTWEIGHT_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
LIGHTWEIGHT_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
PREFIX = "gang.scheduling.koordinator.sh/"
GANG_NAME = f"{PREFIX}name"
MIN_AVAILABLE = f"{PREFIX}min-available"
TOTAL_NUMBER = f"{PREFIX}total-number"
WAITING_TIME = f"{PREFIX}waiting-time"
MODE = f"{PREFIX}mode"
MATCH_POLICY = f"{PREFIX}match-policy"
MATCH_POLICY_ALIAS = "pod-group.scheduling.sigs.k8s.io/match-policy"
GROUPS = f"{PREFIX}groups"
RANK = f"{PREFIX}network-topology-index"

STRICT, NON_STRICT = "Strict", "NonStrict"
ONCE_SATISFIED = "once-satisfied"
ONLY_WAITING = "only-waiting"
WAITING_AND_RUNNING = "waiting-and-running"
MATCH_POLICIES = frozenset({ONCE_SATISFIED, ONLY_WAITING, WAITING_AND_RUNNING})

_INT32 = range(-(2**31), 2**31)
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


class GangSpec(Struct, frozen=True):
    """What a gang wants.

    `waiting`: a Go duration; anything but a duration above 0 means the plugin's default timeout. `match_policy` "": the plugin's default.
    `groups`: the ids of the gangs that are placed together with it, sorted; () for itself alone. `topology`: how near each other its
    members have to be; None: that does not matter. `problems`: what could not be used and what counts instead, a line each.
    """

    min_available: int
    total: int
    waiting: str = ""
    strict: bool = True
    match_policy: str = ""
    groups: tuple[str, ...] = ()
    topology: TopologySpec | None = None
    problems: tuple[str, ...] = ()


def gang_name(metadata: ObjectMeta) -> str:
    """Return the name of the gang that the object is a member of, "" for none."""
    labels = metadata.labels
    return labels.get(POD_GROUP_LABEL) or labels.get(LIGHTWEIGHT_LABEL) or metadata.annotations.get(GANG_NAME, "")


def names_of_gangs(metadata: ObjectMeta) -> dict[str, str]:
    """Return the gangs that the object names, by label or annotation; the first one counts."""
    labels, annotations = metadata.labels, metadata.annotations
    found = {key: labels.get(key, "") for key in (POD_GROUP_LABEL, LIGHTWEIGHT_LABEL)} | {GANG_NAME: annotations.get(GANG_NAME, "")}
    return {key: name for key, name in found.items() if name}


def is_in_pod_group(metadata: ObjectMeta) -> bool:
    """Answer whether a PodGroup alone says what the member's gang wants."""
    return bool(metadata.labels.get(POD_GROUP_LABEL))


def rank_of(metadata: ObjectMeta) -> int | None:
    """Return the member's index within its gang, None where it names none that is at least 0."""
    rank = _whole(metadata.annotations.get(RANK, ""))
    return rank if rank is not None and rank >= 0 else None


def spec_of_member(metadata: ObjectMeta) -> GangSpec | None:
    """Return what a member's annotations say of its gang; None where they name no minimum, or one that is no int32."""
    annotations = metadata.annotations
    least = _whole(metadata.labels.get(LIGHTWEIGHT_MIN) or annotations.get(MIN_AVAILABLE, ""))
    if least is None:
        return None
    return _spec(annotations, least, annotations.get(WAITING_TIME, ""))


def spec_of_pod_group(group: PodGroup) -> GangSpec:
    """Return what a PodGroup says of its gang."""
    seconds = group.spec.schedule_timeout_seconds or 0
    return _spec(group.metadata.annotations, group.spec.min_member, f"{seconds}s" if seconds > 0 else "")


def _spec(annotations: Mapping[str, str], least: int, waiting: str) -> GangSpec:
    problems: list[str] = []
    total = least
    if text := annotations.get(TOTAL_NUMBER):
        found = _whole(text)
        if found is None or found < least:
            problems.append(f"{TOTAL_NUMBER}: {text[:40]!r} is no number of at least {least}; {least} counts")
        else:
            total = found
    mode = annotations.get(MODE, "")
    if mode not in {"", STRICT, NON_STRICT}:
        problems.append(f"{MODE}: {mode[:40]!r} is neither {STRICT} nor {NON_STRICT}; {STRICT} counts")
    policy = annotations.get(MATCH_POLICY) or annotations.get(MATCH_POLICY_ALIAS, "")
    if policy and policy not in MATCH_POLICIES:
        key = MATCH_POLICY if annotations.get(MATCH_POLICY) else MATCH_POLICY_ALIAS
        problems.append(f"{key}: {policy[:40]!r} is none of {', '.join(sorted(MATCH_POLICIES))}; the default counts")
        policy = ""
    groups: tuple[str, ...] = ()
    if GROUPS in annotations:
        try:
            groups = tuple(sorted(read_annotation(annotations, GROUPS, tuple[str, ...]) or ()))
        except Malformed as malformed:
            problems.append(f"{malformed}; the gang alone counts")
    topology = None
    if TOPOLOGY_SPEC in annotations:
        try:
            topology, doubts = topology_spec(annotations)
            problems += doubts
        except Malformed as malformed:
            problems.append(f"{malformed}; the members go to any nodes")
    return GangSpec(least, total, waiting, mode != NON_STRICT, policy, groups, topology, tuple(problems))


def _whole(text: str) -> int | None:
    """Return the int32 that a text is, None for any other text."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT32 else None
