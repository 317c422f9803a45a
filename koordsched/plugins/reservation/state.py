"""The reservations of the cluster, as the scheduler counts them (reservation.md §4, §6).

An Available reservation is counted by the cache as a placeholder: a pod with the reservation's uid that uses what the owners have left of
it, at least 0 of each resource. Strangers find that taken; owners do not see it, since each is the credit of every `Matcher` whose pods
match it (docs/decisions/0013). Everything follows from Reservations and from pods: which reservation a bound pod was given is in an
annotation of it, and of a pod that is being bound it is noted here (`draw`). Of a reservation that takes over running pods, and is about to
get its node, the same is noted (`adopt`). Objects may come in any order.

One object for all profiles. Called by informers' handlers, the cache and the cycle; nothing awaits.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, finalize

import numpy as np

from koordsched._core.change import NodeChange
from koordsched._core.reservations import Capacity, Matched, ReservationTable
from koordsched.api.kinds import NODE
from koordsched.api.koordinator.operating_pods import operating_reservation
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, RESERVATION_IGNORED, allocated_reservation
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.api.selectors import SelectorError
from koordsched.cache.plugin_state import PodFollower
from koordsched.plugins.reservation.groups import members, put, take
from koordsched.plugins.reservation.info import NO_SLOT, RESTRICTED, ReservationInfo, same_amounts
from koordsched.plugins.reservation.matching import Matcher, Outcome, OwnerIndex, classify, concerned_by, demand_key, matcher_of
from koordsched.plugins.reservation.policies import PoliciesOfNodes
from koordsched.plugins.reservation.reasons import ALLOCATED_ALREADY, NO_TARGET, TERMINATING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import Node, Pod
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.cache.cache import Cache
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle
    from koordsched.plugins.reservation.groups import Group
    from koordsched.plugins.reservation.matching import OwnerSpec

OMIT_NODE_LABELS, SKIP_FIT = "OmitNodeLabelsForReservation", "SkipReservationFitsNode"
USAGE = int(NodeChange.USAGE)
KEPT_CAPACITIES = 256  # different amounts of reservations that are kept by column
IDLE_SPECS = 64  # specifications without a reservation that are kept at least: pods are signed again when some are forgotten


NOTHING: Mapping[int, int] = {}
NO_CAPACITY = Capacity(NOTHING, (), 0, limits=False)


class CreditOwner(str):
    """The name of the credits of one matcher. What is signed holds it; once nothing does, the matcher and its credits end."""

    __slots__ = ("__weakref__", "matcher")

    matcher: Matcher


def reservation_state(handle: Handle) -> ReservationState:
    """Return the state that all profiles share. To be called while the plugin is made."""

    def make() -> ReservationState:
        nodes = handle.informer(NODE)
        state = ReservationState(handle.cache, {} if handle.gates[OMIT_NODE_LABELS] else nodes.store)
        state.table.skips_fit = handle.gates[SKIP_FIT]
        if not handle.gates[OMIT_NODE_LABELS]:
            nodes.add_handler(NodeLabels(state))
        return state

    return handle.cache.shared.one(ReservationState, make)


class NodeLabels:
    """A handler of nodes: affinities read their labels, where a reservation does not have these (reservation.md §7)."""

    def __init__(self, state: ReservationState) -> None:
        self._state = state

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._state.match_again(node.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._state.match_again(new.metadata.name)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        """Its reservations end."""


class ReservationState(PodFollower):
    """The reservations on nodes, their owners, and who matches them.

    changed: called with the uid of a reservation whose owners or their amounts have changed.
    """

    hides = False  # placeholders own no part of a reservation

    def __init__(self, cache: Cache, nodes: Mapping[str, Node]) -> None:
        """nodes: by name, whose labels affinities read."""
        self.by_uid: dict[str, ReservationInfo] = {}
        self.changed: list[Callable[[str], None]] = []
        self.relabelled: list[Callable[[str], None]] = []  # called with the name of a node with other labels
        self.table = ReservationTable(cache.table)
        self._cache = cache
        self.nodes = nodes
        self._by_name: dict[str, Group[ReservationInfo]] = {}  # several: pods in operating mode may have the name of a Reservation
        self._by_node: dict[str, Group[ReservationInfo]] = {}
        self._left_out: dict[str, str] = {}  # by uid: the version of a reservation whose amounts cannot be read
        self._links: dict[str, dict[str, PodInfo]] = {}  # by uid of a reservation that is not here, or on another node: its owners by uid
        self._adopting: dict[str, ReservationInfo] = {}  # by uid: assumed, with pods that it takes over
        self._index = OwnerIndex()
        self._specs: dict[str, OwnerSpec] = {}  # by uid of a reservation
        self._owners: WeakValueDictionary[Hashable, CreditOwner] = WeakValueDictionary()
        self._matchers: dict[str, Matcher] = {}  # by credit key
        self._of_name: dict[str, dict[Matcher, None]] = {}  # matchers whose pods name a reservation
        self._ignoring: dict[Matcher, None] = {}
        self._ended: list[str] = []  # credit keys of matchers that nothing holds any more
        self._pairs: dict[str, tuple[int, Matched]] = {}  # by credit key: of which version of the matcher
        self._resized: dict[str, PodInfo] = {}  # by uid, while a simulation runs: what was counted of a reservation before it
        self._idle: dict[OwnerSpec, None] = {}
        self._policies = PoliciesOfNodes()
        self._capacities: dict[
            tuple[int, int, bool], tuple[Mapping[str, int], frozenset[str], Capacity]
        ] = {}  # by the ids of amounts and names, which are held so that these stay theirs
        self._serial = count(1)
        cache.columns.call_when_renewed(self._write_all)
        cache.follow(self)

    # Reading

    def on_node(self, node_name: str) -> Collection[ReservationInfo]:
        return members(self._by_node.get(node_name))

    def reservation_of(self, pod_uid: str) -> ReservationInfo | None:
        """Return the reservation that the pod was given, if it is here."""
        drawn = self._cache.credits.drawn_from(pod_uid)
        return None if drawn is None else self._known(drawn)

    def _known(self, uid: str) -> ReservationInfo | None:
        return self.by_uid.get(uid) or self._adopting.get(uid)

    def linked_to(self, uid: str) -> list[PodInfo]:
        """Return the pods whose annotation names a reservation that is not here: what an attempt to take them over has left."""
        return list(self._links[uid].values()) if uid in self._links else []

    # Reservations

    def put(self, reservation: Reservation) -> str:
        """Take in a reservation that is on a node and active, or a change of it.

        Return why its amounts cannot be read, so that it is left out, "" if they can.
        """
        meta = reservation.metadata
        try:
            pod = PodInfo.of_reservation(reservation)
        except QuantityError as error:
            self.remove(meta.uid)
            self._left_out[meta.uid] = meta.resource_version
            return str(error)
        self._left_out.pop(meta.uid, None)
        self._take_in(reservation, pod)
        return ""

    def is_left_out(self, reservation: Reservation) -> bool:
        """Answer whether the amounts of the reservation as it is cannot be read."""
        meta = reservation.metadata
        return self._left_out.get(meta.uid) == meta.resource_version

    def put_pod(self, pod: Pod) -> None:
        """Take in a pod in operating mode that is on a node, or a change of it. One whose amounts cannot be read is left out."""
        try:
            info = PodInfo(pod, counted_on_node=True)
        except QuantityError:  # which the handler of pods reports
            self.remove(pod.metadata.uid)
            return
        self._take_in(operating_reservation(pod), info)

    def _take_in(self, reservation: Reservation, pod: PodInfo) -> None:
        self._forget_ended()
        uid, status = reservation.metadata.uid, reservation.status
        known = self.by_uid.get(uid)
        if known is not None and known.node_name != status.node_name:
            self.remove(uid)
            known = None
        adopting = self._adopting.get(uid)
        if adopting is not None and adopting.node_name != status.node_name:
            self.end_adoption(uid)
            adopting = None
        if known is None:
            known = self.by_uid[uid] = ReservationInfo(reservation, pod)
            known.slot = self.table.acquire()
            put(self._by_name, known.name, known)
            put(self._by_node, known.node_name, known)
            if adopting is not None:
                del self._adopting[uid]
                for owner in adopting.owners.values():
                    known.put_owner(owner)
                    known.count(owner, 1)
            for owner in self.linked_to(uid):
                if self._is_on(owner, known.node_name):
                    self._unlink(owner)
                    known.put_owner(owner)
                    known.count(owner, 1)
        else:
            order = known.order
            known.read(reservation, pod)
            if order != known.order:
                self._order_changed(known, order)
        for owner_uid in known.owners:
            self._cache.credits.draw(owner_uid, uid, known.returned)
        self._set_spec(known)
        if known.held:
            self._recount(known, renewed=True)
        elif known.counted is not None:
            self._cache.remove_pod(uid)
            known.counted = None
        self._match(known)

    def remove(self, uid: str) -> None:
        """Forget a reservation that has ended: its placeholder goes, its owners stay where they are.

        A pod in operating mode that is none any more is counted as other pods are, by the handler that is called next.
        """
        info = self.by_uid.pop(uid, None)
        self._left_out.pop(uid, None)
        if info is None:
            return
        take(self._by_name, info.name, info)
        take(self._by_node, info.node_name, info)
        info.available = False
        self._match(info)
        if uid in self._specs:
            self._leave(info, self._specs.pop(uid))
        for owner in info.owners.values():
            self._cache.credits.end_draw(owner.uid)
            if RESERVATION_ALLOCATED in owner.pod.metadata.annotations:
                self._links.setdefault(uid, {})[owner.uid] = owner
        self._cache.credits.set_overdrawn(uid, overdrawn=False)
        self.table.release(info.slot)
        info.slot = NO_SLOT
        if info.operating:
            self._cache.unsize_pod(uid)
        elif info.counted is not None:
            self._cache.remove_pod(uid)

    def _set_spec(self, info: ReservationInfo) -> None:
        """Find out what the owners are; pods that match a specification that is new are signed again."""
        spec, is_new = None, False
        try:
            if info.reservation.spec.owners:
                spec, is_new = self._index.add(info.reservation.spec.owners)
        except SelectorError as error:
            info.problem = str(error)
        before = self._specs.get(info.uid)
        if before is not None and before is not spec:
            self._leave(info, self._specs.pop(info.uid))
        info.has_owners = spec is not None
        if spec is None:
            return
        self._specs[info.uid] = spec
        spec.add(info)
        self._idle.pop(spec, None)
        if is_new:
            self._cache.signatures.changed(concerned_by((spec,)))

    def _leave(self, info: ReservationInfo, spec: OwnerSpec) -> None:
        spec.discard(info)
        for matcher in [*spec.matchers, *self._of_name.get(info.name, ())]:
            self._set_matched(matcher, info, matched=False)
        if spec.reservations:
            return
        self._idle[spec] = None
        if len(self._idle) > max(IDLE_SPECS, len(self._index) // 2):
            ended, self._idle = list(self._idle), {}
            for idle in ended:
                self._index.drop(idle)
            self._cache.signatures.changed(concerned_by(ended))

    def _recount(self, info: ReservationInfo, *, renewed: bool = False) -> None:
        """Let the cache count what is left of an available reservation. renewed: the object has changed."""
        self._write(info)
        self._count_left(info, renewed=renewed)

    def _count_left(self, info: ReservationInfo, *, renewed: bool = False) -> None:
        cache, before, left = self._cache, info.counted, info.left()
        if info.overdrawn is not (info.uid in cache.credits.overdrawn):
            cache.credits.set_overdrawn(info.uid, overdrawn=info.overdrawn)
        if before is not None and not renewed and same_amounts(before, left):
            self._mark(info)
            return
        info.counted = left
        if info.operating:
            cache.size_pod(left, info.node_name)
        elif before is None or renewed or info.uid not in cache.pods:
            cache.set_pod(left, info.node_name)
        else:
            cache.resize_pod(left)

    def _mark(self, info: ReservationInfo) -> None:
        node = self._cache.nodes_by_name.get(info.node_name)
        if node is not None and not node.shares_row:
            self._cache.table.mark(node.row, USAGE)  # what owners may have of it is another amount

    def _write(self, info: ReservationInfo) -> None:
        """Write what the kernels read of a reservation. Resources that no node offers are left out: no pod that asks for one fits."""
        capacity = self._capacity(info)
        ids = self._cache.columns.resources
        most = info.allocatable.get("pods") if info.policy == RESTRICTED else None
        self.table.write(
            info.slot,
            capacity,
            {ids[name]: amount for name, amount in info.allocated.items() if name in ids} if info.allocated else NOTHING,
            {ids[name]: amount for name, amount in info.reserved.items() if name in ids} if info.reserved else NOTHING,
            None if most is None else most - len(info.owners),
            info.order,
        )

    def _capacity(self, info: ReservationInfo) -> Capacity:
        """Return what the reservation has and restricts, worked out once for all that have the very same, as those of one template have."""
        limits = info.policy == RESTRICTED
        key = (id(info.allocatable), id(info.resource_names), limits)
        known = self._capacities.get(key)
        if known is None:
            if len(self._capacities) >= KEPT_CAPACITIES:
                self._capacities.clear()
            ids = self._cache.columns.resources
            amounts = {ids[name]: amount for name, amount in info.allocatable.items() if name in ids and name != "pods"}
            named = [ids[name] for name in info.resource_names if name in ids]
            capacity = Capacity(amounts, named, sum(1 for amount in info.allocatable.values() if amount), limits=limits)
            known = self._capacities[key] = (info.allocatable, info.resource_names, capacity)
        return known[2]

    def _write_all(self) -> None:
        """Columns were renewed."""
        self._capacities.clear()
        for info in self.by_uid.values():
            self._write(info)

    # Owners

    def draw(self, pod: PodInfo, uid: str) -> str | None:
        """Let the pod be an owner of a reservation; what keeps it from that, None: it is one now."""
        info = self.by_uid.get(uid)
        if info is None:
            return NO_TARGET
        if info.terminating:
            return TERMINATING
        if info.allocate_once and info.owners:
            return ALLOCATED_ALREADY
        self._take(info, pod)
        return None

    def end_draw(self, pod_uid: str) -> None:
        """Let the pod be the owner of no reservation any more."""
        info = self.reservation_of(pod_uid)
        self._cache.credits.end_draw(pod_uid)
        if info is None or pod_uid not in info.owners:
            return
        owner = info.drop_owner(pod_uid)
        info.count(owner, -1)
        self._owners_changed(info, owner, -1)

    def adopt(self, pod: PodInfo, node_name: str, owners: Sequence[PodInfo]) -> None:
        """Let a reservation, whose reserve pod is assumed on the node, take over these pods of the node.

        The reserve pod is counted with what they have left of it from now on.
        """
        assert pod.reservation is not None
        info = self._adopting[pod.uid] = ReservationInfo(pod.reservation, pod)
        info.node_name = node_name
        for owner in owners:
            self._unlink(owner)
            info.put_owner(owner)
            info.count(owner, 1)
            self._cache.credits.draw(owner.uid, info.uid)
        self._cache.resize_pod(info.left())

    def end_adoption(self, uid: str) -> bool:
        """Let the pods go that the reservation has taken over; False: there is nothing to undo, since it has got its node meanwhile."""
        info = self._adopting.pop(uid, None)
        if info is None:
            return False
        for owner in info.owners.values():
            self._cache.credits.end_draw(owner.uid)
            if RESERVATION_ALLOCATED in owner.pod.metadata.annotations:
                self._link(owner)
        return True

    def _take(self, info: ReservationInfo, pod: PodInfo) -> None:
        info.put_owner(pod)
        info.count(pod, 1)
        self._cache.credits.draw(pod.uid, info.uid, info.returned)
        self._owners_changed(info, pod, 1)

    def _owners_changed(self, info: ReservationInfo, owner: PodInfo, sign: int) -> None:
        """Let what is kept of a reservation follow an owner that came (1) or went (-1)."""
        if info.held:
            counted = self._cache.pods.get(owner.uid)
            same = counted is not None and counted.info.resources is owner.resources
            request = counted.request if counted is not None and same else self._cache.columns.request(owner.resources)
            self.table.count(info.slot, request, sign)
            self._count_left(info)
            if info.allocate_once:
                self._match(info)
        elif info.uid in self._adopting:
            self._cache.resize_pod(info.left())
        self._call_hooks(info.uid)

    def _call_hooks(self, uid: str) -> None:
        for hook in self.changed:
            hook(uid)

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            self._simulate(pod, present=True)
        elif RESERVATION_ALLOCATED in pod.pod.metadata.annotations and pod.reservation is None and pod.pod.spec.node_name:
            self._link(pod)  # an assumed pod may have the annotation of an attempt that ended, with a former process maybe

    def _link(self, pod: PodInfo) -> None:
        uid = allocated_reservation(pod.pod.metadata.annotations)
        if not uid:
            return
        drawn, info = self._cache.credits.drawn_from(pod.uid), self._known(uid)
        if drawn == uid and info is not None:
            info.put_owner(pod)
            self._call_hooks(uid)  # it is bound now, which a status may have to say
            return
        if drawn is not None:
            self.end_draw(pod.uid)
        if info is None or not self._is_on(pod, info.node_name):
            self._links.setdefault(uid, {})[pod.uid] = pod
        else:
            self._take(info, pod)

    def _is_on(self, pod: PodInfo, node_name: str) -> bool:
        """Answer whether the pod is on the reservation's node: what an attempt on another node has written counts for nothing."""
        counted = self._cache.pods.get(pod.uid)
        return counted is not None and counted.node.name == node_name

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            self._simulate(pod, present=False)
            return
        if self._cache.credits.drawn_from(pod.uid) is not None:
            self.end_draw(pod.uid)
        elif RESERVATION_ALLOCATED in pod.pod.metadata.annotations:
            self._unlink(pod)

    def _unlink(self, pod: PodInfo) -> None:
        uid = allocated_reservation(pod.pod.metadata.annotations)
        waiting = self._links.get(uid)
        if waiting is not None and waiting.pop(pod.uid, None) is not None and not waiting:
            del self._links[uid]

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        info = self.by_uid.get(pod.uid)
        if info is not None:
            self._pairs.clear()

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if new.reservation is not None:
            return
        if RESERVATION_ALLOCATED in new.pod.metadata.annotations:
            self._link(new)
        elif RESERVATION_ALLOCATED in old.pod.metadata.annotations:
            if self._cache.credits.drawn_from(new.uid) is not None:
                self.end_draw(new.uid)
            else:
                self._unlink(old)

    def _simulate(self, pod: PodInfo, *, present: bool) -> None:
        """Let what an owner leaves return to its reservation while a simulation runs, and take it off again."""
        if pod.uid in self.by_uid:
            self._simulate_itself(self.by_uid[pod.uid], present=present)
        info = self.reservation_of(pod.uid)
        if info is None or info.counted is None or (pod.uid in info.owners) == present:
            return
        if present:
            info.put_owner(pod)
        else:
            info.drop_owner(pod.uid)
        info.count(pod, 1 if present else -1)
        self._write(info)
        left = info.left()
        if not same_amounts(info.counted, left):
            former = self._resized.setdefault(info.uid, info.counted)
            if same_amounts(former, left):  # taken back: what follows pods knows the object that was there before
                left = self._resized.pop(info.uid)
            info.counted = left
            self._cache.resize_quietly(left)

    def _simulate_itself(self, info: ReservationInfo, *, present: bool) -> None:
        """Let owners have nothing of a reservation while its own pod is gone in a simulation: it was evicted."""
        if present:
            self._write(info)
        elif self._cache.credits.shown is None:  # a view hides it: then it is there
            self.table.write(info.slot, NO_CAPACITY, NOTHING, NOTHING, None, info.order)

    # Matching

    def _order_changed(self, info: ReservationInfo, before: int) -> None:
        for matcher in self._matchers_of(info):
            if info.uid in matcher.matched:
                matcher.ordered += (info.order != 0) - (before != 0)
                self._cache.credits.renew(matcher.credit_key)

    def _matchers_of(self, info: ReservationInfo) -> list[Matcher]:
        """Return the matchers that may match a reservation."""
        found = [*self._of_name.get(info.name, ()), *self._ignoring]
        if info.uid in self._specs:
            found += self._specs[info.uid].matchers
        return found

    def owner_of(self, pod: PodInfo) -> CreditOwner | None:
        """Return the owner of the credits that the pod may use; None for strangers, which no specification of owners matches."""
        if pod.reservation is not None:
            return None
        meta = pod.pod.metadata
        specs = self._index.matching(pod.pod)
        if not specs and RESERVATION_AFFINITY not in meta.annotations and RESERVATION_IGNORED not in meta.labels:
            return None
        key = (specs, demand_key(pod))
        found = self._owners.get(key)
        if found is None:
            found = self._begin(key, specs, pod)
        return found

    def matcher(self, credit_key: str) -> Matcher:
        """Return the matcher whose owner of credits has this name. KeyError when it has ended."""
        return self._matchers[credit_key]

    def _begin(self, key: Hashable, specs: tuple[OwnerSpec, ...], pod: PodInfo) -> CreditOwner:
        self._forget_ended()
        found = self._owners[key] = CreditOwner(f"matcher {next(self._serial)}")
        credit_key = str(found)
        matcher = found.matcher = self._matchers[credit_key] = matcher_of(credit_key, specs, pod)
        finalize(found, self._ended.append, credit_key)
        demand = matcher.demand
        if demand.ignores:
            self._ignoring[matcher] = None
            candidates: list[ReservationInfo] = list(self.by_uid.values())
        elif demand.name:
            self._of_name.setdefault(demand.name, {})[matcher] = None
            candidates = list(members(self._by_name.get(demand.name)))
        else:
            for spec in matcher.specs:
                spec.add_matcher(matcher)
            candidates = [info for spec in matcher.specs for info in spec.reservations]
        found_matched = [info for info in candidates if self._matches(matcher, info)]
        matcher.matched = {info.uid: info for info in found_matched}
        matcher.ordered = sum(info.order != 0 for info in found_matched)
        self._cache.credits.grant(credit_key, *matcher.matched)
        return found

    def _forget_ended(self) -> None:
        while self._ended:
            matcher = self._matchers.pop(self._ended.pop())
            self._pairs.pop(matcher.credit_key, None)
            self._ignoring.pop(matcher, None)
            for spec in matcher.specs:
                spec.discard_matcher(matcher)
            named = self._of_name.get(matcher.demand.name)
            if named is not None:
                named.pop(matcher, None)
                if not named:
                    del self._of_name[matcher.demand.name]
            for uid in matcher.matched:
                self._cache.credits.revoke(matcher.credit_key, uid)

    def _match(self, info: ReservationInfo) -> None:
        """Find out anew which matchers match a reservation. O(these matchers)."""
        for matcher in self._matchers_of(info):
            self._set_matched(matcher, info, matched=self._matches(matcher, info))
        self._policies.note(info)
        self._mark(info)

    def _matches(self, matcher: Matcher, info: ReservationInfo) -> bool:
        if not info.matchable or not (matcher.demand.ignores or self._specs.get(info.uid) in matcher.specs):
            return False
        return classify(matcher.demand, info, self.node_labels(info.node_name)).outcome is Outcome.MATCHED

    def may_match(self, matcher: Matcher, uid: str) -> bool:
        """Answer whether the matcher's pods are owners of a reservation, as far as its owners say."""
        return matcher.demand.ignores or self._specs.get(uid) in matcher.specs

    def _set_matched(self, matcher: Matcher, info: ReservationInfo, *, matched: bool) -> None:
        if matched == (info.uid in matcher.matched):
            return
        matcher.version += 1
        if matched:
            matcher.matched[info.uid] = info
            matcher.ordered += info.order != 0
            self._cache.credits.grant(matcher.credit_key, info.uid)
        else:
            del matcher.matched[info.uid]
            matcher.ordered -= info.order != 0
            self._cache.credits.revoke(matcher.credit_key, info.uid)

    def node_labels(self, node_name: str) -> Mapping[str, str]:
        """Return the labels of a node that affinities read."""
        node = self.nodes.get(node_name)
        return {} if node is None else node.metadata.labels

    def match_again(self, node_name: str) -> None:
        """Match the reservations of a node again, whose labels have changed."""
        for info in self.on_node(node_name):
            self._match(info)
        for hook in self.relabelled:
            hook(node_name)

    def pairs(self, matcher: Matcher) -> Matched:
        """Return rows and slots of the reservations that the matcher's pods match. O(these) after a change."""
        known = self._pairs.get(matcher.credit_key)
        if known is not None and known[0] == matcher.version:
            return known[1]
        infos, rows = matcher.matched.values(), self._cache.rows_of(matcher.matched)
        slots = np.array([info.slot for info in infos], np.int32)
        uids = list(matcher.matched)
        if len(infos) != 1 or rows[0] < 0:
            order = np.argsort(rows, kind="stable")
            order = order[rows[order] >= 0]
            rows, slots, uids = rows[order], slots[order], [uids[i] for i in order.tolist()]
        found = Matched(rows, slots, uids)
        self._pairs[matcher.credit_key] = (matcher.version, found)
        return found

    def conflict_rows(self, policy: str) -> NDArray[np.int32]:
        """Return the rows of nodes with a reservation that one of this policy must not be beside. O(these nodes) after a change."""
        return self._policies.conflicting(policy, self._cache)
