"""The scheduling hint of a pod: the annotation by which a queueing layer says where it should go (frameworkext.md §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from koordsched.api.koordinator.reading import read_annotation
from koordsched.api.meta import Api

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEDULING_HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
OLD_SCHEDULING_HINT = "scheduling.koordinator.sh/scheduling-hint"


class PodSchedulingHint(Api):
    node_names: tuple[str, ...] = ()  # the only nodes that the pod may go to; none: all
    preferred_node_names: tuple[str, ...] = ()  # the best first
    extensions: dict[str, Any] = field(default_factory=dict)  # for plugins, by name


def scheduling_hint(annotations: Mapping[str, str]) -> PodSchedulingHint | None:
    """Return the pod's hint; the deprecated key counts where the other one is absent or empty. Malformed when that which counts is."""
    key = SCHEDULING_HINT if annotations.get(SCHEDULING_HINT) else OLD_SCHEDULING_HINT
    return read_annotation(annotations, key, PodSchedulingHint) if annotations.get(key) else None
