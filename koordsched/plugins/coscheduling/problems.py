"""What is reported of gangs that say something that cannot be used: events of the PodGroup and of members, and a line in the log.

Each text once, until it is another one. Of large gangs only the first members have an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import POD_GROUP
from koordsched.api.koordinator.gang_membership import (
    GANG_NAME,
    LIGHTWEIGHT_LABEL,
    MIN_AVAILABLE,
    POD_GROUP_LABEL,
    names_of_gangs,
    spec_of_member,
)
from koordsched.api.koordinator.reserve_pods import ReservePod
from koordsched.cluster.event_series import EventText
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.gangs import PodGroup
    from koordsched.api.meta import Object
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

INVALID = "InvalidGang"
TOPOLOGY_IGNORED = "TopologyIgnored"
MOST_MEMBERS = 16
"""So many members of a gang have an event of their own."""


class GangProblems:
    """Reports what is wrong with gangs."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._pod_groups: Mapping[str, PodGroup] = handle.informer(POD_GROUP).store
        self._texts: dict[str, dict[str, tuple[str, str]]] = {}  # by gang and topic: reason and text, as they were reported
        self._reported: dict[str, set[str]] = {}  # by gang: uids of members that have events

    def report(self, gang: str, topic: str, text: str, members: Mapping[str, Pod], reason: str = INVALID) -> None:
        """Report this on the PodGroup of a gang (by id) and on its members. topic: what the text replaces; "": that there is no problem."""
        texts = self._texts.get(gang, {})
        if texts.get(topic, ("", ""))[1] == text:
            return
        self._texts.setdefault(gang, texts)[topic] = reason, text
        if not text:
            return
        log.warning("a gang says something that cannot be used", gang=gang, problem=text)
        pod_group = self._pod_groups.get(gang)
        if pod_group is not None:
            self._event(pod_group, reason, text)
        reported = self._reported.setdefault(gang, set())
        for pod in members.values():
            if len(reported) < MOST_MEMBERS or pod.metadata.uid in reported:
                reported.add(pod.metadata.uid)
                self._event(pod, reason, text)

    def knows(self, gang: str, topic: str) -> bool:
        """Answer whether there is a problem of this topic."""
        return gang in self._texts and topic in self._texts[gang] and self._texts[gang][topic][1] != ""

    def member_added(self, gang: str, pod: Pod) -> None:
        """Report what is wrong with its gang on a member that has come."""
        texts = self._texts.get(gang)
        if texts is None:
            return
        reported = self._reported.setdefault(gang, set())
        if len(reported) < MOST_MEMBERS:
            reported.add(pod.metadata.uid)
            for reason, text in texts.values():
                if text:
                    self._event(pod, reason, text)

    def forget(self, gang: str) -> None:
        """Forget a gang that is gone."""
        self._texts.pop(gang, None)
        self._reported.pop(gang, None)

    def _event(self, regarding: Object, reason: str, text: str) -> None:
        if isinstance(regarding, ReservePod):
            regarding = regarding.reservation
        self._handle.event_on(regarding, EventText("Warning", reason, "Scheduling", text))


def competing_sources(pod: Pod, pod_group: PodGroup | None) -> str:
    """Return that a member names several gangs, or says of its gang what the PodGroup of that name says otherwise; "" if it does not."""
    names = names_of_gangs(pod.metadata)
    keys = [key for key in (POD_GROUP_LABEL, LIGHTWEIGHT_LABEL, GANG_NAME) if key in names]
    counts = names[keys[0]]
    others = [f"{key}: {names[key][:40]!r}" for key in keys[1:] if names[key] != counts]
    if others:
        return f"{keys[0]}: {counts[:40]!r} and {' and '.join(others)} name different gangs; {counts[:40]!r} counts"
    spec = None if pod_group is None else spec_of_member(pod.metadata)
    if pod_group is None or spec is None or spec.min_available == pod_group.spec.min_member:
        return ""
    of_group = f"PodGroup {pod_group.metadata.namespace}/{pod_group.metadata.name} says minMember {pod_group.spec.min_member}"
    return f"{MIN_AVAILABLE}: {spec.min_available}: {of_group}, which counts"
