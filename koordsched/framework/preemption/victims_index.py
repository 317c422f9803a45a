"""The victims index: the pods on nodes by priority, with the disruption budgets that cover them, as `_core.pod_index` wants them.

There is one for each victim rule, and one set of budgets, for all engines of all profiles (`VictimsIndexes`).

What disruption budgets allow changes with every eviction and is written anew then. Which pods a budget covers (its selector, the pods it
lists as being disrupted) changes seldom: `DisruptionBudgets.structure` counts that, and the index is built anew.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from koordsched._core.pod_index import PodIndex
from koordsched.api.selectors import SelectorError, label_selector_matcher
from koordsched.cache.plugin_state import PodFollower
from koordsched.clock import parse_rfc3339
from koordsched.framework.preemption.rules import ALL, LOWER_PRIORITY
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.groups import PodDisruptionBudget
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cache.cache import Cache
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.preemption.rules import VictimRule

log = get_logger(__name__)

MAX_NOTED, FEWEST_NOTED = 20_000, 256
"""Changes that are noted at most: as many as there are pods, between these two. To build the index anew is then no more work than to bring
them into it, and until that is done each one keeps a pod in memory that may have gone."""
NO_GROUP = -1
"""The number of the group of pods that no pod may evict."""
EMPTY_GROUP = -2
"""The number of a group without pods."""


class VictimsIndexes:
    """The victims indexes of all engines on one cache, by their rules' keys, and the budgets. Kept in `Cache.shared`."""

    def __init__(self, cache: Cache, informer: Informer[PodDisruptionBudget]) -> None:
        self.budgets = DisruptionBudgets(informer)
        self._cache = cache
        self._by_rule: dict[Hashable, VictimsIndex] = {}

    def of(self, rule: VictimRule) -> VictimsIndex:
        """Return the index for rules with this one's key, made on first use."""
        found = self._by_rule.get(rule.key)
        if found is None:
            found = self._by_rule[rule.key] = VictimsIndex(self._cache, self.budgets, rule)
        return found


