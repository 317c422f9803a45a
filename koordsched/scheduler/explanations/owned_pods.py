"""OwnedPods: which pods a job has, by its namespace and name, so that a question about one costs no walk over all pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.cluster.object_store import Arrival, object_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Pod
    from koordsched.cluster.object_store import FinalState


class OwnedPods:
    """A handler of pods. It is added when a job is asked about for the first time: most clusters need not keep it."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, None]] = {}  # keys of pods by their owner's namespace/name, in the order in which they came

    def of(self, owner: str) -> list[str]:
        """Return the keys of the pods that this namespace/name owns."""
        return list(self._pods.get(owner, ()))

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        for owner in owners_of(pod):
            self._pods.setdefault(owner, {})[object_key(pod)] = None

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.owner_references != new.metadata.owner_references:
            self._drop(old)
            self.on_add(new, Arrival.LATER)

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._drop(pod)

    def _drop(self, pod: Pod) -> None:
        for owner in owners_of(pod):
            keys = self._pods.get(owner, {})
            keys.pop(object_key(pod), None)
            if not keys:
                self._pods.pop(owner, None)


def owners_of(pod: Pod) -> Iterable[str]:
    return {f"{pod.metadata.namespace}/{reference.name}" for reference in pod.metadata.owner_references}
