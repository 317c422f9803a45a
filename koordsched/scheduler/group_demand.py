"""What a group asks for, and whether quotas and all nodes together may have room for it, before any member is placed (coscheduling.md §17).

Members are looked at class by class (`framework.slots`): that a class has too few slots costs one look at the nodes, where placing the
members and taking them back costs a search for each. It never says so of a group that would fit: a gang that needs fewer members than it
has may do without those of one class, so a class is only asked for as many as no choice of members can do without; quotas are asked where
a gang needs all of its members. It is asked again while the group waits, before it is tried again.
"""

from __future__ import annotations

from functools import partial
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
    """The first member that has no room beside those before it. before: how many those are; diagnose: says why, to be asked at once."""

    pod: PodInfo
    gang: str
    diagnose: Callable[[], Diagnosis]
    before: int


class _Place(NamedTuple):
    """A member that has no room, by its place in the order of all, and what says why."""

    place: int
    diagnose: Callable[[], Diagnosis]


class _ClassDemand:
    """Members that are equal to filters."""

    __slots__ = ("gang", "least", "of_gang", "places", "profile")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.places: list[int] = []  # of its members in the order of all
        self.gang, self.of_gang = -1, 0  # how many members the gang has that was looked at last
        self.least = 0  # so many of them are placed, whichever members their gangs take


class GroupDemand:
    """The pending members that one turn of a group is about."""

    def __init__(self, gangs: Sequence[GangTurn], pods: Callable[[str], PodInfo | None], profiles: Mapping[str, Profile]) -> None:
        """pods: returns a member that is pending, by its key."""
        self._pods: list[PodInfo] = []
        self._gangs: list[tuple[int, str]] = []  # where the members of each begin, and its name
        self._together: dict[str, list[int]] = {}  # by profile: members that are all placed or none
        self._classes: dict[Hashable, _ClassDemand] = {}
        for number, gang in enumerate(gangs):
            found = [pod for key in gang.members if (pod := pods(key)) is not None and pod.pod.spec.scheduler_name in profiles]
            self._gangs.append((len(self._pods), gang.name))
            spare = max(0, len(found) - gang.needed)
            for place, pod in enumerate(found, len(self._pods)):
                made = self._class_of(pod, profiles)
                if made.gang != number:
                    made.gang, made.of_gang = number, 0
                made.places.append(place)
                made.of_gang += 1
                if made.of_gang > spare:
                    made.least += 1
                if not spare:
                    self._together.setdefault(made.profile.name, []).append(place)
            self._pods += found
        self._is_limited = any(profiles[name].limits_groups for name in self._together)
        asked = [made for made in self._classes.values() if made.least]
        self._examples = [(made.profile.name, self._pods[made.places[0]].key, made.least) for made in asked]

    def _class_of(self, pod: PodInfo, profiles: Mapping[str, Profile]) -> _ClassDemand:
        of = pod_class(pod)
        found = self._classes.get(of)
        if found is None:
            found = self._classes[of] = _ClassDemand(profiles[pod.pod.spec.scheduler_name])
        return found

    def alike(self, context: SchedulerContext, pods: Callable[[str], PodInfo | None]) -> Hashable | None:
        """Return what groups have in common of which `shortfall` says the same; None where it is asked of each. O(classes), as a rule.

        pods: as of `shortfall`.
        """
        nominator = context.queue.nominator
        if self._is_limited or (len(nominator) and any(pod.uid in nominator for pod in self._pods)):
            return None  # what is nominated for members of the group is not in their way
        found = []
        for profile, key, least in self._examples:  # a plain loop: this is asked once an event and waiting group
            pod = pods(key)
            if pod is not None:
                found.append((profile, pod_class(pod), least))
        return tuple(found)

    @property
    def is_mixed(self) -> bool:
        """Whether members differ in what filters and amounts say of them."""
        return len(self._classes) > 1

    def shortfall(self, context: SchedulerContext, pods: Callable[[str], PodInfo | None]) -> Shortfall | None:
        """Return the first member for which there is surely no room; None: there may be room for all. PluginError.

        O(members) for quotas, and for each class O(nodes whose facts have changed) as a rule.
        """
        found: _Place | None = None
        for name, places in self._together.items():
            admission = context.profiles[name].admission
            refused = None if admission is None else admission.refusal_together([self._pods[place] for place in places])
            if refused is not None and (found is None or places[refused[0]] < found.place):
                found = _Place(places[refused[0]], partial(_same, refused[1]))
        if found is None and context.cache.table.live_count:
            found = self._too_few_slots(context, pods)
        if found is None:
            return None
        gang = next(name for begin, name in reversed(self._gangs) if begin <= found.place)
        return Shortfall(self._pods[found.place], gang, found.diagnose, found.place)

    def _too_few_slots(self, context: SchedulerContext, pods: Callable[[str], PodInfo | None]) -> _Place | None:
        found: _Place | None = None
        group = {pod.uid for pod in self._pods} if len(context.queue.nominator) else ()
        for made in self._classes.values():
            pod = pods(self._pods[made.places[0]].key) if made.least else None  # as it is now
            if pod is None:
                continue
            counter = SlotCounter(made.profile.shapes, context.cache, context.queue.nominator)
            short = counter.shortage(pod, made.least, group, made.profile.helped_by_arrivals)
            if short is not None and (found is None or made.places[short.slots] < found.place):
                found = _Place(made.places[short.slots], short.diagnose)
        return found


def _same(diagnosis: Diagnosis) -> Diagnosis:
    return diagnosis