class VictimsIndex(PodFollower):
    """The pods that could be evicted by a rule: not reserve pods, which no request deletes (reservation.md D10).

    A pod that draws on a placeholder (`cache.credits`) counts with what its end frees for others than the placeholder's owners.

    As long as no pod failed while pods of lower priority were on nodes, only the number of pods per priority is kept: that costs a plain
    pod a tenth of a microsecond. From the first such failure on, changes are noted and brought into the index at the next one; when too
    many have gathered, because none comes any more, the index is dropped, and built anew if another one comes.
    """

    hides = False  # placeholders are no victims

    def __init__(self, cache: Cache, budgets: DisruptionBudgets, rule: VictimRule = LOWER_PRIORITY) -> None:
        self.index = PodIndex(cache.table)  # as of the last `bring_up_to_date`
        self.rebuilt = 0  # how often it was built: then the groups have other numbers
        self.columns = cache.columns
        self._cache = cache
        self._budgets = budgets
        self._rule = rule
        self._version = rule.version()
        self._groups: dict[Hashable, int] = {ALL: 0}  # numbers of groups
        self._priorities: defaultdict[int, int] = defaultdict(int)  # priority -> pods on nodes
        self._noted: list[tuple[PodInfo, int, bool]] = []  # pod, row, whether it came
        self._redrawn: dict[str, None] = {}  # uids of pods that free something else than when they were brought into the index
        self._complete = False  # the index holds all pods but for what is noted
        self._structure = -1
        self._allowances = -1
        self._generation = cache.columns.generation
        self._excluded: set[str] = set()  # by uid
        cache.follow(self)
        cache.credits.call_when_drawn(self._draw_changed)

    def any_below(self, priority: int) -> bool:
        """Answer whether some pod on a node has a lower priority. O(distinct priorities)."""
        for other, count in self._priorities.items():  # noqa: SIM110  # any() costs twice as much, and this is asked at every event
            if other < priority and count:
                return True
        return False

    def lower_on(self, pod: PodInfo, row: int) -> list[PodInfo]:
        """Return the pods of the row that may be evicted for the pod, the most important first. The index must be up to date."""
        return self.index.lower_on(row, pod.priority, self.group_for(pod))

    def may_evict(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Answer whether the pod may evict that one."""
        if victim.priority >= pod.priority or victim.reservation is not None:
            return False
        rule = self._rule
        if not rule.grouped:
            return True
        group = rule.group_for(pod)
        return group is not None and rule.group(victim) == group

    def group_for(self, pod: PodInfo) -> int:
        """Return the number of the group that the pod may evict from. The index must be up to date."""
        if not self._rule.grouped:
            return 0
        return self._groups.get(self._rule.group_for(pod), EMPTY_GROUP)  # None, which is no group, is not among them

    def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
        """Return what victims have to release together for these pods, wherever they are: amounts by resource."""
        return self._rule.to_release(preemptors)

    def exclude(self, uid: str) -> None:
        """Count this pod no longer among possible victims: it should have been gone long ago."""
        state = self._cache.pods.get(uid)
        if state is None or uid in self._excluded:
            return
        self.bring_up_to_date()
        self._excluded.add(uid)
        self.index.exclude(state.node.row, state.info)

    def rows_drawn_on(self, *, overdrawn: bool) -> list[int]:
        """Return the rows with a placeholder on which pods draw; overdrawn: those alone that held less than what is drawn.

        There it depends on the other pods what a victim frees; elsewhere on what: the index knows it of amounts alone.
        """
        owned = self._cache.credits
        rows = (self._cache.row_of(placeholder) for placeholder in (owned.overdrawn if overdrawn else owned.drawn_on()))
        return [row for row in rows if row is not None]

    def bring_up_to_date(self) -> PodIndex:
        """Bring all that was noted into the index, and return it."""
        generation, version = self._cache.columns.generation, self._rule.version()
        if not self._complete or self._structure != self._budgets.structure or self._generation != generation or self._version != version:
            self._generation = generation
            self._version = version
            self._structure = self._budgets.structure
            self._groups = {ALL: 0}
            self.rebuilt += 1
            self._noted = []
            self._redrawn = {}
            self._complete = True
            self.index.clear()
            for state in self._cache.pods.values():
                if not state.node.shares_row and state.info.reservation is None:
                    self._add(state.info, state.node.row)
        noted, self._noted = self._noted, []
        for pod, row, came in noted:
            if came:
                self._add(pod, row)
            else:
                self.index.remove(row, pod)
        redrawn, self._redrawn = self._redrawn, {}
        for uid in redrawn:
            drawing = self._cache.pods.get(uid)
            if drawing is not None and drawing.info.reservation is None and self._is_node(drawing.node.row):
                self.index.remove(drawing.node.row, drawing.info)
                self._add(drawing.info, drawing.node.row)
        if self._allowances != self._budgets.allowances:
            self._allowances = self._budgets.allowances
            self._budgets.write(self.index)
        return self.index

    def _add(self, pod: PodInfo, row: int) -> None:
        request = self._cache.columns.request(self._cache.credits.freed_by(pod))
        budgets = self._budgets.covering(pod.pod)
        number = 0
        if self._rule.grouped:
            group = self._rule.group(pod)
            number = NO_GROUP if group is None else self._groups.setdefault(group, len(self._groups))
        self.index.add(row, pod, pod.priority, request, started_at(pod), is_of_daemon_set(pod.pod), budgets, number)
        if pod.uid in self._excluded:
            self.index.exclude(row, pod)

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            return
        if pod.reservation is not None:
            return
        self._priorities[pod.priority] += 1
        if self._complete and self._is_node(row):
            self._noted.append((pod, row, True))
            self._drop_if_too_much_is_noted()

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            return
        if pod.reservation is not None:
            return
        self._priorities[pod.priority] -= 1
        if self._excluded:
            self._excluded.discard(pod.uid)
        if self._complete and self._is_node(row):
            if self._noted and self._noted[-1][0] is pod and self._noted[-1][2]:
                self._noted.pop()  # it had only just come: a group's turn is undone, the last pod first
            else:
                self._noted.append((pod, row, False))
                self._drop_if_too_much_is_noted()

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        if self._complete and pod.reservation is None:
            self._noted.append((pod, row, True))
            self._drop_if_too_much_is_noted()

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if new.reservation is not None:
            return
        if self._complete and self._is_node(row):
            self._noted += ((old, row, False), (new, row, True))
            self._drop_if_too_much_is_noted()
        if old.priority != new.priority:
            self._priorities[old.priority] -= 1
            self._priorities[new.priority] += 1

    def _draw_changed(self, uid: str, _placeholder: str) -> None:
        if self._complete:
            self._redrawn[uid] = None
            self._drop_if_too_much_is_noted()

    def _drop_if_too_much_is_noted(self) -> None:
        if len(self._noted) + len(self._redrawn) > min(MAX_NOTED, max(FEWEST_NOTED, len(self._cache.pods))):
            self._complete = False
            self._noted = []
            self._redrawn = {}
            self.index.clear()

    def _is_node(self, row: int) -> bool:
        """Answer whether the row is that of one node. Pods on unknown nodes, which share a row, cannot make room."""
        return self._cache.infos[row] is not None


class DisruptionBudgets:
    """All PodDisruptionBudgets of the cluster: which of them cover a pod, and how many disruptions each still allows. A handler."""

    def __init__(self, informer: Informer[PodDisruptionBudget]) -> None:
        self.structure = 0
        self.allowances = 0  # counts changes of what `write` writes
        self._budgets: Mapping[str, PodDisruptionBudget] = informer.store
        self._read_structure = -1
        self._by_namespace: dict[str, list[tuple[int, LabelSelectorMatcher, PodDisruptionBudget]]] = {}
        self._keys: list[str] = []  # by the budgets' numbers
        self._sets: dict[tuple[int, ...], int] = {(): 0}
        informer.add_handler(self)

    def covering(self, pod: Pod) -> int:
        """Return the number of the set of budgets that cover the pod, 0 for none: as for a pod without labels (framework.md §7.4.c)."""
        if self._read_structure != self.structure:
            self._read()
        labels = pod.metadata.labels
        budgets = self._by_namespace.get(pod.metadata.namespace)
        if budgets is None or not labels:
            return 0
        name = pod.metadata.name
        members = tuple(
            [number for number, matcher, budget in budgets if matcher.matches(labels) and name not in budget.status.disrupted_pods]
        )
        found = self._sets.get(members)
        if found is None:
            found = self._sets[members] = len(self._sets)
            self.allowances += 1
        return found

    def violations(self, pods: Sequence[Pod]) -> list[bool]:
        """Answer for each of these pods, evicted in this order, whether that violates a budget."""
        sets = [self.covering(pod) for pod in pods]
        members = list(self._sets)
        left = {number: self._allows(number) for found in set(sets) for number in members[found]}
        answer = []
        for found in sets:
            for number in members[found]:
                left[number] -= 1
            answer.append(any(left[number] < 0 for number in members[found]))
        return answer

    def write(self, index: PodIndex) -> None:
        """Write to the index what the budgets allow, and the sets of budgets."""
        index.set_budgets([self._allows(number) for number in range(len(self._keys))], list(self._sets))

    def _allows(self, number: int) -> int:
        budget = self._budgets.get(self._keys[number])
        return 0 if budget is None else budget.status.disruptions_allowed

    def _read(self) -> None:
        self._read_structure = self.structure
        self.allowances += 1
        self._by_namespace = {}
        self._keys = []
        self._sets = {(): 0}
        for key, budget in self._budgets.items():
            try:
                matcher = label_selector_matcher(budget.spec.selector)
            except SelectorError as error:
                log.warning(
                    "a disruption budget covers no pod: its selector cannot be read", budget=key, path="spec.selector", err=str(error)
                )
                continue
            if not matcher.nothing and not matcher.everything:  # an absent or empty selector covers no pod
                self._by_namespace.setdefault(budget.metadata.namespace, []).append((len(self._keys), matcher, budget))
                self._keys.append(key)

    # Handler

    def on_add(self, budget: PodDisruptionBudget, _arrival: Arrival) -> None:
        self.structure += 1

    def on_update(self, old: PodDisruptionBudget, new: PodDisruptionBudget) -> None:
        if old.spec != new.spec or old.status.disrupted_pods != new.status.disrupted_pods:
            self.structure += 1
        self.allowances += 1

    def on_delete(self, budget: PodDisruptionBudget, _final_state: FinalState) -> None:
        self.structure += 1


def is_of_daemon_set(pod: Pod) -> bool:
    """Answer whether a DaemonSet made the pod for its node, so that it could not run on another one instead."""
    owners = pod.metadata.owner_references
    return bool(owners) and any(owner.controller and owner.kind == "DaemonSet" for owner in owners)


def started_at(pod: PodInfo) -> float:
    """Return when the pod started, in seconds since the epoch; infinity when it has not, which counts as now."""
    return start_time_of(pod.pod)


def start_time_of(pod: Pod) -> float:
    start = pod.status.start_time
    return inf if start is None else _seconds(start)


@lru_cache(maxsize=4096)
def _seconds(start_time: str) -> float:
    """Return a pod's start time in seconds since the epoch; what cannot be read counts as not started."""
    try:
        return parse_rfc3339(start_time)
    except ValueError:
        return inf
