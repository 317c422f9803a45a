"""Running pods that Reservations may take over (pre-allocation, reservation.md §13), found by their labels.

Pods that run are kept by their labels from the moment on when the first Reservation looks for some. Which of them Reservations may take
over is a `CandidateSet`: in the mode Default those that the selectors of their owners, and all else of them, match; in the mode Cluster
those with a label. A pod that has a part of another Reservation is none of them until that ends. A set follows the pods for as long as a
Reservation looks at it: what all of these look at is kept there, compiled row by row, and is the credit of one owner (`Cache.credits`).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from koordsched._core.preallocation import CandidateRows
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import is_ignoring_reservations
from koordsched.api.selectors import SelectorError
from koordsched.cache.plugin_state import PodFollower, StateDifference
from koordsched.plugins.reservation.matching import Outcome, classify, demand_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from koordsched._core.table import Request
    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.matching import Demand, OwnerSpec

Pair = tuple[str, str]
INT64 = range(-(2**63), 2**63)
NO_ROW = -1


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

    def accepts(self, demand: Demand, row: int) -> bool:
        """Answer whether a candidate on the row that asks this of Reservations may be taken over."""

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

    def accepts(self, _demand: Demand, _row: int) -> bool:
        return False

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

    def accepts(self, _demand: Demand, _row: int) -> bool:
        return False

    def order(self, pod: Pod) -> tuple[object, ...]:
        meta = pod.metadata
        written = meta.annotations.get(self._priority)
        if written is None:
            return 0, meta.uid
        try:
            priority = int(written, 10)
        except ValueError:
            priority = 0
        return -priority if priority in INT64 else 0, meta.uid


class NamedRule:
    """What another rule says, and candidates that ask for a Reservation such as this one: where any do, it matters which it is."""

    def __init__(self, rule: CandidateRule, info: ReservationInfo, labels_of: Callable[[int], Mapping[str, str]]) -> None:
        """labels_of: returns the labels of the node of a row."""
        meta = info.reservation.metadata
        self.key: Hashable = (rule.key, meta.name, tuple(sorted(meta.labels.items())), info.reservation.spec.taints)
        self.needs, self.selects, self.takes, self.order = rule.needs, rule.selects, rule.takes, rule.order
        self._info = info
        self._labels_of = labels_of

    def accepts(self, demand: Demand, row: int) -> bool:
        return classify(demand, self._info, self._labels_of(row), runs=True).outcome is Outcome.MATCHED


class Candidate(NamedTuple):
    """A running pod that may be taken over. demand: what it asks of Reservations itself, None for nothing."""

    pod: PodInfo
    row: int
    demand: Demand | None


class CandidateSet:
    """The candidates of a rule. What they hold belongs to the owner of credits `credit_key`."""

    def __init__(self, rule: CandidateRule, credit_key: str, cache: Cache) -> None:
        self.rule = rule
        self.credit_key = credit_key
        self.users = 0  # kinds of Reservations that look at it
        self.standing = False  # whether it is kept without any, so that the first one finds it complete
        self.candidates: dict[str, Candidate] = {}  # by uid
        self.rows: dict[int, dict[str, Candidate]] = {}  # the same by row
        self.choosy: set[str] = set()  # uids of pods that ask something of Reservations, whether or not they are candidates
        self._cache = cache
        self._compiled = CandidateRows(cache.table)
        self._ordered: dict[int, list[Candidate]] = {}  # as compiled
        self._outdated: set[int] = set()

    def put(self, *candidates: Candidate) -> None:
        for candidate in candidates:
            uid, row = candidate.pod.uid, candidate.row
            self.candidates[uid] = candidate
            on_row = self.rows.get(row)
            if on_row is None:
                self.rows[row] = {uid: candidate}
            else:
                on_row[uid] = candidate
            self._outdated.add(row)
        self._cache.credits.grant(self.credit_key, *[candidate.pod.uid for candidate in candidates], runs=True)

    def remove(self, uid: str) -> None:
        """Let the pod be no candidate any more, if it is one."""
        self.choosy.discard(uid)
        candidate = self.candidates.pop(uid, None)
        if candidate is None:
            return
        row = candidate.row
        del self.rows[row][uid]
        if not self.rows[row]:
            del self.rows[row]
        self._outdated.add(row)
        self._cache.credits.revoke(self.credit_key, uid)

    def end(self) -> None:
        self._cache.credits.end(self.credit_key)

    def forget_compiled(self) -> None:
        """Compile all rows anew, because columns were renewed."""
        self._outdated |= self.rows.keys()

    def compiled(self) -> CandidateRows:
        """Return the candidates as kernels read them. O(candidates of rows that changed)."""
        request, order = self._cache.columns.request, self.rule.order
        requests: dict[int, Request] = {}  # by id of the resources, which pods of one template share
        for row in self._outdated:
            on_row = self.rows.get(row)
            if on_row is None:
                self._ordered.pop(row, None)
                self._compiled.set_row(row, ())
                continue
            ordered = self._ordered[row] = list(on_row.values())
            if len(ordered) > 1:
                ordered.sort(key=lambda candidate: order(candidate.pod.pod))
            asked = []
            for candidate in ordered:
                resources = candidate.pod.resources
                found = requests.get(id(resources))
                if found is None:
                    found = requests[id(resources)] = request(resources)
                asked.append(found)
            self._compiled.set_row(row, asked)
        self._outdated.clear()
        return self._compiled

    def on_row(self, row: int) -> list[Candidate]:
        """Return the candidates of a row in the order in which they are tried, as they are compiled."""
        return self._ordered[row]


class _LabelClass:
    """Running pods of equal labels by uid, and the sets that select these."""

    __slots__ = ("labels", "pods", "sets")

    def __init__(self, labels: dict[str, str], sets: list[CandidateSet]) -> None:
        self.labels = labels
        self.pods: dict[str, PodInfo] = {}
        self.sets = sets


class RunningPods(PodFollower):
    """The running pods by labels, and the sets of candidates in use: also a `CheckedState`.

    Begins to follow the pods when it is asked for a set first.
    """

    name = "RunningPods"
    hides = False  # a view of one owner does not change what others may take over

    def __init__(self, cache: Cache, gained: Callable[[PodInfo, bool], None]) -> None:
        """gained: called with a pod that may be taken over now, and whether it ran before, so that its room is found free now."""
        self._cache = cache
        self._gained = gained
        self._classes: dict[tuple[Pair, ...], _LabelClass] = {}
        self._by_pair: dict[Pair, dict[tuple[Pair, ...], _LabelClass]] = {}
        self._class_of: dict[str, _LabelClass] = {}  # by uid
        self._sets: dict[Hashable, CandidateSet] = {}
        self._following = False
        self._serial = count(1)

    # Sets

    def set_of(self, rule: CandidateRule) -> CandidateSet:
        """Return the set of a rule, which is kept as long as it has users. O(pods with a label that the rule needs) for a new one."""
        if not self._following:
            self._following = True
            self._cache.follow(self)
            self._cache.checked.append(self)
            self._cache.credits.call_when_drawn(self._drawn)
        found = self._sets.get(rule.key)
        if found is None:
            found = self._sets[rule.key] = CandidateSet(rule, f"candidates {next(self._serial)}", self._cache)
            first: list[Candidate] = []
            for known in self._classes_with(rule.needs):
                if rule.selects(known.labels):
                    known.sets.append(found)
                    first += self._candidates_of(found, known.pods.values())
            found.put(*first)
        return found

    def keep(self, rule: CandidateRule) -> None:
        """Keep the set of a rule for good, from now on: each pod that comes is looked at then, not all by the first Reservation."""
        self.set_of(rule).standing = True

    def use(self, found: CandidateSet) -> None:
        """Keep a set until `leave` is called as often."""
        found.users += 1

    def leave(self, found: CandidateSet) -> None:
        found.users -= 1
        if not found.users and not found.standing:
            del self._sets[found.rule.key]
            for known in self._classes_with(found.rule.needs):
                if found in known.sets:
                    known.sets.remove(found)
            found.end()

    def has_candidate(self, uid: str) -> bool:
        """Answer whether the pod is a candidate of any set in use."""
        known = self._class_of.get(uid)
        return known is not None and any(found.users and uid in found.candidates for found in known.sets)

    def forget_compiled(self) -> None:
        for found in self._sets.values():
            found.forget_compiled()

    def _classes_with(self, needs: Iterable[Pair | None]) -> list[_LabelClass]:
        found: dict[tuple[Pair, ...], _LabelClass] = {}
        for need in needs:
            found.update(self._classes if need is None else self._by_pair.get(need, {}))
        return list(found.values())

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if not self._cache.simulating and _runs(pod):
            self._put(pod, grown=True)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if not self._cache.simulating and pod.uid in self._class_of:
            self._drop(pod)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        known = self._class_of.get(pod.uid)
        for found in () if known is None else known.sets:
            self._decide(found, pod, grown=True)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if not _runs(new):
            return
        known, before, after = self._class_of.get(new.uid), old.pod.metadata, new.pod.metadata
        if known is None:
            self._put(new, grown=True)  # it was assumed, and is seen bound
        elif before.labels != after.labels or before.annotations != after.annotations or before.owner_references != after.owner_references:
            self._drop(old)
            self._put(new, grown=False)
        else:
            known.pods[new.uid] = new

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
            found.remove(pod.uid)
        if not known.pods:
            key = tuple(known.labels.items())
            del self._classes[key]
            for pair in key:
                classes = self._by_pair[pair]
                del classes[key]
                if not classes:
                    del self._by_pair[pair]

    # CheckedState

    def names(self) -> Iterable[str]:
        """Nothing is kept of a node that the cache does not know."""
        return ()

    def differences(self, node: str) -> Iterator[StateDifference]:
        """Compare the running pods of a node, and which of them are candidates, with what the cache counts. O(its pods and the sets)."""
        pods, row = self._pods_on(node)
        for uid, pod in pods.items():
            known = self._class_of.get(uid)
            labels = None if known is None or uid not in known.pods else known.labels
            if labels != pod.pod.metadata.labels:
                yield StateDifference(f"labels of running pod {pod.key}", labels, pod.pod.metadata.labels)
        for key, found in self._sets.items():
            rule, kept = found.rule, sorted(found.rows.get(row, {}))
            selected = [self._candidate(rule, pod) for pod in pods.values() if rule.selects(pod.pod.metadata.labels)]
            right = sorted(candidate.pod.uid for candidate in selected if candidate is not None and _may_take(rule, candidate))
            if kept != right:
                yield StateDifference(f"candidates by {key}", kept, right)

    def rebuild(self, node: str) -> None:
        pods, row = self._pods_on(node)
        for found in self._sets.values():
            for uid in list(found.rows.get(row, ())):
                if uid not in pods:
                    found.remove(uid)
        for uid, pod in pods.items():
            known = self._class_of.get(uid)
            if known is not None:
                self._drop(known.pods.get(uid, pod))
            self._put(pod, grown=False)
        info = self._cache.nodes_by_name.get(node)
        if info is not None and not info.shares_row:
            self._cache.table.touch(info.row)

    def _pods_on(self, node: str) -> tuple[dict[str, PodInfo], int]:
        """Return the running pods that the cache counts on a node, by uid, and its row; NO_ROW where it has none of its own."""
        info = self._cache.nodes_by_name.get(node)
        if info is None:
            return {}, NO_ROW
        return {uid: pod for uid, pod in info.pods.items() if _runs(pod)}, NO_ROW if info.shares_row else info.row

    # Candidates

    def _drawn(self, uid: str, _placeholder: str) -> None:
        """A pod began or ceased to have a part of a Reservation."""
        known = self._class_of.get(uid)
        if known is not None:
            for found in known.sets:
                self._decide(found, known.pods[uid], grown=False)

    def _candidate(self, rule: CandidateRule, pod: PodInfo) -> Candidate | None:
        """Return the candidate that a pod is whose labels are selected, whether or not what it asks of Reservations is accepted."""
        row = self._cache.row_of(pod.uid)
        if row is None or self._cache.credits.drawn_from(pod.uid) is not None or is_ignoring_reservations(pod.pod.metadata.labels):
            return None
        if not rule.takes(pod.pod):
            return None
        try:
            demand = demand_of(pod)
        except (Malformed, SelectorError):
            return None
        return Candidate(pod, row, demand if demand.affinity is not None or demand.exact else None)

    def _candidates_of(self, found: CandidateSet, pods: Iterable[PodInfo]) -> Iterator[Candidate]:
        """Yield those of these pods, whose labels are selected, that may be taken over."""
        rule = found.rule
        for pod in pods:
            candidate = self._candidate(rule, pod)
            if candidate is None:
                continue
            if candidate.demand is not None:
                found.choosy.add(pod.uid)
                if len(found.choosy) == 1 and found.users:
                    self._cache.signatures.changed(_is_pre_allocating)
            if _may_take(rule, candidate):
                yield candidate

    def _decide(self, found: CandidateSet, pod: PodInfo, *, grown: bool) -> None:
        """Find out whether a pod whose labels are selected is a candidate. grown: its node uses more than before, by this pod."""
        found.remove(pod.uid)
        for candidate in self._candidates_of(found, (pod,)):
            found.put(candidate)
            if found.users:
                self._gained(pod, not grown)

    def decide_again(self, node_pods: Iterable[PodInfo]) -> None:
        """Look again at those of these pods that ask something of Reservations: the labels of their node have changed."""
        for pod in node_pods:
            known = self._class_of.get(pod.uid)
            if known is not None and RESERVATION_AFFINITY in pod.pod.metadata.annotations:
                for found in known.sets:
                    self._decide(found, pod, grown=False)


def _runs(pod: PodInfo) -> bool:
    return pod.reservation is None and pod.pod.spec.node_name != ""


def _may_take(rule: CandidateRule, candidate: Candidate) -> bool:
    return candidate.demand is None or rule.accepts(candidate.demand, candidate.row)


def _is_pre_allocating(pod: PodInfo) -> bool:
    return pod.reservation is not None and pod.reservation.spec.pre_allocation
