"""Pre-allocation: a Reservation takes over pods that run already, and is Available at once (reservation.md §13).

To its reserve pod the candidates are not there, as placeholders are not to owners: each kind of such Reservations has a `PreAllocator`,
which is the owner of credits of their reserve pods. So every filter asks whether the Reservation fits where they leave room; here it is
asked whether those that it may take over leave enough. In Reserve these become its owners (`ReservationState.adopt`), and count once.
In PreBind each pod gets the annotation that says so, before the Reservation gets its node. When that fails, or the process dies in between,
the annotations count for nothing, and the next attempt takes them off pods that it does not choose.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, finalize

import msgspec

from koordsched._core.preallocation import PreAllocatable
from koordsched._core.reservations import Shortages
from koordsched.api.koordinator.node_reservation import NODE_RESERVATION
from koordsched.api.koordinator.reservation_links import RESTRICTED_OPTIONS
from koordsched.api.selectors import SelectorError
from koordsched.framework.status import Status, unresolvable, unschedulable
from koordsched.plugins.reservation.candidates import ClusterRule, NamedRule, OwnersRule, RunningPods
from koordsched.plugins.reservation.info import RESTRICTED, ReservationInfo
from koordsched.plugins.reservation.matching import owner_spec
from koordsched.plugins.reservation.reasons import (
    CLUSTER_MODE_DISABLED,
    NO_CANDIDATE_FITS,
    UNSUPPORTED,
    short_node,
    short_reservation,
)
from koordsched.queue.events import ASSIGNED_POD_DELETE, ActionType, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched._core.preallocation import CandidateRows
    from koordsched.api.core import Node
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.config.koordinator_args import PreAllocationConfig
    from koordsched.framework.handle import Handle
    from koordsched.plugins.reservation.candidates import CandidateRule, CandidateSet

CLUSTER = "Cluster"
PRE_ALLOCATION_REQUIRED = "scheduling.koordinator.sh/pre-allocation-required"
NEW_CANDIDATES = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_POD_LABEL, "reservations.scheduling.koordinator.sh")
"""There are new pods to take over. It concerns no pod that waits for a change of a Reservation (`UPDATE_OTHER`)."""


class PreAllocatorName(str):
    """The name of the credits of one pre-allocator. What is signed holds it; once nothing does, the pre-allocator ends."""

    __slots__ = ("__weakref__", "allocator")

    allocator: PreAllocator


class PreAllocator:
    """What reserve pods of one kind may take over: equal in what they hold, how they may take, and which pods."""

    def __init__(self, cache: Cache, candidates: Sequence[CandidateSet], info: ReservationInfo, *, prefers_none: bool) -> None:
        """candidates: those that they may take over; then those that decide whether it matters what the Reservations are called."""
        self.candidates = candidates[0]
        self.looks_at = candidates
        self.shortages = Shortages()
        self.info = info  # of the first of them; what is read of it is equal for all
        self._cache = cache
        self._prefers_none = prefers_none
        self._compiled: PreAllocatable | None = None

    @property
    def required(self) -> bool:
        return self.info.pod.pod.metadata.labels.get(PRE_ALLOCATION_REQUIRED) == "true"

    @property
    def node_names(self) -> list[str]:
        """Return the nodes with candidates."""
        return [info.name for row in self.candidates.rows if (info := self._cache.infos[row]) is not None]

    @property
    def has_candidates(self) -> bool:
        return bool(self.candidates.rows)

    # Deciding

    def forget_compiled(self) -> None:
        self._compiled = None

    def table(self) -> PreAllocatable:
        """Return the candidates as kernels read them. O(candidates of rows that changed)."""
        candidates = self.candidates.compiled()
        if self._compiled is None:
            self._compiled = self._compile(candidates)
        return self._compiled

    def _compile(self, candidates: CandidateRows) -> PreAllocatable:
        info, spec = self.info, self.info.reservation.spec
        limits = {name: info.allocatable[name] - info.reserved.get(name, 0) for name in info.resource_names}
        most = info.allocatable.get("pods")
        if spec.allocate_once:
            most = 1 if most is None else min(most, 1)
        return PreAllocatable(
            candidates,
            self._cache.columns.request(info.pod.resources),
            limits,
            most=most,
            weights=sum(1 for amount in info.allocatable.values() if amount),
            multiple=spec.pre_allocation_policy.enable_multiple,
            by_score=spec.pre_allocation_policy.mode != CLUSTER,
            required=self.required,
            prefers_none=self._prefers_none,
        )

    def choose(self, row: int) -> list[PodInfo] | Status:
        """Return the pods that a Reservation takes over on the row, which counts its reserve pod already; why it does not fit."""
        chosen, node, inside = self.table().choose(row)
        if chosen is None:
            return self.refusal(node, inside)
        return [self.candidates.on_row(row)[i].pod for i in chosen]

    def explain(self, code: int) -> Status:
        node, inside, _ = self.shortages.of(code)
        return self.refusal(node, inside)

    def refusal(self, node: int, inside: int) -> Status:
        """Return why a node is refused, by bits of the request's entries (§13)."""
        names = list(enumerate(self._cache.columns.request(self.info.pod.resources).names))
        reasons = sorted(short_node(name) for bit, name in names if node >> bit & 1)
        if self.required:
            reasons += [short_reservation("pods") for bit, name in names if name == "pods" and inside >> bit & 1]
            reasons += sorted(short_reservation(name) for bit, name in names if name != "pods" and inside >> bit & 1)
        return unschedulable(*reasons) if reasons else NO_CANDIDATE_FITS


