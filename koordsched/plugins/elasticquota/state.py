"""Quotas and their trees, kept up to date with ElasticQuotas, nodes and pods (elasticquota.md §3 to §7).

There is one state for all profiles. Everything is derived from objects: a restart finds the same numbers, and what the pods of a deleted
quota use counts at once in the quota that they belong to then. How pods count is `counting`'s matter, what nodes offer `node_totals`', what
follows from an event `changes`'.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.api.koordinator.quota_definitions import ALWAYS_THERE, DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, QuotaDefinition
from koordsched.api.quantity import nano
from koordsched.plugins.elasticquota.association import PodAssociation
from koordsched.plugins.elasticquota.changes import TreeChanges
from koordsched.plugins.elasticquota.counting import PodCounting
from koordsched.plugins.elasticquota.hooks import Hooks, QuotaUpdate
from koordsched.plugins.elasticquota.manager import Quota, QuotaManager
from koordsched.plugins.elasticquota.node_totals import NodeTotals
from koordsched.plugins.elasticquota.problems import IN_TOTAL, IN_TREE, QuotaProblems

if TYPE_CHECKING:
    from koordsched.api.core import Node, Pod
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import ElasticQuotaArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.metrics import QuotaLatencies

DEFAULT_TREE = ""
TIMED = 100
"""Of so many events of pods one is timed."""


class QuotaState:
    """All quotas of a cluster."""

    def __init__(self, handle: Handle, args: ElasticQuotaArgs, latencies: QuotaLatencies) -> None:
        self.args = args
        self.latencies = latencies
        self.perf = handle.clock.perf
        self._gates = handle.gates
        self._multi_tree = handle.gates["MultiQuotaTree"]
        self.quotas: dict[str, Quota] = {}  # by name, the built-in ones included
        self.managers: dict[str, QuotaManager] = {}  # by tree id
        self._objects: dict[str, dict[str, ElasticQuota]] = {}  # by name, then by namespace
        self.association = PodAssociation(self.quotas, label_only=handle.gates["DisableDefaultQuota"])
        self.hooks = Hooks(args.hook_plugins, latencies)
        self.changes = TreeChanges(handle)
        self.problems = QuotaProblems(handle, self.quotas)
        self.nodes = NodeTotals()
        self.counting = PodCounting(handle, self.association, self.hooks, self.changes)
        self.default = self._manager(DEFAULT_TREE)
        self.quotas[ROOT_QUOTA] = self.default.root
        for name in (SYSTEM_QUOTA, DEFAULT_QUOTA):
            self.quotas[name] = self.default.add(name, self._built_in(name))
        handle.informer(ELASTIC_QUOTA).add_handler(_QuotaHandler(self))
        handle.informer(NODE).add_handler(_NodeHandler(self))
        handle.informer(POD).add_handler(_PodHandler(self))

    # Quotas

    def set_object(self, obj: ElasticQuota) -> None:
        """Take over an object that came or changed; one that is being deleted counts on, as it was."""
        started = self.perf()
        name, namespace = obj.metadata.name, obj.metadata.namespace
        if obj.metadata.deletion_timestamp is not None:
            return
        self._objects.setdefault(name, {})[namespace] = obj
        self._follow_owner(name)
        self.latencies.observe("UpdateQuota", self.perf() - started)

    def remove_object(self, obj: ElasticQuota) -> None:
        started = self.perf()
        name, namespace = obj.metadata.name, obj.metadata.namespace
        same_name = self._objects.get(name, {})
        if same_name.pop(namespace, None) is None:
            return
        self.problems.forget(obj)
        if not same_name:
            del self._objects[name]
        self._follow_owner(name)
        self.latencies.observe("DeleteQuota", self.perf() - started)

    def _follow_owner(self, name: str) -> None:
        """Define a quota by the oldest object of its name; without one it is forgotten."""
        objects = self._objects.get(name, {})
        owner = min(objects.values(), key=lambda obj: (obj.metadata.creation_timestamp or "", obj.metadata.namespace), default=None)
        for obj in objects.values():
            if owner is not None and obj is not owner:
                self.problems.report(obj, [f"the name is taken by the older quota {owner.metadata.namespace}/{name}"])
                self.problems.report(obj, [], IN_TREE)
                self.problems.report(obj, [], IN_TOTAL)
        quota = self.quotas.get(name)
        if owner is not None:
            self._define(name, quota, owner)
        elif quota is not None:
            self._undefine(quota)

    def _define(self, name: str, quota: Quota | None, obj: ElasticQuota) -> None:
        problems: list[str] = []
        definition = QuotaDefinition.read(obj, problems)
        tree_id = definition.tree_id if self._multi_tree and name not in ALWAYS_THERE else DEFAULT_TREE
        before = None if quota is None else quota.definition
        home = None if quota is None or quota.obj is None else quota.obj.metadata.namespace
        if quota is not None and quota.manager.tree_id != tree_id:
            problems.append(f"the tree id is fixed while the quota exists: {quota.manager.tree_id!r}, not {tree_id!r}")
        self.problems.report(obj, problems)
        if definition.tree_total is None:
            self.problems.report(obj, [], IN_TOTAL)
        changes = before != definition
        if not changes and quota is not None and home == obj.metadata.namespace and not self.hooks.wants_update(quota, definition, obj):
            quota.obj = obj
            return
        manager = self._manager(tree_id) if quota is None else quota.manager
        manager.is_dropped = False
        update = QuotaUpdate(before, definition, obj, {})
        self.hooks.quota_updated("pre_quota_update", manager, update)
        if quota is None:
            quota = self.quotas[name] = manager.add(name, definition)
        else:
            manager.redefine(quota, definition)
        quota.obj = obj
        self.hooks.quota_updated("post_quota_update", manager, update)
        namespaces = self.association.set_namespaces(name, () if before is None else before.namespaces, definition.namespaces)
        if before is None or home != obj.metadata.namespace:
            namespaces.add(name)
        self._set_totals()
        self.counting.associate(self.association.concerned([name] if before is None else [], namespaces))
        self.changes.after_event(quota.manager)

    def _undefine(self, quota: Quota) -> None:
        """Forget a quota that has no object any more; a built-in one stays, as it is by default."""
        before, obj, manager = quota.definition, quota.obj, quota.manager
        assert obj is not None
        if quota.name in ALWAYS_THERE:
            quota.obj = None
            manager.redefine(quota, self._built_in(quota.name))
            self.counting.associate(self.association.concerned((), self.association.set_namespaces(quota.name, before.namespaces, ())))
            self.changes.after_event(manager)
            return
        update = QuotaUpdate(before, None, obj, {})
        self.hooks.quota_updated("pre_quota_update", manager, update)
        del self.quotas[quota.name]
        self.association.set_namespaces(quota.name, before.namespaces, ())
        self.counting.associate(list(quota.pods))
        manager.remove(quota)
        self.hooks.quota_updated("post_quota_update", manager, update)
        if before.tree_total is not None and manager is not self.default and not manager.claims:
            manager.is_dropped = True
        if manager is not self.default and len(manager.quotas) == 1:
            del self.managers[manager.tree_id]
        self._set_totals()
        self.changes.after_event(manager)

    def _built_in(self, name: str) -> QuotaDefinition:
        """Return what a built-in quota is without an object."""
        if name == ROOT_QUOTA:
            return QuotaDefinition(parent="", tree_id="", max={}, min={}, weight={}, is_parent=True, lends=False)
        written = self.args.default_quota_group_max if name == DEFAULT_QUOTA else self.args.system_quota_group_max
        most = {resource: nano(quantity) for resource, quantity in written.items()}
        return QuotaDefinition(parent=ROOT_QUOTA, tree_id="", max=most, min={}, weight=most)

    def _manager(self, tree_id: str) -> QuotaManager:
        manager = self.managers.get(tree_id)
        if manager is None:
            manager = QuotaManager(tree_id, self.args, self._gates)
            manager.call_when_linked = self.problems.report_places
            self.hooks.make(tree_id, manager.quotas)  # before the tree is known: where this raises, it is made again
            self.managers[tree_id] = manager
        return manager

    # Nodes

    def set_node(self, node: Node) -> None:
        if self.nodes.set(node):
            self._share_out()

    def remove_node(self, name: str) -> None:
        if self.nodes.remove(name):
            self._share_out()

    def _share_out(self) -> None:
        self._set_totals()
        for manager in self.managers.values():
            self.changes.after_event(manager)

    def _set_totals(self) -> None:
        """Share out what nodes offer: to trees what their roots say, to the default tree the rest.

        Of several roots of a tree the first by name counts.
        """
        rest = self.nodes.sum()
        for manager in self.managers.values():
            if manager is self.default:
                continue
            names = sorted(manager.claims)
            total = manager.claims[names[0]] if names else {}
            if names and not self.quotas[names[0]].definition.ignores_default_tree:
                for name, amount in total.items():
                    rest[name] = rest.get(name, 0) - amount
            for name in names:
                obj = self.quotas[name].obj
                assert obj is not None
                others = [f"annotation total-resource: what the tree {manager.tree_id!r} has is said by its root {names[0]}"]
                self.problems.report(obj, [] if name == names[0] else others, IN_TOTAL)
            manager.set_total(total)
        self.default.set_total(rest)


class _QuotaHandler:
    def __init__(self, state: QuotaState) -> None:
        self._state = state

    def on_add(self, obj: ElasticQuota, _arrival: Arrival) -> None:
        self._state.set_object(obj)

    def on_update(self, _old: ElasticQuota, new: ElasticQuota) -> None:
        self._state.set_object(new)

    def on_delete(self, obj: ElasticQuota, _final_state: FinalState) -> None:
        self._state.remove_object(obj)


class _NodeHandler:
    def __init__(self, state: QuotaState) -> None:
        self._state = state

    def on_add(self, obj: Node, _arrival: Arrival) -> None:
        self._state.set_node(obj)

    def on_update(self, _old: Node, new: Node) -> None:
        self._state.set_node(new)

    def on_delete(self, obj: Node, _final_state: FinalState) -> None:
        self._state.remove_node(obj.metadata.name)


class _PodHandler:
    """Few events are timed: what one costs more then is as much as the event itself."""

    def __init__(self, state: QuotaState) -> None:
        self._counting = state.counting
        self._latencies = state.latencies
        self._perf = state.perf
        self._is_timed = cycle((True, *[False] * (TIMED - 1))).__next__

    def on_add(self, obj: Pod, _arrival: Arrival) -> None:
        started = self._perf() if self._is_timed() else None
        self._counting.set_pod(obj)
        if started is not None:
            self._latencies.pod_added(self._perf() - started)

    def on_update(self, old: Pod, new: Pod) -> None:
        started = self._perf() if self._is_timed() else None
        if old.metadata.uid != new.metadata.uid:
            self._counting.remove_pod(old.metadata.uid)
        self._counting.set_pod(new)
        if started is not None:
            self._latencies.pod_updated(self._perf() - started)

    def on_delete(self, obj: Pod, _final_state: FinalState) -> None:
        started = self._perf() if self._is_timed() else None
        self._counting.remove_pod(obj.metadata.uid)
        if started is not None:
            self._latencies.pod_deleted(self._perf() - started)
