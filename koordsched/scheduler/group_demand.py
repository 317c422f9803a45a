"""What a group asks for, and whether quotas and all nodes together may have room for it, before any member is placed (coscheduling.md §17).

Members are looked at class by class (`framework.slots`): that a class has too few slots costs one look at the nodes, where placing the
members and taking them back costs a search for each. It never says so of a group that would fit: a gang that needs fewer members than it
has may do without those of one class, so a class is only asked for as many as no choice of members can do without; quotas are asked where
a gang needs all of its members. It is asked again while the group waits, before it is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koordsched.framework.slots import SlotCounter, pod_class

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.interface import GangTurn
    from koordsched.framework.profile import Profile
    from koordsched.scheduler.context import SchedulerContext


class Shortfall(NamedTuple):
    """The first member that has no room beside those before it, and why. before: how many those are."""

    key: str
    gang: str
    pod: PodInfo
    diagnosis: Diagnosis
    before: int


class _Member(NamedTuple):
    key: str
    gang: str
    pod: PodInfo


class _ClassDemand:
    """Members that are equal to filters."""

    __slots__ = ("least", "places", "profile")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.places: list[int] = []  # of its members in the order of all
        self.least = 0  # so many of them are placed, whichever members their gangs take


class GroupDemand:
    """The pending members that one turn of a group is about."""

    def __init__(self, gangs: Sequence[GangTurn], pods: Callable[[str], PodInfo | None], profiles: Mapping[str, Profile]) -> None:
        """pods: returns a member that is pending, by its key."""
        self._members: list[_Member] = []
        self._together: dict[str, list[int]] = {}  # by profile: members that are all placed or none
        self._classes: dict[Hashable, _ClassDemand] = {}
        for gang in gangs:
            found = [(key, pod) for key in gang.members if (pod := pods(key)) is not None and pod.pod.spec.scheduler_name in profiles]
            counts: dict[Hashable, int] = {}
            for key, pod in found:
                profile, place, of = profiles[pod.pod.spec.scheduler_name], len(self._members), pod_class(pod)
                made = self._classes.get(of)
                if made is None:
                    made = self._classes[of] = _ClassDemand(profile)
                made.places.append(place)
                counts[of] = counts.get(of, 0) + 1
                if gang.needed >= len(found):
                    self._together.setdefault(profile.name, []).append(place)
                self._members.append(_Member(key, gang.name, pod))
            for of, count in counts.items():
                self._classes[of].least += max(0, count - max(0, len(found) - gang.needed))
        self._uids = frozenset(member.pod.uid for member in self._members)

    @property
    def is_mixed(self) -> bool:
        """Whether members differ in what filters and amounts say of them."""
        return len(self._classes) > 1

    def shortfall(self, context: SchedulerContext, pods: Callable[[str], PodInfo | None]) -> Shortfall | None:
        """Return the first member for which there is surely no room; None: there may be room for all. PluginError.

        O(members) for quotas, and for each class O(nodes whose facts have changed) as a rule.
        """
        found: tuple[int, Diagnosis] | None = None
        for name, places in self._together.items():
            admission = context.profiles[name].admission
            refused = None if admission is None else admission.refusal_together([self._members[place].pod for place in places])
            if refused is not None and (found is None or places[refused[0]] < found[0]):
                found = places[refused[0]], refused[1]
        if found is None and context.cache.table.live_count:
            found = self._too_few_slots(context, pods)
        if found is None:
            return None
        place, diagnosis = found
        member = self._members[place]
        return Shortfall(member.key, member.gang, member.pod, diagnosis, place)

    def _too_few_slots(self, context: SchedulerContext, pods: Callable[[str], PodInfo | None]) -> tuple[int, Diagnosis] | None:
        found: tuple[int, Diagnosis] | None = None
        for made in self._classes.values():
            pod = pods(self._members[made.places[0]].key) if made.least else None  # as it is now
            if pod is None:
                continue
            counter = SlotCounter(made.profile.shapes, context.cache, context.queue.nominator)
            short = counter.shortage(pod, made.least, self._uids, made.profile.helped_by_arrivals)
            if short is not None and (found is None or made.places[short.slots] < found[0]):
                found = made.places[short.slots], short.diagnosis
        return found
