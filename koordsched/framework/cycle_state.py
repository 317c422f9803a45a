"""CycleState: what plugins remember from one extension point of a pod's cycle to the next, and what they want written before it is bound.

While the pod's PreBind runs, a plugin notes the annotations and labels that it has decided: of the pod (`annotate`), of Nodes and of
Reservations (`annotate_object`). After PreBind of all plugins the framework hands each object's to the first `PreBindPatchPlugin` that does
not skip, which sends one patch (frameworkext.md §4 item 11); annotations of the pod go with its binding where that can carry them
(`annotate_with_binding`). Later notes of one key replace earlier ones.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from koordsched.api.kinds import POD, RESERVATION, Kind
from koordsched.api.koordinator.reserve_pods import ReservePod
from koordsched.api.meta import Object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod

NO_CHANGES: Mapping[str, str | None] = MappingProxyType({})


class CycleState:
    """A key/value store for one pod's scheduling cycle (framework.md §2.1). Values written by PreFilter and PreScore are shared by all pods
    of a shape and must not be changed; other values belong to this cycle alone."""

    __slots__ = ("_data", "_lent", "sampled")

    def __init__(self) -> None:
        self.sampled = False  # whether plugins are timed in this cycle
        self._data: dict[str, Any] = {}
        self._lent = False  # whether a clone reads the same dict, which must then not be changed

    def write(self, key: str, value: object) -> None:
        if self._lent:
            self._keep_own()
        self._data[key] = value

    def read(self, key: str) -> Any:
        """Return the value, or None when nothing was written."""
        return self._data.get(key)

    def delete(self, key: str) -> None:
        if self._lent:
            self._keep_own()
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """Return a copy that shares the values. Most cycles write nothing of their own, so the dict is copied at the first write."""
        other = CycleState.__new__(CycleState)
        other.sampled = self.sampled
        other._data = self._data
        self._lent = other._lent = True
        return other

    def _keep_own(self) -> None:
        self._data = self._data.copy()
        self._lent = False


Annotations = dict[str, str | None]
"""Values to write by key; None: the annotation, or label, is removed."""

NOTED = "framework/metadata"
WITH_BINDING = "framework/annotations of the binding"


class MetadataChanges(msgspec.Struct, frozen=True):
    """What is to be written to the metadata of one object. `seen` is the object as the plugin that noted it knows it."""

    kind: Kind
    seen: Object
    annotations: Annotations
    labels: Annotations


class _Note(NamedTuple):
    """`target` is None for the pod itself."""

    target: tuple[Kind, Object] | None
    annotations: Annotations
    labels: Annotations


def annotate(state: CycleState, changes: Mapping[str, str | None], labels: Mapping[str, str | None] = NO_CHANGES) -> None:
    """Note annotations and labels to write to the pod; called from `pre_bind`."""
    _note(state, "", None, changes, labels)


def annotate_object(
    state: CycleState, kind: Kind, seen: Object, changes: Mapping[str, str | None], labels: Mapping[str, str | None] = NO_CHANGES
) -> None:
    """Note annotations and labels to write to another object, a Node or a Reservation; called from `pre_bind`."""
    _note(state, f"{kind.plural_group}/{seen.metadata.namespace}/{seen.metadata.name}", (kind, seen), changes, labels)


def _note(
    state: CycleState,
    key: str,
    target: tuple[Kind, Object] | None,
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str | None],
) -> None:
    notes: dict[str, _Note] | None = state.read(NOTED)
    if notes is None:  # as a rule: one plugin notes something
        state.write(NOTED, {key: _Note(target, dict(annotations), dict(labels))})
        return
    known = notes.get(key)
    if known is not None:
        annotations, labels, target = {**known.annotations, **annotations}, {**known.labels, **labels}, known.target
    state.write(NOTED, {**notes, key: _Note(target, dict(annotations), dict(labels))})


def noted_changes(state: CycleState, pod: Pod) -> list[MetadataChanges]:
    """Return what is to be written, each object once and the pod first, whose deletion ends it all; [] when nothing is.

    What was noted of a reserve pod is written to its Reservation.
    """
    notes: dict[str, _Note] | None = state.read(NOTED)
    if not notes:
        return []
    own: tuple[Kind, Object] = (RESERVATION, pod.reservation) if isinstance(pod, ReservePod) else (POD, pod)
    found = [MetadataChanges(*(note.target or own), note.annotations, note.labels) for note in notes.values()]
    return found if len(found) == 1 else sorted(found, key=lambda changes: changes.seen is not own[1])


def annotate_with_binding(state: CycleState, changes: MetadataChanges) -> bool:
    """Leave the annotations of the pod to the plugin that binds it; False: these changes are not such that a binding can carry them."""
    if changes.labels or None in changes.annotations.values():  # a binding removes nothing
        return False
    known, wanted = changes.seen.metadata.annotations, changes.annotations
    state.write(WITH_BINDING, {key: value for key, value in wanted.items() if known.get(key) != value} if known else wanted)
    return True


def annotations_of_binding(state: CycleState) -> dict[str, str]:
    """Return what was left to the plugin that binds the pod."""
    return state.read(WITH_BINDING) or {}
