"""The quotas of one tree, on the kernel that sums up and shares out (elasticquota.md §3 and §6).

A `QuotaManager` knows objects and names where the kernel knows rows. What quotas say is written to the kernel when it changes. Parents and
children are linked when numbers are next asked for, since quotas come in any order: a quota whose parent is missing, or is its own
descendant, is an orphan until that changes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from koordsched._core.quota import QuotaPod, QuotaRequest, QuotaTree
from koordsched.api.koordinator.quota_definitions import DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, QuotaDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.config.features import FeatureGates
    from koordsched.config.koordinator_args import ElasticQuotaArgs

ROOT_ROW = 0
ORPHAN = -1
BUILT_IN = frozenset({SYSTEM_QUOTA, DEFAULT_QUOTA})
NOT_OF_ROOTS = frozenset({"child_request", "guaranteed"})
"""Columns of the kernel that the reference leaves empty for a root quota."""
MANY_QUOTAS = 50
"""When more quotas than this moved, all are linked anew."""
MOST_REQUESTS = 8192
"""How many different requests of pods are kept compiled."""


class Quota:
    """A quota that is known. `obj` is None for a built-in quota without an object."""

    __slots__ = ("definition", "leaving", "manager", "name", "obj", "pods", "row", "victims")

    def __init__(self, name: str, manager: QuotaManager, row: int, definition: QuotaDefinition) -> None:
        self.name = name
        self.manager = manager
        self.row = row
        self.definition = definition
        self.obj: ElasticQuota | None = None
        self.pods: dict[str, CountedPod] = {}  # by uid
        self.victims: dict[int, int] = {}  # of its assigned, preemptible pods that are not leaving: how many have which priority
        self.leaving: dict[str, CountedPod] = {}  # assigned pods that are being deleted

    @property
    def lends(self) -> bool:
        """Whether it leaves to others what it does not ask for; with ElasticQuotaGuaranteeUsage only built-in quotas do."""
        return self.definition.lends and not (self.manager.kernel.guarantees and self.name not in BUILT_IN)

    def leaving_amounts(self) -> Amounts:
        """Return what the pods that are being deleted use."""
        found: Counter[str] = Counter()
        for counted in self.leaving.values():
            found.update(counted.limited_requests())
        return found

    def amounts(self, column: str) -> Amounts:
        """Return a column of the kernel for this quota, in nano-units."""
        if self.row == ROOT_ROW and column in NOT_OF_ROOTS:
            return {}
        return self.manager.up_to_date().amounts(column, self.row)

    def runtimes(self) -> Amounts:
        return self.manager.up_to_date().runtimes(self.row)

    def limit(self) -> Amounts:
        """Return what the quota may use now: its runtime, or max where runtimes are turned off."""
        return self.runtimes() if self.manager.kernel.by_runtime else self.amounts("max")


class CountedPod(msgspec.Struct, eq=False):
    """A pod that counts in a quota. requests: exact, of every resource that it names. entry: the kernel's record of it.
    is_bound: the cluster says so."""

    pod: Pod
    uid: str
    quota: Quota
    requests: Mapping[str, int]
    entry: QuotaPod
    is_bound: bool = False

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    def limited_requests(self) -> Amounts:
        """Return what the pod asks for of what its quota limits."""
        limited = self.quota.definition.max
        return {name: amount for name, amount in self.requests.items() if name in limited}


class QuotaManager:
    """One tree of quotas; "" is the default tree, which alone has the system and the default quota."""

    def __init__(self, tree_id: str, args: ElasticQuotaArgs, gates: FeatureGates) -> None:
        self.tree_id = tree_id
        self.is_dropped = False  # its root quota was deleted
        self.is_noted = False  # listeners were called after a change, and have not looked at the tree yet
        self.kernel = QuotaTree(
            scales_min=args.enable_min_quota_scale,
            guarantees=gates["ElasticQuotaGuaranteeUsage"],
            by_runtime=args.enable_runtime_quota,
            checks_parents=args.enable_check_parent_quota,
            built_ins_compete=args.parity,
            whole_devices=frozenset() if args.parity else frozenset(args.whole_devices),
        )
        root = Quota(ROOT_QUOTA, self, ROOT_ROW, QuotaDefinition(parent="", tree_id=tree_id, max={}, min={}, weight={}, is_parent=True))
        self.root = root
        self.quotas: dict[str, Quota] = {ROOT_QUOTA: root}
        self._by_row: dict[int, Quota] = {ROOT_ROW: root}
        self._total: Amounts = {}
        self.moved: set[str] = set()  # quotas that came, went, or have another parent or min since `link`
        self._children: dict[str, dict[str, None]] = {}  # names by what is written as their parent
        self._requests: dict[int, tuple[Mapping[str, int], QuotaRequest]] = {}  # by id of the mapping, which is kept
        self.claims: dict[str, Amounts] = {}  # what the tree has, by the name of the quota that says so
        self.circles: frozenset[str] = frozenset()  # quotas that are their own ancestors by what they say
        self.call_when_linked: Callable[[QuotaManager, Iterable[Quota]], None] = lambda _manager, _quotas: None

    def __iter__(self) -> Iterator[Quota]:
        return iter(self.quotas.values())

    # Quotas

    def add(self, name: str, definition: QuotaDefinition) -> Quota:
        row = self.kernel.add_quota()
        quota = self.quotas[name] = self._by_row[row] = Quota(name, self, row, definition)
        self._children.setdefault(definition.parent, {})[name] = None
        self.moved.add(name)
        self._write(quota)
        return quota

    def redefine(self, quota: Quota, definition: QuotaDefinition) -> None:
        """Take over what the quota says now. Where other resources are limited than before, its pods are counted anew."""
        before, quota.definition = quota.definition, definition
        if quota is self.root:
            return  # what its object says limits nothing
        if before.parent != definition.parent:
            self._leave_parent(quota.name, before.parent)
            self._children.setdefault(definition.parent, {})[quota.name] = None
        if before.parent != definition.parent or before.min != definition.min:
            self.moved.add(quota.name)
        recounts = before.max.keys() != definition.max.keys()
        counted = list(quota.pods.values()) if recounts else []
        assigned = [pod.entry.assigned for pod in counted]
        for pod in counted:
            self.kernel.remove(pod.entry)
        self._write(quota)
        for pod, was_assigned in zip(counted, assigned, strict=True):
            pod.entry = self.entry(quota, pod.requests, fixed=pod.entry.fixed)
            self.kernel.add(pod.entry)
            if was_assigned:
                self.kernel.assign(pod.entry)

    def remove(self, quota: Quota) -> None:
        """Forget a quota, which has no pods any more."""
        del self.quotas[quota.name], self._by_row[quota.row]
        self.kernel.remove_quota(quota.row)
        self._leave_parent(quota.name, quota.definition.parent)
        self.claims.pop(quota.name, None)
        self.moved.add(quota.name)

    def _leave_parent(self, name: str, parent: str) -> None:
        siblings = self._children[parent]
        del siblings[name]
        if not siblings:
            del self._children[parent]

    def _write(self, quota: Quota) -> None:
        definition, known = quota.definition, len(self.kernel.resources)
        if definition.tree_total is None:
            self.claims.pop(quota.name, None)
        else:
            self.claims[quota.name] = definition.tree_total
        self.kernel.set_quota(
            quota.row,
            most=definition.max,
            least=definition.min,
            weight=definition.weight,
            lends=quota.lends,
            built_in=quota.name in BUILT_IN,
        )
        if len(self.kernel.resources) != known:
            self._requests.clear()
            self.kernel.set_total(self._total)

    def set_total(self, total: Amounts) -> None:
        """Take over what the tree has, the built-in quotas' use included."""
        self._total = total
        self.kernel.set_total(total)

    @property
    def total(self) -> Amounts:
        return self._total

    def quota_of(self, row: int) -> Quota:
        return self._by_row[row]

    # Pods

    def entry(self, quota: Quota, requests: Mapping[str, int], *, fixed: bool) -> QuotaPod:
        """Return the kernel's record of a pod in the quota, not counted yet. fixed: the pod is non-preemptible.

        Pods that are written alike share one Mapping of requests (`exact_requests`), and with it one compiled request.
        """
        known = self._requests.get(id(requests))
        if known is not None and known[0] is requests:
            return QuotaPod(quota.row, known[1], fixed=fixed)
        if len(self._requests) >= MOST_REQUESTS:
            self._requests.clear()
        request = QuotaRequest(self.kernel, dict(requests))
        self._requests[id(requests)] = (requests, request)
        return QuotaPod(quota.row, request, fixed=fixed)

    # The tree

    def up_to_date(self) -> QuotaTree:
        """Return the kernel, once it knows whose parent each quota is."""
        if self.moved:
            self._link()
        return self.kernel

    def written_children(self, name: str) -> Iterable[Quota]:
        """Return the quotas that say that this one is their parent."""
        return [self.quotas[child] for child in self._children.get(name, ())]

    def parent(self, quota: Quota) -> Quota | None:
        """Return the parent; None for the root and for orphans."""
        row = self.up_to_date().parent_of(quota.row)
        return None if row == ORPHAN else self._by_row[row]

    def children(self, quota: Quota) -> list[Quota]:
        kernel = self.up_to_date()
        return sorted((child for child in self if kernel.parent_of(child.row) == quota.row), key=lambda child: child.name)

    def path(self, quota: Quota) -> list[Quota]:
        """Return the quota and its ancestors, the root or an orphan last."""
        found = [quota]
        while (above := self.parent(found[-1])) is not None:
            found.append(above)
        return found

    def _link(self) -> None:
        """Give the kernel the parents of quotas that moved and of their children; of all quotas where some are their own ancestors."""
        moved = self.moved
        self.moved = set()
        if self.circles or len(moved) > MANY_QUOTAS or any(map(self._is_own_ancestor, moved)):
            parents = {name: quota.definition.parent for name, quota in self.quotas.items()}
            self.circles = frozenset(_circles(parents))
            concerned = list(self.quotas.values())
        else:
            concerned = [self.quotas[name] for name in moved if name in self.quotas]
            concerned += [child for name in moved for child in self.written_children(name) if child.name not in moved]
        rows = {}
        for quota in concerned:
            above = None if quota.name in self.circles else self.quotas.get(quota.definition.parent)
            rows[quota.row] = ORPHAN if above is None else above.row
        self.kernel.link(rows)
        if self.kernel.whole_devices and moved:  # the order of names decides which of two equal quotas gets one more
            self.kernel.set_ranks([self.quotas[name].row for name in sorted(self.quotas)])
        parents_of_moved = {quota.definition.parent for quota in concerned} - {quota.name for quota in concerned}
        self.call_when_linked(self, [*concerned, *(self.quotas[name] for name in parents_of_moved if name in self.quotas)])

    def _is_own_ancestor(self, name: str) -> bool:
        above, steps = name, 0
        while above in self.quotas and steps <= len(self.quotas):
            above, steps = self.quotas[above].definition.parent, steps + 1
            if above == name:
                return True
        return steps > len(self.quotas)


def _circles(parents: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that are among their own ancestors."""
    seen: dict[str, int] = {}  # in which walk
    for walk, start in enumerate(parents):
        name = start
        while name in parents and name not in seen:
            seen[name] = walk
            name = parents[name]
        if seen.get(name) == walk:  # this walk has come back to itself
            first = name
            while True:
                yield name
                name = parents[name]
                if name == first:
                    break
