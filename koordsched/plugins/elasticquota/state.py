"""Quotas, their trees and their pods, kept up to date with ElasticQuotas, nodes and pods (elasticquota.md §3 to §7).

There is one state for all profiles. A pod that the cluster has counts in the request of its quota, and from Reserve or its binding on in
what the quota uses. Everything is derived from objects: a restart finds the same numbers, and what the pods of a deleted quota use counts
at once in the quota that they belong to then.

After every event the quotas that may have more room are announced, so that pods waiting under them are moved; no others (DEV-3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.api.koordinator.quota_definitions import (
    DEFAULT_QUOTA,
    ROOT_QUOTA,
    SYSTEM_QUOTA,
    QuotaDefinition,
    is_non_preemptible,
)
from koordsched.api.quantity import QuantityError, nano
from koordsched.api.resources import exact_requests
from koordsched.clock import parse_rfc3339
from koordsched.cluster.event_series import EventText
from koordsched.log import get_logger
from koordsched.plugins.elasticquota.association import PodAssociation
from koordsched.plugins.elasticquota.hooks import Hooks, QuotaUpdate
from koordsched.plugins.elasticquota.manager import CountedPod, Quota, QuotaManager
from koordsched.queue.events import ActionType, AdmissionKey, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import ElasticQuotaArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.metrics import QuotaLatencies

log = get_logger(__name__)

PLUGIN = "ElasticQuota"
INVALID_QUOTA_EVENT = "InvalidElasticQuota"
DEFAULT_TREE = ""
IN_OBJECT, IN_TREE = "object", "tree"
ROOM_GREW = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, ELASTIC_QUOTA.plural_group)


class QuotaState:
    """All quotas of a cluster."""

    def __init__(self, handle: Handle, args: ElasticQuotaArgs, latencies: QuotaLatencies) -> None:
        self.args = args
        self._handle = handle
        self._clock = handle.clock
        self._cache = handle.cache
        self._gates = gates = handle.gates
        self.perf = handle.clock.perf
        self.latencies = latencies
        self._multi_tree = gates["MultiQuotaTree"]
        self._with_overhead = not gates["ElasticQuotaIgnorePodOverhead"]
        self._ignores_terminating = gates["ElasticQuotaIgnoreTerminatingPod"]
        self._ignores_terminating_at_once = gates["ElasticQuotaImmediateIgnoreTerminatingPod"]
        self.quotas: dict[str, Quota] = {}  # by name, the built-in ones included
        self.managers: dict[str, QuotaManager] = {}  # by tree id
        self.pods: dict[str, CountedPod] = {}  # by uid
        self.association = PodAssociation(self.quotas, label_only=gates["DisableDefaultQuota"])
        self.hooks = Hooks(args.hook_plugins, latencies)
        self._has_hooks = bool(args.hook_plugins)
        self._objects: dict[str, dict[str, ElasticQuota]] = {}  # by name, then by namespace
        self._problems: dict[tuple[str, str, str], tuple[str, ...]] = {}  # by name and namespace, and where they were found
        self.moves = 0  # how often pods were found to belong to another quota than before
        self._nodes: dict[str, Amounts] = {}
        self._node_total: dict[str, list[int]] = {}  # by resource: nano-units, and how many nodes offer it
        self._listeners: list[Callable[[QuotaManager], None]] = []
        self._watched_pods: Mapping[str, Pod] = handle.informer(POD).store
        self.default = self._manager(DEFAULT_TREE)
        self.quotas[ROOT_QUOTA] = self.default.root
        for name in (SYSTEM_QUOTA, DEFAULT_QUOTA):
            self.quotas[name] = self.default.add(name, self._built_in(name))
        handle.informer(ELASTIC_QUOTA).add_handler(_QuotaHandler(self))
        handle.informer(NODE).add_handler(_NodeHandler(self))
        handle.informer(POD).add_handler(_PodHandler(self))

    # Reading

    def quota_of(self, pod: PodInfo) -> Quota | None:
        """Return the quota that a pod belongs to; None: it has none."""
        counted = self.pods.get(pod.uid)
        return self.association.quota_of(pod.pod) if counted is None else counted.quota

    def counted(self, pod: PodInfo) -> CountedPod | None:
        """Return how the pod counts; of one that does not, such as a pod that stands for a Reservation, how it would. None: in no quota."""
        counted = self.pods.get(pod.uid)
        if counted is not None:
            return counted
        quota = self.association.quota_of(pod.pod)
        if quota is None:
            return None
        requests = exact_requests(pod.pod, with_overhead=self._with_overhead)
        entry = quota.manager.entry(quota, requests, fixed=is_non_preemptible(pod.pod))
        return CountedPod(pod.pod, quota, requests, entry)

    def has_leaving_pods(self, pod: PodInfo) -> bool:
        """Answer whether assigned pods of the pod's quota are being deleted."""
        quota = self.quota_of(pod)
        return quota is not None and bool(quota.leaving)

    def follow(self, listener: Callable[[QuotaManager], None]) -> None:
        """Have this called after every event that may have changed numbers of a tree."""
        self._listeners.append(listener)

    def problems_of(self, quota: Quota) -> tuple[str, ...]:
        """Return what is wrong with the quota's object."""
        quota.manager.up_to_date()
        namespace = "" if quota.obj is None else quota.obj.metadata.namespace
        return tuple([text for where in (IN_OBJECT, IN_TREE) for text in self._problems.get((quota.name, namespace, where), ())])

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
        self._report(IN_OBJECT, obj, [])
        self._report(IN_TREE, obj, [])
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
                self._report(IN_OBJECT, obj, [f"the name is taken by the older quota {owner.metadata.namespace}/{name}"])
                self._report(IN_TREE, obj, [])
        quota = self.quotas.get(name)
        if owner is not None:
            self._define(name, quota, owner)
        elif quota is not None:
            self._undefine(quota)

    def _define(self, name: str, quota: Quota | None, obj: ElasticQuota) -> None:
        problems: list[str] = []
        definition = QuotaDefinition.read(obj, problems)
        tree_id = definition.tree_id if self._multi_tree and name not in {ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA} else DEFAULT_TREE
        before = None if quota is None else quota.definition
        home = None if quota is None or quota.obj is None else quota.obj.metadata.namespace
        if quota is not None and quota.manager.tree_id != tree_id:
            problems.append(f"the tree id is fixed while the quota exists: {quota.manager.tree_id!r}, not {tree_id!r}")
        self._report(IN_OBJECT, obj, problems)
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
        self._associate([name] if before is None else [], namespaces)
        self._after_event(quota.manager)

    def _undefine(self, quota: Quota) -> None:
        """Forget a quota that has no object any more; a built-in one stays, as it is by default."""
        before, obj, manager = quota.definition, quota.obj, quota.manager
        assert obj is not None
        if quota.name in {ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA}:
            quota.obj = None
            manager.redefine(quota, self._built_in(quota.name))
            self._associate((), self.association.set_namespaces(quota.name, before.namespaces, ()))
            self._after_event(manager)
            return
        update = QuotaUpdate(before, None, obj, {})
        self.hooks.quota_updated("pre_quota_update", manager, update)
        del self.quotas[quota.name]
        namespaces = self.association.set_namespaces(quota.name, before.namespaces, ())
        namespaces.add(quota.name)
        self._associate([quota.name], namespaces)
        manager.remove(quota)
        self.hooks.quota_updated("post_quota_update", manager, update)
        if before.tree_total is not None and manager is not self.default:
            manager.is_dropped = True
        if manager is not self.default and len(manager.quotas) == 1:
            del self.managers[manager.tree_id]
        self._set_totals()
        self._after_event(manager)

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
            manager.call_when_linked = self._report_places
            self.hooks.make(tree_id, manager.quotas)  # before the tree is known: where this raises, it is made again
            self.managers[tree_id] = manager
        return manager

    def _report_places(self, manager: QuotaManager, quotas: Iterable[Quota]) -> None:
        """Report what is wrong with these quotas as parents and children."""
        for quota in quotas:
            if quota.obj is not None and quota is not manager.root:
                self._report(IN_TREE, quota.obj, list(self._place_problems(manager, quota)))

    def _place_problems(self, manager: QuotaManager, quota: Quota) -> Iterable[str]:
        parent = quota.definition.parent
        if quota.name in manager.circles:
            yield f"parent {parent}: the quota is its own ancestor, so it gets what it asks for up to its min"
        elif parent not in manager.quotas:
            elsewhere = self.quotas.get(parent)
            where = "does not exist" if elsewhere is None else f"is in the tree {elsewhere.manager.tree_id!r}"
            yield f"parent {parent}: {where}, so the quota gets what it asks for up to its min"
        own, together = quota.definition.min, dict[str, int]()
        for child in manager.written_children(quota.name):
            for resource, least in child.definition.min.items():
                together[resource] = together.get(resource, 0) + least
        for resource in sorted(together):
            if together[resource] > own.get(resource, 0):
                yield f"spec.min[{resource}]: the children's min is more together"

    def _report(self, where: str, obj: ElasticQuota, problems: list[str]) -> None:
        """Report each mistake once. where: IN_OBJECT or IN_TREE."""
        name, namespace = obj.metadata.name, obj.metadata.namespace
        known = self._problems.get((name, namespace, where), ())
        if known == tuple(problems):
            return
        if problems:
            self._problems[name, namespace, where] = tuple(problems)
        else:
            del self._problems[name, namespace, where]
        news = [problem for problem in problems if problem not in known]
        for problem in news:
            log.warning("an ElasticQuota is not right", quota=f"{namespace}/{name}", problem=problem)
        if news:
            self._handle.malformed_object(ELASTIC_QUOTA.kind)
            self._handle.event_on(obj, EventText("Warning", INVALID_QUOTA_EVENT, "Scheduling", "; ".join(news)))

    # Nodes

    def set_node(self, node: Node) -> None:
        """Take over what a node offers; what is known of one that is being deleted stays."""
        if node.metadata.deletion_timestamp is not None:
            return
        offered = offered_by(node)
        name = node.metadata.name
        before = self._nodes.get(name, {})
        if offered != before or name not in self._nodes:
            self._nodes[name] = offered
            self._add_to_total(before, -1)
            self._add_to_total(offered, 1)
            self._set_totals()
            self._after_event_in_all()

    def remove_node(self, name: str) -> None:
        offered = self._nodes.pop(name, None)
        if offered is not None:
            self._add_to_total(offered, -1)
            self._set_totals()
            self._after_event_in_all()

    @property
    def known_nodes(self) -> Mapping[str, Amounts]:
        """Return what is counted of nodes, by name."""
        return self._nodes

    def _add_to_total(self, offered: Amounts, sign: int) -> None:
        for name, amount in offered.items():
            total = self._node_total.setdefault(name, [0, 0])
            total[0] += sign * amount
            total[1] += sign
            if not total[1]:
                del self._node_total[name]

    def _set_totals(self) -> None:
        """Share out what nodes offer: to trees what their roots say, to the default tree the rest."""
        rest = {name: total[0] for name, total in self._node_total.items()}
        for manager in self.managers.values():
            if manager is self.default:
                continue
            total: Amounts = {}
            for quota in manager:
                if quota.definition.tree_total is not None:
                    total = quota.definition.tree_total
                    if not quota.definition.ignores_default_tree:
                        for name, amount in total.items():
                            rest[name] = rest.get(name, 0) - amount
                    break
            manager.set_total(total)
        self.default.set_total(rest)

    # Pods

    def set_pod(self, pod: Pod) -> None:
        """Take over a pod that came or changed."""
        metadata = pod.metadata
        uid = metadata.uid
        counted = self.pods.get(uid)
        if counted is not None and counted.pod.metadata.resource_version == metadata.resource_version != "":
            return
        if metadata.deletion_timestamp is not None and self._is_ignored(pod):
            if counted is not None:
                self._uncount(counted)
                self._after_event(counted.quota.manager)
            return
        self._count(pod, counted)

    def _count(self, pod: Pod, counted: CountedPod | None) -> bool:
        """Count a pod as it is now; answer whether it belongs to another quota than before."""
        quota = self.association.quota_of(pod)
        if quota is None:
            if counted is not None:
                self._uncount(counted)
                self._after_event(counted.quota.manager)
            return counted is not None
        try:
            requests = exact_requests(pod, with_overhead=self._with_overhead)
        except QuantityError:
            return False  # reported where the pod is left out for it
        manager = quota.manager
        fixed = is_non_preemptible(pod)
        is_bound = bool(pod.spec.node_name)
        if (
            counted is not None
            and counted.quota is quota
            and counted.entry.fixed == fixed
            and (counted.requests is requests or counted.requests == requests)
        ):
            was_assigned, before = counted.entry.assigned, counted.pod
            if was_assigned and _victims_differ(before, pod):
                _count_victim(counted, -1)
                counted.pod = pod
                _count_victim(counted, 1)
            counted.pod = pod
            if is_bound and not counted.is_bound:
                counted.is_bound = True
                if not was_assigned:
                    self._assign(counted)
                    self._after_event(manager)
            if self._has_hooks and counted.entry.assigned:
                self.hooks.pod_updated(quota, before if was_assigned else None, pod)
            return False
        assigned = is_bound
        moved = counted is not None and counted.quota is not quota
        if counted is not None:
            assigned = assigned or counted.entry.assigned
            self._uncount(counted)
            if moved and counted.quota.manager is not manager:
                self._after_event(counted.quota.manager)
        made = CountedPod(pod, quota, requests, manager.entry(quota, requests, fixed=fixed))
        made.is_bound = is_bound
        self.pods[made.uid] = quota.pods[made.uid] = made
        manager.kernel.add(made.entry)
        if assigned:
            self._assign(made)
            if self._has_hooks:
                self.hooks.pod_updated(quota, None, pod)
        self._after_event(manager)
        return moved

    def recount(self, pod: Pod) -> None:
        """Count a pod anew, whatever is known of it."""
        counted = self.pods.get(pod.metadata.uid)
        if counted is not None:
            self._uncount(counted)
        self._count(pod, None)

    def remove_pod(self, uid: str) -> None:
        counted = self.pods.get(uid)
        if counted is not None:
            self._uncount(counted)
            self._after_event(counted.quota.manager)

    def _assign(self, counted: CountedPod) -> None:
        counted.quota.manager.kernel.assign(counted.entry)
        _count_victim(counted, 1)

    def _uncount(self, counted: CountedPod) -> None:
        if counted.entry.assigned:
            _count_victim(counted, -1)
            if self._has_hooks:
                self.hooks.pod_updated(counted.quota, counted.pod, None)
        counted.quota.manager.kernel.remove(counted.entry)
        del self.pods[counted.uid], counted.quota.pods[counted.uid]

    def _is_ignored(self, pod: Pod) -> bool:
        """Answer whether a pod that is being deleted counts no longer: at once, or after twice its grace period, by two gates."""
        if self._ignores_terminating_at_once:
            return True
        deleted = pod.metadata.deletion_timestamp
        if not self._ignores_terminating or deleted is None:
            return False
        return self._clock.now() > parse_rfc3339(deleted) + (pod.metadata.deletion_grace_period_seconds or 0)

    def _associate(self, labels: Iterable[str], namespaces: Iterable[str]) -> None:
        """Find out anew to which quotas these pods belong, and let those of them that wait do so under their new quotas."""
        moved = set()
        for key in self.association.concerned(labels, namespaces):
            pod = self._watched_pods.get(key)
            if pod is None or (pod.metadata.deletion_timestamp is not None and self._is_ignored(pod)):
                continue
            counted = self.pods.get(pod.metadata.uid)
            if self._count(pod, counted) or (counted is None and pod.metadata.uid in self.pods):
                moved.add(pod.metadata.uid)
        if moved:
            self.moves += 1
            self._cache.signatures.changed(lambda pod: pod.uid in moved)

    # Reserve

    def reserve(self, pod: PodInfo) -> None:
        counted = self.pods.get(pod.uid)
        if counted is None or counted.entry.assigned:
            return
        self._assign(counted)
        if self._has_hooks:
            self.hooks.pod_updated(counted.quota, None, counted.pod)
        manager = counted.quota.manager
        if not manager.is_noted:
            self._notify(manager)

    def unreserve(self, pod: PodInfo) -> None:
        """Give back what Reserve took, unless the pod is bound. What an undone turn of a group gives back is room for none."""
        counted = self.pods.get(pod.uid)
        if counted is None or counted.is_bound or not counted.entry.assigned:
            return
        manager = counted.quota.manager
        _count_victim(counted, -1)
        if self._has_hooks:
            self.hooks.pod_updated(counted.quota, counted.pod, None)
        if self._cache.table.in_turn:
            manager.kernel.unassign_quietly(counted.entry)
            self._notify(manager)
        else:
            manager.kernel.unassign(counted.entry)
            self._after_event(manager)

    # After events

    def _after_event(self, manager: QuotaManager) -> None:
        """Announce that quotas of the tree may have more room, and let listeners know."""
        if manager.kernel.waiting:
            for row in manager.up_to_date().take_grown():
                self._handle.announce(ROOM_GREW, AdmissionKey(PLUGIN, manager.quota_of(row).name))
        if not manager.is_noted:
            self._notify(manager)

    def _after_event_in_all(self) -> None:
        for manager in self.managers.values():
            self._after_event(manager)

    def _notify(self, manager: QuotaManager) -> None:
        if not manager.is_noted:
            manager.is_noted = bool(self._listeners)
            for listener in self._listeners:
                listener(manager)


