"""Designated allocations: CPUs and NUMA nodes that another component has chosen for a pod and demands of the scheduler.

nodenumaresource.md §14.

The scheduling-hint annotation says that there is one, the pod's present resource-status says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from koordsched.api.koordinator.pods import RESOURCE_STATUS, resource_status
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.meta import Api
from koordsched.framework.status import Status, error, unresolvable

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched.api.koordinator.pods import PodNumaStatus

SCHEDULING_HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
OLD_SCHEDULING_HINT = "scheduling.koordinator.sh/scheduling-hint"
EXTENSION = "NodeNUMAResource"


class _Hint(Api):
    extensions: dict[str, Any] = field(default_factory=dict)


def designation(annotations: Mapping[str, str]) -> PodNumaStatus | Status | None:
    """Return what is demanded, None when nothing is. A hint that cannot be read is an error, a demand that cannot is unresolvable."""
    key = SCHEDULING_HINT if annotations.get(SCHEDULING_HINT) else OLD_SCHEDULING_HINT
    try:
        hint = read_annotation(annotations, key, _Hint) if annotations.get(key) else None
    except Malformed as malformed:
        return error(str(malformed))
    if hint is None or EXTENSION not in hint.extensions:
        return None
    try:
        status = resource_status(annotations)
    except Malformed as malformed:
        return unresolvable(str(malformed))
    return status if status is not None and (status.cpus or status.amounts) else None


def designation_signature(annotations: Mapping[str, str]) -> Hashable:
    """Return all that `designation` reads; None for a pod without hints."""
    if SCHEDULING_HINT not in annotations and OLD_SCHEDULING_HINT not in annotations:
        return None
    return (annotations.get(SCHEDULING_HINT), annotations.get(OLD_SCHEDULING_HINT), annotations.get(RESOURCE_STATUS))
