"""Why members are held back, in their conditions: PodScheduled=False with the reason SchedulingGated (coscheduling.md §13, D9).

Members of a gang come one after the other, so a condition is written only when a member is still held back after a second and no further
member has come for a while: else each of thousands would cost a request while the others are being created. Then a gang that its group
names and of which nothing is known is also reported on the PodGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koordsched.api.koordinator.gang_membership import GROUPS

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.plugins.coscheduling.gangs import Gang, Gangs

DELAY_SECONDS = 1.0
QUIET_SECONDS, LONGEST_SECONDS = 0.5, 10.0
"""For so long no member of the gang has to have come; after so long the condition is written all the same."""


class _HeldBack(NamedTuple):
    pod: PodInfo
    problem: str
    since: float  # seconds since the epoch


class GatedConditions:
    """Writes these conditions: those that came up within a second together, at its end."""

    def __init__(self, handle: Handle, gangs: Gangs) -> None:
        self._handle = handle
        self._gangs = gangs
        self._wanted: dict[str, _HeldBack] = {}  # by uid
        self._due = False  # whether a call is under way

    def report(self, pod: PodInfo, problem: str) -> None:
        """Write in a second why the pod is held back, if it still is for that reason."""
        known = self._wanted.get(pod.uid)
        self._wanted[pod.uid] = _HeldBack(pod, problem, self._handle.clock.now() if known is None else known.since)
        self._write_later()

    def _write_later(self) -> None:
        if not self._due:
            self._due = True
            self._handle.call_later(DELAY_SECONDS, self._write)

    def _write(self) -> None:
        self._due = False
        wanted, self._wanted = self._wanted, {}
        now = self._handle.clock.now()
        gangs: dict[str, Gang] = {}
        for uid, (pod, problem, since) in wanted.items():
            gang = self._gangs.of(uid)
            if gang is None or pod.key not in gang.ready or self._gangs.why_incomplete(gang, pod.key) != problem:
                continue
            if now - gang.joined < QUIET_SECONDS and now - since < LONGEST_SECONDS:
                self._wanted[uid] = wanted[uid]
                continue
            self._handle.report_gated(pod, problem)
            gangs[gang.id] = gang
        if self._wanted:
            self._write_later()
        for gang in gangs.values():
            missing = self._gangs.missing_of(gang.group)
            text = f"{GROUPS}: there is neither a pod nor a PodGroup of {', '.join(missing)}, for which the gang waits" if missing else ""
            self._gangs.problems.report(gang.id, "groups", text, gang.members)
