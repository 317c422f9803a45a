"""The PodGroup controller: phases and counts in the status of PodGroups (coscheduling.md §9). On the leader only.

A status is written a second after something changed, with all that has changed by then, so that a gang that is placed at once costs one
request: what it went through on the way is not written. While pods wait to be bound it is written up to ten seconds later, after them.

A Reservation that is a member is scheduled once it has a node, and has ended once it has succeeded or failed; it never runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.kinds import POD, POD_GROUP, RESERVATION
from koordsched.api.koordinator.gangs import PodGroup, PodGroupStatus
from koordsched.api.koordinator.reserve_pods import ReservePod
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.port import ClusterError, NotFound, Patch, Ref
from koordsched.framework.controllers import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.framework.handle import Handle
    from koordsched.plugins.coscheduling.gangs import Gang, Gangs

PENDING, PRE_SCHEDULING, SCHEDULING, SCHEDULED = "Pending", "PreScheduling", "Scheduling", "Scheduled"
RUNNING, FAILED, FINISHED = "Running", "Failed", "Finished"
SUCCEEDED = "Succeeded"  # a phase of members, as is Failed
LOOK_SECONDS = 1.0
"""How long after a change a status is looked at."""
PASSING_SECONDS = 5.0
"""How long after its last member has come a group has to wait for its nodes before its status says that it does."""
ABANDONED_SECONDS = 48 * 3600.0
"""A group that began to be scheduled more than this after its creation, and of which nothing runs, is no longer looked at."""


class PodGroupController:
    """Keeps the status of every PodGroup true to its members."""

    def __init__(self, handle: Handle, gangs: Gangs) -> None:
        self._cluster = handle.cluster
        self._clock = handle.clock
        self._gangs = gangs
        self._groups: Mapping[str, PodGroup] = handle.informer(POD_GROUP).store
        self._work: WorkQueue[str] = WorkQueue("status of a PodGroup", gives_way=handle.has_backlog)
        self._uids: dict[str, str] = {}  # by gang: the PodGroup that was looked at last
        self._ended: dict[str, dict[str, str]] = {}  # by gang: the phases of members that ended, by uid
        self._counted: dict[str, dict[str, Pod]] = {}  # by gang: the members at the last look, by uid
        gangs.follow(self._changed)

    def _changed(self, gang: Gang) -> None:
        if gang.id in self._groups or gang.id in self._uids:
            self._work.add(gang.id, LOOK_SECONDS)

    async def run(self) -> None:
        """Look at each group whose members or own fields have changed, at most once a second."""
        for key in self._groups:
            self._work.add(key, LOOK_SECONDS)
        await self._work.run(self._look)

    async def _look(self, key: str) -> float | None:
        """Write what has changed of a group; return in how many seconds to look again, None: when something changes."""
        group, gang = self._groups.get(key), self._gangs.by_id.get(key)
        uid = "" if group is None else group.metadata.uid
        if self._uids.get(key, uid) != uid:  # it is gone, or another one by now
            for known in (self._uids, self._ended, self._counted):
                known.pop(key, None)
        if group is None or gang is None:
            return None
        self._uids[key] = uid
        await self._find_ended(key, gang)
        if self._is_settled(group):
            return None
        wanted = self._status(group, gang)
        if wanted == group.status:
            return None
        if wanted.phase == PRE_SCHEDULING and (passing := gang.joined + PASSING_SECONDS - self._clock.now()) > 0.0:
            return passing
        body = {"status": _changes(group.status, wanted)}
        namespace, name = key.split("/", 1)
        with suppress(NotFound):
            await self._cluster.patch(Ref(POD_GROUP, namespace, name), Patch(body))
        return None

    async def _find_ended(self, key: str, gang: Gang) -> None:
        """Ask the API server how members ended that are gone from the watch: it shows no difference between deleted and ended pods."""
        members = {pod.metadata.uid: pod for pod in gang.members.values()}
        before, self._counted[key] = self._counted.get(key, {}), members
        ended = self._ended.setdefault(key, {})
        for uid, pod in before.items():
            if uid in members or uid in ended:
                continue
            if isinstance(pod, ReservePod):
                ref = Ref(RESERVATION, "", pod.reservation.metadata.name)
            else:
                ref = Ref(POD, pod.metadata.namespace, pod.metadata.name)
            try:
                found: Any = await self._cluster.get(ref)
            except NotFound:
                continue
            except ClusterError:
                self._counted[key] = {**self._counted[key], uid: pod}
                raise
            if found.metadata.uid == uid and found.status.phase in {SUCCEEDED, FAILED}:
                ended[uid] = found.status.phase

    def _is_settled(self, group: PodGroup) -> bool:
        status = group.status
        if status.phase in {FINISHED, FAILED}:
            return True
        if status.scheduled != group.spec.min_member or status.running or not status.schedule_start_time:
            return False
        created = group.metadata.creation_timestamp
        return created is not None and parse_rfc3339(status.schedule_start_time) - parse_rfc3339(created) > ABANDONED_SECONDS

    def _status(self, group: PodGroup, gang: Gang) -> PodGroupStatus:
        """Return the status that follows from the members (coscheduling.md §9). Of several phases that apply the last one counts.

        A group of which a member has a node by the time that it is first looked at has left PreScheduling already.
        """
        status, least = group.status, group.spec.min_member
        ended = self._ended.get(gang.id, {})
        members = len(gang.members) + len(ended)
        phase = status.phase or PENDING
        if phase == PENDING:
            if not 0 < least <= members:
                return replace(status, phase=PENDING)
            status = replace(status, phase=PRE_SCHEDULING, occupying=_owners(gang.members.values()))
            if not gang.bound and not ended:
                return status
        if not members:
            return replace(status, phase=PENDING)
        phases = [pod.status.phase for pod in gang.members.values()]
        running = phases.count("Running")
        succeeded = list(ended.values()).count(SUCCEEDED)
        failed = list(ended.values()).count(FAILED)
        scheduled = len(gang.bound) + len(ended)
        start = status.schedule_start_time
        if scheduled < least:
            phase, start = SCHEDULING, start or rfc3339(self._clock.now())
        else:
            phase = SCHEDULED
        if phase == SCHEDULED and succeeded + running >= least:
            phase = RUNNING
        if failed and failed + running + succeeded >= least:
            phase = FAILED
        if succeeded >= least:
            phase = FINISHED
        return replace(
            status, phase=phase, scheduled=scheduled, running=running, succeeded=succeeded, failed=failed, schedule_start_time=start
        )


def _owners(members: Iterable[Pod]) -> str:
    """Return the owners of the first member, as sorted namespace/name separated by commas; "" without any."""
    first = next(iter(members), None)
    if first is None:
        return ""
    return ",".join(sorted(f"{first.metadata.namespace}/{owner.name}" for owner in first.metadata.owner_references))


def _changes(old: PodGroupStatus, new: PodGroupStatus) -> dict[str, Any]:
    """Return the fields that differ, as a merge patch writes them; None for a field that is absent now."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
