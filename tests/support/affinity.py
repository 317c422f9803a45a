"""Affinity between pods for tests: `with_affinity(pod("a"), Near(required=[term("zone", {"app": "web"})]))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from koordsched.api.core import Affinity, Namespace, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from koordsched.api.kinds import NAMESPACE, Kind
from koordsched.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from koordsched.cluster.object_store import ObjectStore
from koordsched.cluster.port import DELETED, MODIFIED, WatchEvent
from support.builders import PodBuilder
from support.plugins import PluginBench
from support.world import World

Weighted = tuple[int, PodAffinityTerm]


class Near(NamedTuple):
    """Terms of podAffinity."""

    required: Sequence[PodAffinityTerm] = ()
    preferred: Sequence[Weighted] = ()


class Far(NamedTuple):
    """Terms of podAntiAffinity."""

    required: Sequence[PodAffinityTerm] = ()
    preferred: Sequence[Weighted] = ()


def selector(labels: Mapping[str, str] | None = None, *expressions: LabelSelectorRequirement) -> LabelSelector:
    return LabelSelector(dict(labels or {}), expressions)


def term(topology_key: str, labels: Mapping[str, str] | LabelSelector | None, **fields: Any) -> PodAffinityTerm:
    """Make a term that means the pods with these labels (None: it has no selector at all); fields are PodAffinityTerm's."""
    meant = labels if labels is None or isinstance(labels, LabelSelector) else selector(labels)
    return PodAffinityTerm(topology_key, meant, **fields)


def with_affinity(builder: PodBuilder, near: Near | None = None, far: Far | None = None) -> PodBuilder:
    """Let the pod have these terms, and its node affinity as before."""
    made = builder.build()
    affinity = replace(made.spec.affinity or Affinity(), pod_affinity=_terms(near), pod_anti_affinity=_terms(far))
    return PodBuilder(replace(made, spec=replace(made.spec, affinity=affinity)))


def _terms(written: Near | Far | None) -> PodAffinity | None:
    if written is None:
        return None
    return PodAffinity(tuple(written.required), tuple(WeightedPodAffinityTerm(weight, each) for weight, each in written.preferred))


class OwnNamespaces:
    """Mixed into a handle: its namespaces are what a test says."""

    _objects: ObjectStore[Any] | None = None
    _changes = 0

    def informer(self, kind: Kind, field_selector: str = "") -> Any:
        """Return a store of namespaces that only `set_namespace` feeds."""
        if kind is not NAMESPACE:
            return super().informer(kind, field_selector)  # type: ignore[misc]
        if self._objects is None:
            self._objects = ObjectStore(kind.plural_group)
        return self._objects

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Let the namespace have these labels; None: let it go."""
        self._changes += 1
        meta = ObjectMeta(name=name, uid=f"uid-{name}", resource_version=str(self._changes), labels=dict(labels or {}))
        self.informer(NAMESPACE).apply(WatchEvent(DELETED if labels is None else MODIFIED, Namespace(metadata=meta)))


class NamespacedWorld(OwnNamespaces, World):
    """A node table with a profile."""


class NamespacedBench(OwnNamespaces, PluginBench):
    """A plugin among nodes."""
