"""Which pods belong together when a pod says nothing itself: the Services that select it and its controller (framework.md §10.10).

Answers are remembered by namespace until one of its Services or controllers changes what it selects, so that a pod costs one lookup.
Reference: plugins/helper/spread.go (DefaultSelector) of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from koordsched.api.apps import ReplicaSet, ReplicationController, StatefulSet
from koordsched.api.core import Service
from koordsched.api.kinds import REPLICA_SET, REPLICATION_CONTROLLER, SERVICE, STATEFUL_SET
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors import EVERYTHING, SelectorError, label_selector_matcher, map_matcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.meta import Object, ObjectMeta
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.framework.handle import Handle

Owner = tuple[str, str, str]  # apiVersion, kind, name
Asked = tuple[tuple[tuple[str, str], ...], Owner | None]  # a pod's labels (none when no Service looks at them) and owner

T = TypeVar("T", bound="Service | ReplicaSet | ReplicationController | StatefulSet")

KEPT_ANSWERS = 4096  # a namespace: pods of a StatefulSet differ in their labels, so there may be as many as pods

CONTROLLERS = {(kind.api_version, kind.kind): kind for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET)}


class Belonging:
    """Finds the selector of the pods that a pod belongs with."""

    def __init__(self, handle: Handle) -> None:
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # namespace -> name -> selector, without those that select nothing
        self._answers: dict[str, dict[Asked, LabelSelectorMatcher | None]] = {}
        self.changes = 0  # grows whenever an answer may be another one
        self._controllers = {key: handle.informer(kind) for key, kind in CONTROLLERS.items()}
        handle.informer(SERVICE).add_handler(_Watcher[Service](self._service_changed))
        for informer in self._controllers.values():
            informer.add_handler(_Watcher(self._controller_changed))

    def concerns(self, meta: ObjectMeta) -> bool:
        """Answer whether anything may select a pod or own it. O(1) where there are neither Services nor owners."""
        return bool(meta.owner_references) or meta.namespace in self._services

    def selector(self, meta: ObjectMeta) -> LabelSelectorMatcher | None:
        """Return what selects the pods that the pod belongs with, None when nothing does. One lookup for a pod like an earlier one."""
        services = self._services.get(meta.namespace)
        asked = (tuple(meta.labels.items()) if services else (), controller_of(meta))
        answers = self._answers.setdefault(meta.namespace, {})
        if asked in answers:
            return answers[asked]
        if len(answers) >= KEPT_ANSWERS:
            answers.clear()
        answers[asked] = found = self._merge(meta, asked[1])
        return found

    def _merge(self, meta: ObjectMeta, owner: Owner | None) -> LabelSelectorMatcher | None:
        merged: dict[str, str] = {}
        for selector in self._services.get(meta.namespace, {}).values():
            if selector.items() <= meta.labels.items():
                merged.update(selector)
        others: list[LabelSelectorRequirement] = []
        controller = self._controller(meta.namespace, owner)
        if isinstance(controller, ReplicationController):
            merged.update(controller.spec.selector)
        elif controller is not None:
            others = _requirements(controller)
        found = map_matcher(merged)
        for requirement in others:
            found = found.with_requirement(requirement)
        return None if found == EVERYTHING else found

    def _controller(self, namespace: str, owner: Owner | None) -> ReplicaSet | StatefulSet | ReplicationController | None:
        informer = self._controllers.get(owner[:2]) if owner else None
        return None if informer is None or owner is None else informer.store.get(f"{namespace}/{owner[2]}")

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
        self._answers.pop(meta.namespace, None)

    def _controller_changed(self, old: Object | None, new: Object | None) -> None:
        self.changes += 1
        for changed in (old, new):
            if changed is not None:
                self._answers.pop(changed.metadata.namespace, None)


class _Watcher(Generic[T]):
    """Tells of objects whose selector came, went or changed, as (old, new)."""

    def __init__(self, tell: Callable[[T | None, T | None], None]) -> None:
        self._tell = tell

    def on_add(self, obj: T, _arrival: Arrival) -> None:
        self._tell(None, obj)

    def on_update(self, old: T, new: T) -> None:
        if old.spec.selector != new.spec.selector:
            self._tell(old, new)

    def on_delete(self, obj: T, _final_state: FinalState) -> None:
        self._tell(obj, None)


def controller_of(meta: ObjectMeta) -> Owner | None:
    """Return who controls the pod."""
    return next(((owner.api_version, owner.kind, owner.name) for owner in meta.owner_references if owner.controller), None)


def _requirements(controller: ReplicaSet | StatefulSet) -> list[LabelSelectorRequirement]:
    """Return what the controller's selector requires: nothing when there is none, or when it cannot be understood."""
    try:
        matcher = label_selector_matcher(controller.spec.selector)
    except SelectorError:
        return []
    return [*(LabelSelectorRequirement(key, "In", (value,)) for key, value in matcher.equal), *matcher.others]