class PreAllocations:
    """The pre-allocators in use. One object for all profiles."""

    def __init__(self, handle: Handle, nodes: Mapping[str, Node]) -> None:
        """nodes: by name, whose labels affinities read."""
        self._handle = handle
        self._cache = handle.cache
        self._nodes = nodes
        self._running = RunningPods(handle.cache, self._pod_gained)
        self._names: WeakValueDictionary[Hashable, PreAllocatorName] = WeakValueDictionary()
        self._allocators: dict[str, PreAllocator] = {}  # by the name of their credits
        self._ended: list[str] = []  # names that nothing holds any more
        self._gained: dict[str, tuple[PodInfo, bool]] = {}  # by uid: what is to be announced to waiting reserve pods
        self._serial = count(1)
        handle.cache.columns.call_when_renewed(self._renewed)

    def expect(self, config: PreAllocationConfig) -> None:
        """Let the candidates of the mode Cluster be known from the start, where Reservations may be in it: they are the same for all."""
        if config.enable_cluster_mode:
            self._running.keep(ClusterRule(config.cluster_label_key, config.cluster_priority_annotation_key))

    def owner_of(self, pod: PodInfo, config: PreAllocationConfig) -> PreAllocatorName | None:
        """Return the owner of the credits of a reserve pod; None when there is nothing to take over, or `problem_of` says why not."""
        reservation = pod.reservation
        if reservation is None or not reservation.spec.pre_allocation or self.problem_of(pod, config) is not None:
            return None
        spec, meta, rule = reservation.spec, reservation.metadata, self._rule(pod, config)
        candidates = [self._running.set_of(rule)]
        if candidates[0].choosy:
            candidates.insert(0, self._running.set_of(NamedRule(rule, ReservationInfo(reservation, pod), self._labels_of)))
        labels = pod.pod.metadata.labels
        how = (spec.allocate_once, spec.pre_allocation_policy.enable_multiple, labels.get(PRE_ALLOCATION_REQUIRED) == "true")
        held = (pod.resources, meta.annotations.get(RESTRICTED_OPTIONS), meta.annotations.get(NODE_RESERVATION))
        key = (candidates[0].rule.key, how, held, config.prefer_no_pre_allocated_pods)
        found = self._names.get(key)
        if found is None:
            info = ReservationInfo(reservation, pod)
            found = self._names[key] = PreAllocatorName(f"pre-allocator {next(self._serial)}")
            allocator = PreAllocator(self._cache, candidates, info, prefers_none=config.prefer_no_pre_allocated_pods)
            found.allocator = self._allocators[str(found)] = allocator
            finalize(found, self._ended.append, str(found))
            for each in candidates:
                self._running.use(each)
            self._cache.credits.share(str(found), allocator.candidates.credit_key)
            self._forget_ended()
        return found

    def _labels_of(self, row: int) -> Mapping[str, str]:
        """Return the labels of a row's node that affinities read."""
        info = self._cache.infos[row]
        node = None if info is None else self._nodes.get(info.name)
        return {} if node is None else node.metadata.labels

    def problem_of(self, pod: PodInfo, config: PreAllocationConfig) -> Status | None:
        """Return why a Reservation cannot take over pods at all."""
        assert pod.reservation is not None
        spec = pod.reservation.spec
        if spec.allocate_policy != RESTRICTED:
            return UNSUPPORTED
        try:
            owner_spec(b"", spec.owners)
        except SelectorError as error:
            return unresolvable(str(error))
        return CLUSTER_MODE_DISABLED if spec.pre_allocation_policy.mode == CLUSTER and not config.enable_cluster_mode else None

    def _rule(self, pod: PodInfo, config: PreAllocationConfig) -> CandidateRule:
        assert pod.reservation is not None
        spec = pod.reservation.spec
        if spec.pre_allocation_policy.mode == CLUSTER:
            return ClusterRule(config.cluster_label_key, config.cluster_priority_annotation_key)
        return OwnersRule(owner_spec(msgspec.json.encode(spec.owners), spec.owners))

    def match_again(self, node_name: str) -> None:
        """Look again at candidates whose node has other labels."""
        node = self._cache.nodes_by_name.get(node_name)
        if node is not None and self._allocators:
            self._running.decide_again(list(node.pods.values()))

    def _forget_ended(self) -> None:
        while self._ended:
            name = self._ended.pop()
            self._cache.credits.end_share(name)
            for candidates in self._allocators.pop(name).looks_at:
                self._running.leave(candidates)

    def _renewed(self) -> None:
        """Columns were renewed."""
        self._running.forget_compiled()
        for allocator in self._allocators.values():
            allocator.forget_compiled()

    # Pods that wait

    def _pod_gained(self, pod: PodInfo, ran: bool) -> None:
        if not self._gained:
            self._handle.call_later(0.0, self._announce)  # not now: the cache is reporting the pod
        known = self._gained.get(pod.uid)
        self._gained[pod.uid] = (pod, ran or (known is not None and known[1]))

    def _announce(self) -> None:
        """Let waiting reserve pods be tried that the new candidates may help: to these their room is free from now on."""
        self._forget_ended()
        gained, self._gained = self._gained, {}
        held = [(pod, ran) for pod, ran in gained.values() if self._running.has_candidate(pod.uid)]
        if not held:
            return
        self._handle.announce(NEW_CANDIDATES)
        ran_before = next((pod for pod, ran in held if ran), None)
        if ran_before is not None:
            self._handle.announce(ASSIGNED_POD_DELETE, regarding=ran_before.pod)


def helps_to_pre_allocate(pod: PodInfo, _old: Object | None, _new: Object | None) -> QueueingHint:
    """Answer whether new candidates may help a pod that waits."""
    waits_for_them = pod.reservation is not None and pod.reservation.spec.pre_allocation
    return QueueingHint.QUEUE if waits_for_them else QueueingHint.SKIP
