"""Default constraints, for pods that have none: the configuration's, or the system's, over the pods that the default selector selects.

The default selector of a pod is merged from the Services that select it and its controller's selector. It is kept by namespace until one of
the namespace's Services or controllers selects other pods, so that a pod costs one lookup.

`sign` groups pods by what they have themselves (their controller). What Services and controllers select may change later, and differ within
such a group; the plugin's versions say so, since each selector has `SpreadCounts` of its own.
Reference: plugins/helper/spread.go (DefaultSelector), plugins/podtopologyspread/common.go and plugin.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from koordsched.api.core import Service, TopologySpreadConstraint
from koordsched.api.groups import ReplicaSet, ReplicationController, StatefulSet
from koordsched.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors import EVERYTHING, SelectorError, label_selector_matcher, map_matcher
from koordsched.plugins.podtopologyspread.constraints import (
    HARD,
    HONOR,
    HOSTNAME,
    SOFT,
    ZONE,
    pod_constraints,
    required_nodes,
    spread_constraint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from koordsched.api.core import Pod
    from koordsched.api.meta import Object, ObjectMeta
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.args import PodTopologySpreadArgs
    from koordsched.framework.handle import Handle
    from koordsched.plugins.podtopologyspread.constraints import PodSpreadConstraints
    from koordsched.plugins.podtopologyspread.eligible_domains import SpreadCounts, SpreadCountsCache

SYSTEM = "System"
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

CONTROLLERS = {(kind.api_version, kind.kind): kind for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)}

KEPT_SELECTORS = 4096  # a namespace: pods of a StatefulSet differ in their labels, so there may be as many as pods

Owner = tuple[str, str, str]  # apiVersion, kind, name
SelectorKey = tuple[tuple[tuple[str, str], ...], Owner | None]  # a pod's labels (none without Services) and owner

T = TypeVar("T", bound="Service | ReplicaSet | ReplicationController | StatefulSet")


class DefaultConstraints:
    """The default constraints of a profile. `concern` answers whether they may count anything for a pod, at the cost of two look-ups."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle, counts: SpreadCountsCache) -> None:
        self._system = args.defaulting_type == SYSTEM
        self._counts = counts
        written = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._hard = [each for each in written if each.when_unsatisfiable == HARD]
        self._soft = [each for each in written if each.when_unsatisfiable == SOFT]
        self._honors_taints = any(each.node_taints_policy == HONOR for each in written)
        self._selectors = DefaultSelectors(handle) if written else None
        self._last: tuple[Pod | None, int, SpreadCounts | None] = (None, 0, None)  # the last pod, at which change, and its counts
        self.have_hard = bool(self._hard)
        self.concern: Callable[[ObjectMeta], bool] = self._selectors.concern if self._selectors is not None else lambda _: False

    def sign(self, pod: Pod) -> Hashable:
        """Return what is read of a pod without constraints, if defaults are hard or `concern` it; None: nothing counts for it."""
        if self._selectors is None:
            return None
        meta, owner = pod.metadata, controller_of(pod.metadata)
        group = owner if owner is not None and owner[:2] in CONTROLLERS else self._selectors.selector(meta)
        labels = tuple(sorted(meta.labels.items())) if self.have_hard else ()
        return None if group is None and not labels else (meta.namespace, group, labels, self._sign_nodes(pod))

    def counts(self, pod: Pod) -> SpreadCounts | None:
        """Return the counts of a pod without constraints, None when it has no default selector. Called several times in a cycle."""
        if self._selectors is None or not self.concern(pod.metadata):
            return None
        last, changes, found = self._last
        if last is not pod or changes != self._selectors.changes:
            found = self._find(pod, self._selectors)
            self._last = pod, self._selectors.changes, found
        return found

    def constraints(self, pod: Pod) -> PodSpreadConstraints | None:
        """Return the constraints that a pod without constraints gets, None when it has no default selector."""
        selector = None if self._selectors is None or not self.concern(pod.metadata) else self._selectors.selector(pod.metadata)
        return None if selector is None else self._constraints(pod, selector)

    def _find(self, pod: Pod, selectors: DefaultSelectors) -> SpreadCounts | None:
        meta = pod.metadata
        selector = selectors.selector(meta)
        if selector is None:
            return None
        counts_itself = not self.have_hard or selector.matches(meta.labels)
        key = (meta.namespace, selector, counts_itself, self._sign_nodes(pod))
        return self._counts.get(key, lambda: self._constraints(pod, selector))

    def _sign_nodes(self, pod: Pod) -> Hashable:
        """Return what is read of where the pod may go."""
        spec = pod.spec
        if not spec.node_selector and spec.affinity is None and not self._honors_taints:
            return None
        return tuple(sorted(spec.node_selector.items())), required_nodes(pod), spec.tolerations if self._honors_taints else ()

    def _constraints(self, pod: Pod, selector: LabelSelectorMatcher) -> PodSpreadConstraints:
        meta = pod.metadata
        namespaces = frozenset({meta.namespace})
        hard = [spread_constraint(each, namespaces, selector, meta.labels) for each in self._hard]
        soft = [spread_constraint(each, namespaces, selector, meta.labels) for each in self._soft]
        return pod_constraints(pod, hard, soft, require_all_keys=not self._system)