def offered_by(node: Node) -> Amounts:
    """Return what a node offers; what is no quantity is reported where the node is left out for it."""
    offered: Amounts = {}
    for name, quantity in node.status.allocatable.items():
        try:
            offered[name] = nano(quantity)
        except (QuantityError, TypeError):
            continue
    return offered


def _victims_differ(before: Pod, after: Pod) -> bool:
    """Answer whether a pod counts otherwise among those that could be evicted."""
    return before.metadata.deletion_timestamp != after.metadata.deletion_timestamp or before.spec.priority != after.spec.priority


def _count_victim(counted: CountedPod, sign: int) -> None:
    """Count an assigned pod among those that could be evicted, or among those that are leaving; sign -1: no longer."""
    quota, pod = counted.quota, counted.pod
    if pod.metadata.deletion_timestamp is not None:
        if sign > 0:
            quota.leaving[counted.uid] = counted
        else:
            quota.leaving.pop(counted.uid, None)
    elif not counted.entry.fixed:
        priority = pod.spec.priority or 0
        left = quota.victims.get(priority, 0) + sign
        if left:
            quota.victims[priority] = left
        else:
            del quota.victims[priority]


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
    def __init__(self, state: QuotaState) -> None:
        self._state = state
        self._association = state.association
        self._latencies = state.latencies
        self._perf = state.perf

    def on_add(self, obj: Pod, _arrival: Arrival) -> None:
        started = self._perf()
        self._association.add_pod(obj, f"{obj.metadata.namespace}/{obj.metadata.name}")
        self._state.set_pod(obj)
        self._latencies.pod_added(self._perf() - started)

    def on_update(self, old: Pod, new: Pod) -> None:
        started = self._perf()
        if old.metadata.labels != new.metadata.labels or old.metadata.uid != new.metadata.uid:
            key = f"{old.metadata.namespace}/{old.metadata.name}"
            self._association.remove_pod(old, key)
            self._association.add_pod(new, key)
            if old.metadata.uid != new.metadata.uid:
                self._state.remove_pod(old.metadata.uid)
        self._state.set_pod(new)
        self._latencies.pod_updated(self._perf() - started)

    def on_delete(self, obj: Pod, _final_state: FinalState) -> None:
        started = self._perf()
        self._association.remove_pod(obj, f"{obj.metadata.namespace}/{obj.metadata.name}")
        self._state.remove_pod(obj.metadata.uid)
        self._latencies.pod_deleted(self._perf() - started)
