"""Occupants: who is on each row with which priority, and for whom room is kept there, as `_core.occupancy` wants it.

Follows the cache and the nominations. As long as nobody asked about a pod with lower ones on nodes, only the number of pods per priority is
kept: that costs a plain pod a tenth of a microsecond. From the first such question on, changes are noted and brought into the occupancy
at the next one; when too many have gathered, because nobody asks any more, all is forgotten and made anew should somebody ask again.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.occupancy import Occupancy
from koordsched.clock import parse_rfc3339
from koordsched.framework.simulation import takes_only_room

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.plugins.defaultpreemption.budgets import Budgets
    from koordsched.queue.nominator import Nominator

MAX_NOTED = 20_000


class Claim(msgspec.Struct, frozen=True):
    """A nominated pod and the row where room is kept for it; -1: there is no such node (yet)."""

    pod: PodInfo
    node: str
    row: int


class Occupants:
    """A PodFollower and a NominationFollower."""

    def __init__(self, cache: Cache, nominator: Nominator, budgets: Budgets) -> None:
        self.occupancy = Occupancy(cache.table)
        self._cache = cache
        self._budgets = budgets
        self._levels: defaultdict[int, int] = defaultdict(int)  # priority -> pods on nodes
        self._noted: list[tuple[PodInfo, int, bool]] = []  # pod, row, whether it came
        self._kept = False  # the occupancy holds all pods but for what is noted
        self._structure = -1
        self._existence = -1
        self._generation = cache.columns.generation
        self._claims: dict[str, Claim] = {}  # by uid
        self.odd_claims: dict[str, int] = {}  # uid -> row, of nominated pods whose presence means more than less room
        self._pinned: dict[str, None] = {}  # uids of pods that cannot be sent away
        cache.follow(self)
        nominator.follow(self)

    def any_below(self, priority: int) -> bool:
        """Answer whether some pod on a node has a lower priority. O(distinct priorities)."""
        for level, count in self._levels.items():  # noqa: SIM110  # any() costs twice as much, and this is asked at every event
            if level < priority and count:
                return True
        return False

    def claim_of(self, uid: str) -> Claim | None:
        """Return the nominated pod's own claim, if it is on a row."""
        claim = self._claims.get(uid)
        return claim if claim is not None and claim.row >= 0 else None

    def pin(self, uid: str) -> None:
        """Never take this pod for one that could be evicted: it should have been gone long ago."""
        state = self._cache.pods.get(uid)
        if state is None or uid in self._pinned:
            return
        self.bring_up_to_date()
        self._pinned[uid] = None
        self.occupancy.pin(state.node.row, state.info)

    def is_pinned(self, uid: str) -> bool:
        return uid in self._pinned

    def bring_up_to_date(self) -> Occupancy:
        """Bring all that was noted into the occupancy."""
        generation = self._cache.columns.generation
        if not self._kept or self._structure != self._budgets.structure or self._generation != generation:
            self._generation = generation
            self._begin_anew()
        noted, self._noted = self._noted, []
        for pod, row, came in noted:
            if came:
                self._put(pod, row)
            else:
                self.occupancy.remove(row, pod)
        if self._existence != self._cache.table.existence:
            self._place_claims()
        self._budgets.write(self.occupancy)
        return self.occupancy

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            return
        self._levels[pod.priority] += 1
        if self._kept and self._is_node(row):
            self._noted.append((pod, row, True))
            if len(self._noted) > MAX_NOTED:
                self._forget()

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            return
        self._levels[pod.priority] -= 1
        if self._pinned:
            self._pinned.pop(pod.uid, None)
        if self._kept and self._is_node(row):
            self._noted.append((pod, row, False))

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        if self._kept:
            self._noted.append((pod, row, True))

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if self._kept and self._is_node(row):
            self._noted += ((old, row, False), (new, row, True))
        if old.priority != new.priority:
            self._levels[old.priority] -= 1
            self._levels[new.priority] += 1

    def _is_node(self, row: int) -> bool:
        """Answer whether the row is that of one node. Nobody can be evicted from nodes that are not known, which share a row."""
        return self._cache.infos[row] is not None

    # NominationFollower

    def nominated(self, pod: PodInfo, node: str) -> None:
        self._claims[pod.uid] = self._claim(pod, node)

    def withdrawn(self, pod: PodInfo, node: str) -> None:
        claim = self._claims.pop(pod.uid, None)
        self.odd_claims.pop(pod.uid, None)
        if claim is not None and claim.row >= 0:
            self.occupancy.remove(claim.row, claim.pod)

    # The occupancy

    def _forget(self) -> None:
        self._kept = False
        self._noted = []

    def _begin_anew(self) -> None:
        """Put everybody in place again: at first, after a long time without questions, and when budgets protect other pods than before."""
        self._structure = self._budgets.structure
        self._noted = []
        self._kept = True
        self.occupancy.clear()
        for state in self._cache.pods.values():
            if not state.node.shares_row:
                self._put(state.info, state.node.row)
        self._place_claims()

    def _put(self, pod: PodInfo, row: int) -> None:
        request, guards = self._cache.columns.request(pod.resources), self._budgets.guards_of(pod.pod)
        self.occupancy.add(row, pod, pod.priority, request, started_at(pod), tied_to_node(pod.pod), guards)
        if pod.uid in self._pinned:
            self.occupancy.pin(row, pod)

    def _place_claims(self) -> None:
        """Find the rows of nominated nodes again after nodes have come or gone."""
        self._existence = self._cache.table.existence
        for uid, claim in self._claims.items():
            if claim.row >= 0 and self.occupancy.holds(claim.row, claim.pod):
                self.occupancy.remove(claim.row, claim.pod)
            self._claims[uid] = self._claim(claim.pod, claim.node)

    def _claim(self, pod: PodInfo, node: str) -> Claim:
        found = self._cache.node(node)
        self.odd_claims.pop(pod.uid, None)
        if found is None:
            return Claim(pod, node, -1)
        if not takes_only_room(pod):
            self.odd_claims[pod.uid] = found.row
        self.occupancy.claim(found.row, pod, pod.priority, self._cache.columns.request(pod.resources))
        return Claim(pod, node, found.row)


def tied_to_node(pod: Pod) -> bool:
    """Answer whether the pod could not run on another node instead: a DaemonSet made it for this one."""
    owners = pod.metadata.owner_references
    return bool(owners) and any(owner.controller and owner.kind == "DaemonSet" for owner in owners)


def started_at(pod: PodInfo) -> float:
    """Return when the pod started, in seconds since the epoch; infinity when it has not, which counts as now."""
    start = pod.pod.status.start_time
    return inf if start is None else _seconds(start)


@lru_cache(maxsize=4096)
def _seconds(start_time: str) -> float:
    """Return a pod's start time in seconds since the epoch; what cannot be read counts as not started."""
    try:
        return parse_rfc3339(start_time)
    except ValueError:
        return inf
