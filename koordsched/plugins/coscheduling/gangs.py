"""Gangs: which there are, their members, and which gangs are placed together (coscheduling.md §3).

`Gangs` follows pods, the pods that stand for Reservations, and PodGroups, and is one for all profiles: members of one gang may belong to
several. Nothing of it is kept on the cluster; after a restart it is what these objects say, and members that waited are pending again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import (
    ONLY_WAITING,
    WAITING_AND_RUNNING,
    GangSpec,
    gang_name,
    is_in_pod_group,
    names_of_gangs,
    rank_of,
    spec_of_member,
    spec_of_pod_group,
)
from koordsched.api.podinfo import is_specified_alike
from koordsched.plugins.coscheduling.problems import GangProblems, competing_sources
from koordsched.plugins.coscheduling.reasons import incomplete_group, not_initialised, unknown_gang
from koordsched.queue.events import ActionType, AdmissionKey, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.gangs import PodGroup
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle

NAME = "Coscheduling"
GANG_CHANGED = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "gangs.coscheduling")
"""A gang is complete now, or its members are held back for another reason than before."""


class GangGroup:
    """Gangs that are placed together or not at all; mostly one alone."""

    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids  # of its gangs, sorted
        self.id = ",".join(ids)
        self.satisfied = False  # once any member was bound
        self.representative = ""  # the key of the pending member that stands for all in the queue
        self.blocking = ""  # the key of the member for which the last turn was refused, as long as the group is what it was then
        self.waiting_on_permit: set[str] = set()  # uids
        self.binding: frozenset[str] = frozenset()  # uids of the members that Permit allowed together
        self.to_bind: set[str] = set()  # of these, those that are not bound yet


class Gang:
    """A gang. Members are known by their keys, namespace/name."""

    def __init__(self, id: str, created: float) -> None:  # noqa: A002  # what the reference calls it
        self.id = id
        self.created = created  # seconds since the epoch
        self.joined = created  # when the last member came
        self.spec: GangSpec | None = None  # None: nothing has said yet what it wants
        self.of_pod_group = False
        self.members: dict[str, Pod] = {}
        self.ready: set[str] = set()  # members that count: neither held back by scheduling gates nor being deleted
        self.waiting: set[str] = set()  # reserved on a node, not bound yet
        self.bound: set[str] = set()
        self.group = GangGroup((id,))

    @property
    def is_collected(self) -> bool:
        """Whether enough members are there."""
        return self.spec is not None and len(self.ready) >= self.spec.min_available

    @property
    def pending_count(self) -> int:
        """How many members may be placed."""
        return len(self.ready) - len(self.waiting) - len(self.bound)

    def pending(self) -> list[str]:
        """Return the members that may be placed, by index within the gang, those without one last, then by name."""
        placed = self.waiting | self.bound
        keys = [key for key in self.ready if key not in placed]
        ranks = {key: rank_of(self.members[key].metadata) for key in keys}
        return sorted(keys, key=lambda key: (ranks[key] is None, ranks[key] or 0, key))

    def needed(self, default_policy: str) -> int:
        """Return how many more members have to be placed together before Permit allows any; 0 or less: each may be bound alone."""
        if self.spec is None:
            return 0
        policy = self.spec.match_policy or default_policy
        if policy == ONLY_WAITING:
            return self.spec.min_available - len(self.waiting)
        if policy == WAITING_AND_RUNNING:
            return self.spec.min_available - len(self.waiting) - len(self.bound)
        return 0 if self.group.satisfied else self.spec.min_available - len(self.waiting)

    def goes_alone(self, default_policy: str) -> bool:
        """Answer whether members are scheduled like any pod: the gang was placed once, and its match policy asks for no more."""
        policy = (self.spec.match_policy if self.spec is not None else "") or default_policy
        return self.group.satisfied and policy not in {ONLY_WAITING, WAITING_AND_RUNNING}


class Gangs:
    """All gangs."""

    def __init__(self, handle: Handle) -> None:
        self.by_id: dict[str, Gang] = {}
        self.groups: dict[tuple[str, ...], GangGroup] = {}
        self._handle = handle
        self._gang_of: dict[str, Gang] = {}  # by uid of the member
        self.problems = GangProblems(handle)
        self.unfinished: dict[str, Gang] = {}
        """Gangs of the network, by id, of which some members are bound and others still pending: these have to go near the bound ones."""
        self._followers: list[Callable[[Gang], None]] = []
        handle.informer(POD_GROUP).add_handler(_PodGroupHandler(self))
        pods = _PodHandler(self)
        handle.informer(POD).add_handler(pods)
        handle.follow_reserve_pods(pods)
        self._pod_groups: Mapping[str, PodGroup] = handle.informer(POD_GROUP).store

    def follow(self, follower: Callable[[Gang], None]) -> None:
        """Call this with each gang whose members or their states have changed."""
        self._followers.append(follower)

    def of(self, uid: str) -> Gang | None:
        """Return the gang of a pod. O(1)."""
        return self._gang_of.get(uid)

    def in_group(self, group: GangGroup) -> Iterator[Gang]:
        """Return the gangs of a group that there are, in order."""
        return (self.by_id[id] for id in group.ids if id in self.by_id)  # noqa: A001

    def why_incomplete(self, gang: Gang, pod: str) -> str:
        """Return why no member of the gang can be tried, "" if it can; pod: the key of the member that is asked about."""
        if gang.id not in self.by_id:
            return unknown_gang(gang.id, pod)
        if gang.spec is None:
            return not_initialised(gang.id, pod)
        if gang.is_collected and len(gang.group.ids) == 1 and gang.group.ids[0] == gang.id:
            return ""  # as a rule, and it is asked for each member
        known = [self.by_id.get(id) for id in gang.group.ids]  # noqa: A001
        if all(each is not None and each.is_collected for each in known):
            return ""
        missing = self.missing_of(gang.group)
        uninitialised = [each.id for each in known if each is not None and each.spec is None]
        return incomplete_group(gang.group.ids, missing, uninitialised, gang.id, pod)

    def missing_of(self, group: GangGroup) -> list[str]:
        """Return the gangs that the group names and of which there is neither a pod nor a PodGroup."""
        return [id for id in group.ids if id not in self.by_id]  # noqa: A001

    # What the cycle does with members

    def reserve(self, gang: Gang, key: str) -> None:
        """Take note that a member has a node."""
        gang.waiting.add(key)
        if gang.group.representative == key:
            gang.group.representative = ""
        self._note_whether_finished(gang)

    def unreserve(self, gang: Gang, key: str, uid: str) -> None:
        """Take note that a member has lost its node."""
        gang.waiting.discard(key)
        gang.group.waiting_on_permit.discard(uid)
        self._no_longer_bound(gang.group, uid)
        self._note_whether_finished(gang)

    def let_go(self, group: GangGroup) -> None:
        """Take note that all members of the group that have nodes are bound together from now on."""
        if not group.binding:
            members = [self.by_id[id] for id in group.ids if id in self.by_id]  # noqa: A001
            group.binding = frozenset(gang.members[key].metadata.uid for gang in members for key in gang.waiting if key in gang.members)
            group.to_bind = set(group.binding)

    def bind(self, gang: Gang, key: str, uid: str) -> None:
        """Take note that a member is bound."""
        if key in gang.bound:
            return
        group = gang.group
        gang.waiting.discard(key)
        gang.bound.add(key)
        self._unblock(group)
        first = not group.satisfied
        group.satisfied = True
        if group.representative == key:
            group.representative = ""
        self._no_longer_bound(group, uid)
        if first or not group.to_bind:
            self.announce(group)
        self._report(gang)

    def _no_longer_bound(self, group: GangGroup, uid: str) -> None:
        group.to_bind.discard(uid)
        if not group.to_bind:
            group.binding = frozenset()

    def _unblock(self, group: GangGroup) -> None:
        """Let the group be tried again if its last turn was refused for a member: it is not the same group any more."""
        if group.blocking:
            group.blocking = ""
            self.announce(group)

    def announce(self, group: GangGroup) -> None:
        """Let PreEnqueue be asked again about the members of a group that it holds back."""
        for gang in self.in_group(group):
            self._handle.announce(GANG_CHANGED, AdmissionKey(NAME, gang.id))

    # Pods

    def set_pod(self, pod: Pod) -> None:
        """Take over a pod that was added or has changed."""
        metadata = pod.metadata
        name = gang_name(metadata)
        known = self._gang_of.get(metadata.uid)
        if not name and known is None:
            return
        id = f"{metadata.namespace}/{name}" if name else ""  # noqa: A001
        if known is not None and known.id != id:
            self.remove_pod(pod)
        if not name:
            return
        gang = self.by_id.get(id) or self._add_gang(id)
        key = f"{metadata.namespace}/{metadata.name}"
        was_collected, was_initialised, was_ready = gang.is_collected, gang.spec is not None, key in gang.ready
        before = gang.members.get(key)
        gang.members[key] = pod
        self._gang_of[metadata.uid] = gang
        if before is None:
            gang.joined = self._handle.clock.now()
            self.problems.member_added(id, pod)
            if not self.problems.knows(id, "sources"):
                self._find_competing(gang, (pod,))
        if is_in_pod_group(metadata):
            gang.of_pod_group = True
        elif not gang.of_pod_group and (gang.spec is None or _says_otherwise(gang.spec, before, pod)):
            spec = spec_of_member(metadata)
            if spec is not None and spec != gang.spec:
                gang.group.blocking = ""  # as for a PodGroup that changes
                was_initialised = False
                self._initialise(gang, spec)
        if pod.spec.node_name or not (pod.spec.scheduling_gates or metadata.deletion_timestamp):
            gang.ready.add(key)
        else:
            gang.ready.discard(key)
            self._replace_representative(gang.group, key)
        if before is not None and before.spec.scheduler_name != pod.spec.scheduler_name:
            self._replace_representative(gang.group, key)  # it may be in no queue any more
        if pod.spec.node_name:
            self.bind(gang, key, metadata.uid)
        if before is None or was_ready != (key in gang.ready) or (gang.group.blocking and not is_specified_alike(before, pod)):
            self._unblock(gang.group)
        if gang.is_collected != was_collected or (gang.spec is not None) != was_initialised:
            self.announce(gang.group)
        self._report(gang)

    def remove_pod(self, pod: Pod) -> None:
        """Take note that a pod is gone or has ended."""
        gang = self._gang_of.pop(pod.metadata.uid, None)
        if gang is None:
            return
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if key in gang.members and gang.members[key].metadata.uid != pod.metadata.uid:
            return  # a new pod has its name by now
        was_collected = gang.is_collected
        gang.members.pop(key, None)
        gang.ready.discard(key)
        gang.waiting.discard(key)
        gang.bound.discard(key)
        group = gang.group
        self._unblock(group)
        group.waiting_on_permit.discard(pod.metadata.uid)
        self._no_longer_bound(group, pod.metadata.uid)
        self._replace_representative(group, key)
        if was_collected and not gang.is_collected:
            self._withdraw_nominations(group)
        self._report(gang)
        if not gang.members and gang.id not in self._pod_groups:
            self._remove_gang(gang)

    def _replace_representative(self, group: GangGroup, key: str) -> None:
        """Let another member stand for the group if this one did."""
        if group.representative == key:
            group.representative = ""
            self.announce(group)

    def _withdraw_nominations(self, group: GangGroup) -> None:
        """Give back the room that pods were evicted for: the group cannot be tried as it is now."""
        nominator = self._handle.nominator
        if not len(nominator):
            return
        for gang in self.in_group(group):
            for member in gang.members.values():
                nomination = nominator.nominations.get(member.metadata.uid)
                if nomination is not None:
                    self._handle.nominate(nomination.pod, "")

    # PodGroups

    def set_pod_group(self, pod_group: PodGroup) -> None:
        """Take over a PodGroup that was added or has changed."""
        id = _key(pod_group)  # noqa: A001
        gang, spec = self.by_id.get(id) or self._add_gang(id), spec_of_pod_group(pod_group)
        if not gang.of_pod_group or gang.spec != spec:  # not for its status, which the controller writes
            gang.of_pod_group = True
            gang.group.blocking = ""  # all its members are asked again below
            self._find_competing(gang, gang.members.values())
            self._initialise(gang, spec)
            self.announce(gang.group)
        self._report(gang)

    def remove_pod_group(self, pod_group: PodGroup) -> None:
        """Take note that a PodGroup is gone: its members wait until there is one again."""
        gang = self.by_id.get(_key(pod_group))
        if gang is None:
            return
        gang.spec = None
        gang.group.representative = ""
        if not gang.members:
            self._remove_gang(gang)
        else:
            self.announce(gang.group)
        self._report(gang)

    # Gangs

    def _add_gang(self, id: str) -> Gang:  # noqa: A002
        gang = self.by_id[id] = Gang(id, self._handle.clock.now())
        gang.group = self._group((id,))
        return gang

    def _remove_gang(self, gang: Gang) -> None:
        self.by_id.pop(gang.id, None)
        self.unfinished.pop(gang.id, None)
        self.problems.forget(gang.id)
        if not any(True for _ in self.in_group(gang.group)):
            self.groups.pop(gang.group.ids, None)
        else:
            self.announce(gang.group)

    def _group(self, ids: tuple[str, ...]) -> GangGroup:
        found = self.groups.get(ids)
        if found is None:
            found = self.groups[ids] = GangGroup(ids)
        return found

    def _initialise(self, gang: Gang, spec: GangSpec) -> None:
        """Take over what a gang wants, and the group that it names. The group stays where one was named and members have been placed."""
        ids = spec.groups or (gang.id,)
        if ids != gang.group.ids and (gang.spec is None or not (gang.waiting or gang.bound)):
            self._join(gang, self._group(ids))
        gang.spec = spec
        self.problems.report(gang.id, "spec", "; ".join(spec.problems), gang.members)

    def _join(self, gang: Gang, group: GangGroup) -> None:
        left = gang.group
        if left.representative in gang.members:
            left.representative = ""
        gang.group = group
        if left.ids == (gang.id,):
            group.satisfied |= left.satisfied
        if all(each.group is not left for each in self.in_group(left)):
            self.groups.pop(left.ids, None)
        else:
            self.announce(left)

    def _find_competing(self, gang: Gang, pods: Iterable[Pod]) -> None:
        """Report the first member that says of its gang what another source says otherwise, also on the other PodGroups that it names."""
        pod_group = self._pod_groups.get(gang.id)
        for pod in pods:
            text = competing_sources(pod, pod_group)
            if text:
                for name in dict.fromkeys(names_of_gangs(pod.metadata).values()):
                    id = f"{pod.metadata.namespace}/{name}"  # noqa: A001
                    if id == gang.id or id in self._pod_groups:
                        self.problems.report(id, "sources", text, gang.members if id == gang.id else {})
                return
        self.problems.report(gang.id, "sources", "", {})

    def _note_whether_finished(self, gang: Gang) -> None:
        in_network = gang.spec is not None and gang.spec.topology is not None
        if in_network and gang.bound and gang.pending_count > 0 and gang.id in self.by_id:
            self.unfinished[gang.id] = gang
        elif self.unfinished:
            self.unfinished.pop(gang.id, None)

    def _report(self, gang: Gang) -> None:
        self._note_whether_finished(gang)
        for follower in self._followers:
            follower(gang)


class _PodHandler:
    def __init__(self, gangs: Gangs) -> None:
        self._gangs = gangs

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        self._gangs.set_pod(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._gangs.remove_pod(old)
        self._gangs.set_pod(new)

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._gangs.remove_pod(pod)


class _PodGroupHandler:
    def __init__(self, gangs: Gangs) -> None:
        self._gangs = gangs

    def on_add(self, pod_group: PodGroup, _arrival: Arrival) -> None:
        self._gangs.set_pod_group(pod_group)

    def on_update(self, _old: PodGroup, new: PodGroup) -> None:
        self._gangs.set_pod_group(new)

    def on_delete(self, pod_group: PodGroup, _final_state: FinalState) -> None:
        self._gangs.remove_pod_group(pod_group)


def gangs_of(handle: Handle) -> Gangs:
    """Return the gangs of a scheduler, one for all profiles."""
    return handle.cache.shared.one(Gangs, lambda: Gangs(handle))


def _key(pod_group: PodGroup) -> str:
    return f"{pod_group.metadata.namespace}/{pod_group.metadata.name}"


def _says_otherwise(spec: GangSpec, before: Pod | None, now: Pod) -> bool:
    """Answer whether a member that has said what its gang wants may say something else now."""
    return before is not None and _sources(before) != _sources(now) and spec_of_member(before.metadata) == spec


def _sources(pod: Pod) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return pod.metadata.annotations, pod.metadata.labels
