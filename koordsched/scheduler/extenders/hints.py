"""Which events retry a pod that an extender refused: all of them, since nobody knows what it looks at (framework.md §3.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.queue.events import EventHint, EventResource, QueueingHint
from koordsched.queue.hints import ALWAYS_QUEUE

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo


def _unless_only_told(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Skip the update by which the scheduler itself told the pod why it waits: the pod would be tried again for nothing else."""
    if not isinstance(old, Pod) or not isinstance(new, Pod) or new.metadata.uid != pod.uid:
        return QueueingHint.QUEUE
    same = (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.status.nominated_node_name == new.status.nominated_node_name
    )
    return QueueingHint.SKIP if same else QueueingHint.QUEUE


HINTS = tuple(EventHint(known.event, _unless_only_told) if known.event.resource is EventResource.POD else known for known in ALWAYS_QUEUE)