class DefaultSelectors:
    """The default selectors of pods, kept up to date by informers."""

    def __init__(self, handle: Handle) -> None:
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # namespace -> name -> selector, without those that select nothing
        self._kept: dict[str, dict[SelectorKey, LabelSelectorMatcher | None]] = {}
        self.changes = 0  # grows whenever a pod may have another selector
        self._controllers = {key: handle.informer(kind) for key, kind in CONTROLLERS.items()}
        handle.informer(SERVICE).add_handler(_SelectorHandler[Service](self._service_changed))
        for informer in self._controllers.values():
            informer.add_handler(_SelectorHandler(self._controller_changed))

    def concern(self, meta: ObjectMeta) -> bool:
        """Answer whether anything may select a pod or own it. O(1) where there are neither Services nor owners."""
        return bool(meta.owner_references) or meta.namespace in self._services

    def selector(self, meta: ObjectMeta) -> LabelSelectorMatcher | None:
        """Return a pod's default selector, None when nothing selects or owns it. One lookup for a pod like an earlier one."""
        services = self._services.get(meta.namespace)
        key = (tuple(meta.labels.items()) if services else (), controller_of(meta))
        kept = self._kept.setdefault(meta.namespace, {})
        if key in kept:
            return kept[key]
        if len(kept) >= KEPT_SELECTORS:
            kept.clear()
        kept[key] = found = self._merge(meta, key[1])
        return found

    def _merge(self, meta: ObjectMeta, owner: Owner | None) -> LabelSelectorMatcher | None:
        merged: dict[str, str] = {}
        for selector in self._services.get(meta.namespace, {}).values():
            if selector.items() <= meta.labels.items():
                merged.update(selector)
        others: list[LabelSelectorRequirement] = []
        informer = self._controllers.get(owner[:2]) if owner else None
        controller = None if informer is None or owner is None else informer.store.get(f"{meta.namespace}/{owner[2]}")
        if isinstance(controller, ReplicationController):
            merged.update(controller.spec.selector)
        elif controller is not None:
            others = _requirements(controller)
        found = map_matcher(merged)
        for requirement in others:
            found = found.with_requirement(requirement)
        return None if found == EVERYTHING else found

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        self.changes += 1
        meta = (new or old or Service()).metadata
        services = self._services.setdefault(meta.namespace, {})
        if new is not None and new.spec.selector:
            services[meta.name] = new.spec.selector
        else:
            services.pop(meta.name, None)
        if not services:
            del self._services[meta.namespace]
        self._kept.pop(meta.namespace, None)

    def _controller_changed(self, old: Object | None, new: Object | None) -> None:
        self.changes += 1
        for changed in (old, new):
            if changed is not None:
                self._kept.pop(changed.metadata.namespace, None)


class _SelectorHandler(Generic[T]):
    """An informer's handler that calls `changed` with (old, new) for objects whose selector came, went or changed."""

    def __init__(self, changed: Callable[[T | None, T | None], None]) -> None:
        self._changed = changed

    def on_add(self, obj: T, _arrival: Arrival) -> None:
        self._changed(None, obj)

    def on_update(self, old: T, new: T) -> None:
        if old.spec.selector != new.spec.selector:
            self._changed(old, new)

    def on_delete(self, obj: T, _final_state: FinalState) -> None:
        self._changed(obj, None)


def controller_of(meta: ObjectMeta) -> Owner | None:
    """Return the owner that controls the pod."""
    return next(((owner.api_version, owner.kind, owner.name) for owner in meta.owner_references if owner.controller), None)


def _requirements(controller: ReplicaSet | StatefulSet) -> list[LabelSelectorRequirement]:
    """Return what the controller's selector requires: nothing when it has none or an invalid one."""
    try:
        matcher = label_selector_matcher(controller.spec.selector)
    except SelectorError:
        return []
    return [*(LabelSelectorRequirement(key, "In", (value,)) for key, value in matcher.equal), *matcher.others]
