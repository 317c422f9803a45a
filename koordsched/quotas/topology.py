"""What admission knows: quotas by name, since names are unique in a cluster, with their children and the namespaces they list; and pods.

The holder of a `QuotaTopology` sets what watches report, and may set at once what it has admitted, so that the next quota is judged by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.quota_definitions import (
    GUARANTEED,
    IS_ROOT,
    PREFIX,
    QUOTA_NAME,
    TRUE,
    Amounts,
    QuotaDefinition,
    annotated_amounts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quotas import ElasticQuota

ALLOW_FORCE_UPDATE = PREFIX + "allow-force-update"


class AdmittedQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A quota as the rules see it. is_forced: its min is not compared with others'. guaranteed: what the scheduler wrote."""

    name: str
    namespace: str
    definition: QuotaDefinition
    is_tree_root: bool
    is_forced: bool
    guaranteed: Amounts

    @classmethod
    def of(cls, quota: ElasticQuota) -> AdmittedQuota:
        """Read an object; what cannot be read counts as `QuotaDefinition` says."""
        labels, unread = quota.metadata.labels, list[str]()
        return cls(
            name=quota.metadata.name,
            namespace=quota.metadata.namespace,
            definition=QuotaDefinition.read(quota, unread),
            is_tree_root=labels.get(IS_ROOT) == TRUE,
            is_forced=labels.get(ALLOW_FORCE_UPDATE) == TRUE,
            guaranteed=annotated_amounts(quota.metadata.annotations, GUARANTEED, unread) or {},
        )


class QuotaTopology:
    """Quotas by name; of objects with one name the one that was set last counts."""

    def __init__(self) -> None:
        self._quotas: dict[str, AdmittedQuota] = {}
        self._children: dict[str, set[str]] = {}  # by what is written as parent
        self._namespaces: dict[str, set[str]] = {}  # the names of quotas that list a namespace

    def __iter__(self) -> Iterator[AdmittedQuota]:
        return iter(self._quotas.values())

    def get(self, name: str) -> AdmittedQuota | None:
        return self._quotas.get(name)

    def set(self, quota: ElasticQuota) -> AdmittedQuota:
        """Take over a quota as it is now."""
        self.remove(quota.metadata.name)
        admitted = AdmittedQuota.of(quota)
        self._quotas[admitted.name] = admitted
        self._children.setdefault(admitted.definition.parent, set()).add(admitted.name)
        for namespace in admitted.definition.namespaces:
            self._namespaces.setdefault(namespace, set()).add(admitted.name)
        return admitted

    def remove(self, name: str) -> None:
        known = self._quotas.pop(name, None)
        if known is not None:
            self._children[known.definition.parent].discard(name)
            for namespace in known.definition.namespaces:
                self._namespaces[namespace].discard(name)

    def children(self, name: str) -> list[AdmittedQuota]:
        """Return the quotas that name this one as their parent, by name; it need not be known itself."""
        return [self._quotas[child] for child in sorted(self._children.get(name, ()))]

    def lists(self, namespace: str) -> list[str]:
        """Return the names of the quotas that list the namespace, sorted: the first one has its pods (elasticquota.md DEV-10)."""
        return sorted(self._namespaces.get(namespace, ()))

    def is_own_ancestor(self, quota: AdmittedQuota) -> bool:
        """Answer whether the parents of a quota, known or not yet, lead back to it."""
        above, seen = quota.definition.parent, set[str]()
        while above != quota.name:
            found = self._quotas.get(above)
            if found is None or above in seen:
                return False
            seen.add(above)
            above = found.definition.parent
        return True


class PodsOfQuotas:
    """The pods of a cluster, by the label that names a quota and by namespace."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._labelled: dict[str, dict[tuple[str, str], None]] = {}
        self._namespaces: dict[str, int] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        metadata = pod.metadata
        self._namespaces[metadata.namespace] = self._namespaces.get(metadata.namespace, 0) + 1
        if label := metadata.labels.get(QUOTA_NAME):
            self._labelled.setdefault(label, {})[metadata.namespace, metadata.name] = None

    def labelled(self, quota: str) -> Sequence[str]:
        """Return the names of the pods that name the quota in their label, sorted by namespace and name."""
        return [name for _, name in sorted(self._labelled.get(quota, ()))]

    def are_there(self, quota: str, namespaces: Iterable[str]) -> bool:
        """Answer whether the quota may have pods: labelled ones, or any in the namespace of its name or in one that it lists."""
        return bool(self._labelled.get(quota)) or any(self._namespaces.get(namespace) for namespace in (quota, *namespaces))
