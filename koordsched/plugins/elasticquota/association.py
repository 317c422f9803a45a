"""Which quota a pod belongs to (elasticquota.md §4): the first rule that matches decides, and a quota that is not known is the default one.

1. the label, whatever else is true; 2. the quota whose name and namespace are the pod's namespace; 3. a quota that lists the pod's
namespace, of several the first by name (DEV-10); 4. the default quota. With the gate DisableDefaultQuota there is the label alone.

Pods are indexed by label or namespace, whichever decides about them, so that a change of a quota costs what its own pods cost. Those whose
label names a quota that is known are that quota's, and need no place in the index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import DEFAULT_QUOTA, QUOTA_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.plugins.elasticquota.manager import Quota


class PodAssociation:
    """The rules over the quotas that are known, and by label and by namespace the pods that a quota which comes or changes may concern."""

    def __init__(self, quotas: Mapping[str, Quota], *, label_only: bool) -> None:
        self._quotas = quotas
        self._label_only = label_only
        self._listed: dict[str, list[str]] = {}  # by namespace: the names of the quotas that list it, sorted
        self._by_label: dict[str, dict[str, None]] = {}  # uids of pods whose label names no known quota
        self._by_namespace: dict[str, dict[str, None]] = {}  # of those without a label

    def quota_of(self, pod: Pod) -> Quota | None:
        """Return the pod's quota; None: it has none, and nothing limits it."""
        label = pod.metadata.labels.get(QUOTA_NAME)
        if self._label_only:
            return self._quotas.get(label) if label else None
        if label:
            return self._quotas.get(label) or self._quotas[DEFAULT_QUOTA]
        namespace = pod.metadata.namespace
        own = self._quotas.get(namespace)
        if own is not None and own.obj is not None and own.obj.metadata.namespace == namespace:
            return own
        for name in self._listed.get(namespace, ()):
            found = self._quotas.get(name)
            if found is not None:
                return found
        return self._quotas[DEFAULT_QUOTA]

    # Quotas

    def set_namespaces(self, quota: str, before: Iterable[str], after: Iterable[str]) -> set[str]:
        """Take over which namespaces a quota lists; return those that it did not list before or lists no longer."""
        old, new = set(before), set(after)
        for namespace in old - new:
            self._listed[namespace].remove(quota)
            if not self._listed[namespace]:
                del self._listed[namespace]
        for namespace in new - old:
            self._listed[namespace] = sorted([*self._listed.get(namespace, ()), quota])
        return old ^ new

    # Pods

    def add_pod(self, pod: Pod, quota: Quota | None) -> None:
        """Index a pod. quota: to which it belongs."""
        label = pod.metadata.labels.get(QUOTA_NAME)
        if label and quota is not None and label == quota.name:
            return
        pods, name = (self._by_label, label) if label else (self._by_namespace, pod.metadata.namespace)
        among = pods.get(name)
        if among is None:
            pods[name] = {pod.metadata.uid: None}
        else:
            among[pod.metadata.uid] = None

    def remove_pod(self, pod: Pod, quota: Quota | None) -> None:
        """Forget a pod as it was indexed: with these labels, while it belonged to this quota."""
        label = pod.metadata.labels.get(QUOTA_NAME)
        if label and quota is not None and label == quota.name:
            return
        pods, name = (self._by_label, label) if label else (self._by_namespace, pod.metadata.namespace)
        among = pods.get(name, {})
        among.pop(pod.metadata.uid, None)
        if not among:
            pods.pop(name, None)

    def concerned(self, labels: Iterable[str], namespaces: Iterable[str]) -> list[str]:
        """Return the uids of indexed pods: those with one of these labels, and those without a label in one of these namespaces."""
        found = [uid for label in labels for uid in self._by_label.get(label, ())]
        return found + [uid for namespace in namespaces for uid in self._by_namespace.get(namespace, ())]
