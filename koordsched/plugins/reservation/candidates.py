"""Running pods that Reservations may take over (pre-allocation, reservation.md §13), found by their labels.

Pods that run are kept by their labels from the moment on when the first Reservation looks for some. Which of them one kind of Reservation
may take over is a `CandidateSet`: in the mode Default those that the selectors of its owners, and all else of them, match; in the mode
Cluster those with a label. A pod that has a part of another Reservation is none of them until that ends. A set follows the pods for as long
as a Reservation looks at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import is_ignoring_reservations
from koordsched.api.selectors import SelectorError
from koordsched.cache.plugin_state import PodFollower
from koordsched.plugins.reservation.matching import demand_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.plugins.reservation.matching import Demand, OwnerSpec

Pair = tuple[str, str]
INT64 = range(-(2**63), 2**63)


class CandidateRule(Protocol):
    """Which running pods a set has, and in which order they are tried."""

    @property
    def key(self) -> Hashable:
        """What the rule is: equal for rules that say the same."""

    @property
    def needs(self) -> Sequence[Pair | None]:
        """Labels of which a pod must have one; None among them: there is no such label."""

    def selects(self, labels: Mapping[str, str]) -> bool: ...
    def takes(self, pod: Pod) -> bool:
        """Answer whether a pod whose labels are selected is a candidate."""

    def order(self, pod: Pod) -> tuple[object, ...]: ...


class OwnersRule:
    """Mode Default: pods that could be owners, of those that some label selector of the owners selects. The oldest comes first."""

    def __init__(self, spec: OwnerSpec) -> None:
        self.key: Hashable = spec.key
        self._spec = spec
        self._selectors = spec.selectors
        self.needs: Sequence[Pair | None] = list(dict.fromkeys(s.equal[0] if s.equal else None for s in self._selectors))

    def selects(self, labels: Mapping[str, str]) -> bool:
        return any(selector.matches(labels) for selector in self._selectors)

    def takes(self, pod: Pod) -> bool:
        return self._spec.matches(pod)

    def order(self, pod: Pod) -> tuple[object, ...]:
        meta = pod.metadata
        return meta.creation_timestamp or "", meta.namespace, meta.name


class ClusterRule:
    """Mode Cluster: pods with the label, whatever the owners. Higher priorities come first, then smaller uids."""

    def __init__(self, label: str, priority: str) -> None:
        """label: the key of the label; priority: that of the annotation."""
        self.key: Hashable = (label, priority)
        self._label = label
        self._priority = priority
        self.needs: Sequence[Pair | None] = [(label, "true")]

    def selects(self, labels: Mapping[str, str]) -> bool:
        return labels.get(self._label) == "true"

    def takes(self, _pod: Pod) -> bool:
        return True

    def order(self, pod: Pod) -> tuple[object, ...]:
        try:
            priority = int(pod.metadata.annotations.get(self._priority, "0"), 10)
        except ValueError:
            priority = 0
        return -priority if priority in INT64 else 0, pod.metadata.uid


class Candidate(NamedTuple):
    """A running pod that may be taken over. demand: what it asks of Reservations itself, None for nothing."""

    pod: PodInfo
    row: int
    order: tuple[object, ...]
    demand: Demand | None


class CandidateUser(Protocol):
    """What looks at a set: a pre-allocator."""

    def put(self, candidate: Candidate) -> bool:
        """Take in a candidate; answer whether it may be taken over."""

    def drop(self, uid: str) -> None: ...


class CandidateSet:
    """The candidates of a rule by uid. choosy: how many of them ask something of Reservations."""

    def __init__(self, rule: CandidateRule) -> None:
        self.rule = rule
        self.candidates: dict[str, Candidate] = {}
        self.users: dict[CandidateUser, None] = {}
        self.choosy = 0


class _LabelClass:
    """Running pods of equal labels by uid, and the sets that select these."""

    __slots__ = ("labels", "pods", "sets")

    def __init__(self, labels: dict[str, str], sets: list[CandidateSet]) -> None:
        self.labels = labels
        self.pods: dict[str, PodInfo] = {}
        self.sets = sets


class RunningPods(PodFollower):
    """The running pods by labels, and the sets of candidates in use. Begins to follow the pods when it is asked for a set first."""

    def __init__(self, cache: Cache, gained: Callable[[PodInfo, bool], None]) -> None:
        """gained: called with a pod that may be taken over now, and whether it ran before, so that its room is found free now."""
        self._cache = cache
        self._gained = gained
        self._classes: dict[tuple[Pair, ...], _LabelClass] = {}
        self._by_pair: dict[Pair, dict[tuple[Pair, ...], _LabelClass]] = {}
        self._class_of: dict[str, _LabelClass] = {}  # by uid
        self._sets: dict[Hashable, CandidateSet] = {}
        self._following = False

    # Sets

    def set_of(self, rule: CandidateRule) -> CandidateSet:
        """Return the set of a rule, which is kept as long as it has users. O(pods with a label that the rule needs) for a new one."""
        if not self._following:
            self._following = True
            self._cache.follow(self)
            self._cache.credits.call_when_drawn(self._drawn)
        found = self._sets.get(rule.key)
        if found is None:
            found = self._sets[rule.key] = CandidateSet(rule)
            for known in self._classes_with(rule.needs):
                if rule.selects(known.labels):
                    known.sets.append(found)
                    for pod in known.pods.values():
                        self._decide(found, pod, grown=True)
        return found

    def use(self, found: CandidateSet, user: CandidateUser) -> None:
        """Let a user follow a set until `leave`, and take in what is there."""
        found.users[user] = None
        for candidate in found.candidates.values():
            user.put(candidate)

    def leave(self, found: CandidateSet, user: CandidateUser) -> None:
        found.users.pop(user, None)
        if not found.users:
            del self._sets[found.rule.key]
            for known in self._classes_with(found.rule.needs):
                if found in known.sets:
                    known.sets.remove(found)

    def _classes_with(self, needs: Iterable[Pair | None]) -> list[_LabelClass]:
        found: dict[tuple[Pair, ...], _LabelClass] = {}
        for need in needs:
            found.update(self._classes if need is None else self._by_pair.get(need, {}))
        return list(found.values())

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if not self._cache.simulating and pod.reservation is None and pod.pod.spec.node_name:
            self._put(pod, grown=True)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if not self._cache.simulating and pod.uid in self._class_of:
            self._drop(pod)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        known = self._class_of.get(pod.uid)
        for found in () if known is None else known.sets:
            self._decide(found, pod, grown=True)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if new.reservation is not None or not new.pod.spec.node_name:
            return
        known, before, after = self._class_of.get(new.uid), old.pod.metadata, new.pod.metadata
        if known is None:
            self._put(new, grown=True)  # it was assumed, and is seen bound
        elif before.labels != after.labels or before.annotations != after.annotations or before.owner_references != after.owner_references:
            self._drop(old)
            self._put(new, grown=False)
        else:
            known.pods[new.uid] = new

    def without(self, pods: Sequence[PodInfo], row: int) -> None:
        """Hide nothing: a view of one owner does not change what others may take over."""

    def _put(self, pod: PodInfo, *, grown: bool) -> None:
        key = tuple(pod.pod.metadata.labels.items())
        known = self._classes.get(key)
        if known is None:
            labels = dict(key)
            known = self._classes[key] = _LabelClass(labels, [found for found in self._sets.values() if found.rule.selects(labels)])
            for pair in key:
                self._by_pair.setdefault(pair, {})[key] = known
        known.pods[pod.uid] = pod
        self._class_of[pod.uid] = known
        for found in known.sets:
            self._decide(found, pod, grown=grown)

    def _drop(self, pod: PodInfo) -> None:
        known = self._class_of.pop(pod.uid)
        del known.pods[pod.uid]
        for found in known.sets:
            self._remove(found, pod.uid)
        if not known.pods:
            key = tuple(known.labels.items())
            del self._classes[key]
            for pair in key:
                classes = self._by_pair[pair]
                del classes[key]
                if not classes:
                    del self._by_pair[pair]

    # Candidates

    def _drawn(self, uid: str, _placeholder: str) -> None:
        """A pod began or ceased to have a part of a Reservation."""
        known = self._class_of.get(uid)
        if known is not None:
            for found in known.sets:
                self._decide(found, known.pods[uid], grown=False)

    def _decide(self, found: CandidateSet, pod: PodInfo, *, grown: bool) -> None:
        """Find out whether a pod whose labels are selected is a candidate. grown: its node uses more than before, by this pod."""
        self._remove(found, pod.uid)
        row = self._cache.row_of(pod.uid)
        labels = pod.pod.metadata.labels
        if row is None or self._cache.credits.drawn_from(pod.uid) is not None or is_ignoring_reservations(labels):
            return
        if not found.rule.takes(pod.pod):
            return
        try:
            demand = demand_of(pod)
        except (Malformed, SelectorError):
            return
        asks = demand.affinity is not None or bool(demand.exact)
        candidate = found.candidates[pod.uid] = Candidate(pod, row, found.rule.order(pod.pod), demand if asks else None)
        if asks:
            found.choosy += 1
            if found.choosy == 1 and found.users:
                self._cache.signatures.changed(_is_pre_allocating)
        takers = [user for user in found.users if user.put(candidate)]
        if takers:
            self._gained(pod, not grown)

    def _remove(self, found: CandidateSet, uid: str) -> None:
        candidate = found.candidates.pop(uid, None)
        if candidate is None:
            return
        found.choosy -= candidate.demand is not None
        for user in found.users:
            user.drop(uid)

    def decide_again(self, node_pods: Iterable[PodInfo]) -> None:
        """Look again at those of these pods that ask something of Reservations: the labels of their node have changed."""
        for pod in node_pods:
            known = self._class_of.get(pod.uid)
            if known is not None and RESERVATION_AFFINITY in pod.pod.metadata.annotations:
                for found in known.sets:
                    self._decide(found, pod, grown=False)


def _is_pre_allocating(pod: PodInfo) -> bool:
    return pod.reservation is not None and pod.reservation.spec.pre_allocation
