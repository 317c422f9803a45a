"""PodDisruptionBudgets as guards of the occupancy: which budgets protect a pod, and how many disruptions each still allows.

What budgets allow changes with every eviction and is written anew then. Which pods a budget protects (its selector, the pods it lists as
being disrupted) changes seldom: `structure` counts that, and whoever keeps sets of guards makes them anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.selectors import SelectorError, label_selector_matcher
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koordsched._core.occupancy import Occupancy
    from koordsched.api.core import Pod
    from koordsched.api.policy import PodDisruptionBudget
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.mirror import Arrival, FinalState

log = get_logger(__name__)


class Budgets:
    """All budgets of the cluster. A handler of their informer."""

    def __init__(self, informer: Informer[PodDisruptionBudget]) -> None:
        self.structure = 0
        self._budgets: Mapping[str, PodDisruptionBudget] = informer.store
        self._read_structure = -1
        self._allowances_changed = True
        self._by_namespace: dict[str, list[tuple[int, LabelSelectorMatcher, PodDisruptionBudget]]] = {}
        self._keys: list[str] = []
        self._sets: dict[tuple[int, ...], int] = {(): 0}
        informer.add_handler(self)

    # Handler

    def on_add(self, budget: PodDisruptionBudget, _arrival: Arrival) -> None:
        self.structure += 1

    def on_update(self, old: PodDisruptionBudget, new: PodDisruptionBudget) -> None:
        if old.spec != new.spec or old.status.disrupted_pods != new.status.disrupted_pods:
            self.structure += 1
        self._allowances_changed = True

    def on_delete(self, budget: PodDisruptionBudget, _final_state: FinalState) -> None:
        self.structure += 1

    # Guards

    def guards_of(self, pod: Pod) -> int:
        """Return the set of budgets that protect the pod, 0 for none. A pod without labels is protected by none (framework.md §7.4.c)."""
        if self._read_structure != self.structure:
            self._read()
        labels = pod.metadata.labels
        budgets = self._by_namespace.get(pod.metadata.namespace)
        if budgets is None or not labels:
            return 0
        name = pod.metadata.name
        members = tuple(
            [guard for guard, matcher, budget in budgets if matcher.matches(labels) and name not in budget.status.disrupted_pods]
        )
        found = self._sets.get(members)
        if found is None:
            found = self._sets[members] = len(self._sets)
            self._allowances_changed = True
        return found

    def beyond(self, pods: Sequence[Pod]) -> list[bool]:
        """Answer for each of these pods, evicted in this order, whether that violates a budget."""
        sets = [self.guards_of(pod) for pod in pods]
        members = list(self._sets)
        left = {guard: self._allows(guard) for found in set(sets) for guard in members[found]}
        answer = []
        for found in sets:
            for guard in members[found]:
                left[guard] -= 1
            answer.append(any(left[guard] < 0 for guard in members[found]))
        return answer

    def _allows(self, guard: int) -> int:
        budget = self._budgets.get(self._keys[guard])
        return 0 if budget is None else budget.status.disruptions_allowed

    def write(self, occupancy: Occupancy) -> None:
        """Tell the occupancy what the budgets allow, if that or the sets of guards have changed since."""
        if not self._allowances_changed:
            return
        self._allowances_changed = False
        occupancy.set_guards_of([self._allows(guard) for guard in range(len(self._keys))], list(self._sets))

    def _read(self) -> None:
        self._read_structure = self.structure
        self._allowances_changed = True
        self._by_namespace = {}
        self._keys = []
        self._sets = {(): 0}
        for key, budget in self._budgets.items():
            matcher = self._matcher(key, budget)
            if matcher is not None:
                self._by_namespace.setdefault(budget.metadata.namespace, []).append((len(self._keys), matcher, budget))
                self._keys.append(key)

    def _matcher(self, key: str, budget: PodDisruptionBudget) -> LabelSelectorMatcher | None:
        """Return the selector, None where it protects nobody: absent, empty, or not to be understood."""
        try:
            matcher = label_selector_matcher(budget.spec.selector)
        except SelectorError as error:
            log.warning(
                "a disruption budget protects nobody: its selector cannot be read", budget=key, path="spec.selector", err=str(error)
            )
            return None
        return None if matcher.nothing or matcher.everything else matcher
