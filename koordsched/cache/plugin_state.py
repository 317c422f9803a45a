"""What plugins keep beside the cache, and how that stays true.

- `PodFollower`: facts that depend on which pods are counted on which rows. `Cache.follow` reports every change of these to it.
- `CheckedState`: facts about nodes, which the standing check compares with the objects. A plugin puts it on `Cache.checked`.
- `Signatures`: a plugin that signs pods differently from now on says so here.
- `Shared`: what several plugins, or plugins of several profiles, keep together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from koordsched.api.podinfo import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koordsched._core.view import Part

T = TypeVar("T")

PodsByRow = Mapping[int, "Sequence[PodInfo]"]
"""Pods of some rows: each is counted on its row."""


class PodFollower(Protocol):
    """Keeps facts that depend on which pods are counted on which rows. Each method is called right after the cache has made the change.

    While `cache.simulating` is set the change is a simulation that will be taken back before anything else happens: facts must follow it,
    but versions of facts must not, since afterwards everything is as it was. A class that derives from this one hides pods from owners of
    credits by such simulations.
    """

    hides: ClassVar[bool] = True
    """Whether views of owners of credits change anything that is kept here; no: `without` is not called."""

    def pod_added(self, pod: PodInfo, row: int) -> None: ...

    def pod_removed(self, pod: PodInfo, row: int) -> None: ...

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """The node of a pod that was counted on the row of unknown nodes has become known, and has a row of its own."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """An assumed pod was seen bound, or a bound one changed in nothing that columns hold; labels and deletionTimestamp may differ."""

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        """Return what hides these pods of each row and restores them, for views of owners of credits; no entry where they are nothing here.

        Asked again about a row whenever it has changed, so that the answer may hold what there is to hide and restore. O(these pods); of
        many thousand rows most have pods that are nothing to most followers, so these are to be passed over quickly.
        """
        return [(row, RemovedPods(self, of_row, row)) for row, of_row in pods.items()]

    def counts_alone(self, pod: PodInfo, row: int) -> bool:
        """Answer whether `without` has nothing to hide of a pod on its row, or counts alone (`RowView.counts_alone`).

        Followers answer that from what they know: it is asked for every pod that names a reservation, and `without` takes microseconds.
        """
        return all(part.counts_alone for _, part in self.without({row: (pod,)}))


class RemovedPods:
    """Hides pods from a follower as a simulation does: they are removed, and added again."""

    counts_alone = False

    def __init__(self, follower: PodFollower, pods: Sequence[PodInfo], row: int) -> None:
        self._follower = follower
        self._pods = pods
        self._row = row

    def hide(self) -> None:
        for pod in self._pods:
            self._follower.pod_removed(pod, self._row)

    def restore(self) -> None:
        for pod in reversed(self._pods):
            self._follower.pod_added(pod, self._row)


def with_volumes(pods: PodsByRow) -> PodsByRow:
    """Return the same of the pods that have volumes."""
    rows = [row for row, of_row in pods.items() for pod in of_row if pod.volumes is not None]
    return {row: [pod for pod in pods[row] if pod.volumes is not None] for row in rows}


class StateDifference(NamedTuple):
    """A fact that is another than the objects say."""

    column: str
    cached: Any
    actual: Any


class CheckedState(Protocol):
    """State about nodes that follows from the cluster's objects and from what is reserved for assumed pods.

    `scheduler.debugger` asks for one node at a time, between two awaits, whether it does, and mends what does not.
    """

    @property
    def name(self) -> str:
        """The plugin's name."""

    def names(self) -> Iterable[str]:
        """Return the names of all nodes of which something is kept."""

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Compare what is kept of a node with its objects and with the pods that the cache counts there. O(facts of the node).

        What is reserved for an assumed pod is known here only, and right.
        """

    def rebuild(self, node: str) -> None:
        """Derive anew what is kept of a node, but for what is reserved for assumed pods, and log the change of its row."""


Concerns = Callable[[PodInfo], bool]
"""Answers whether a pod's signature may differ from what it was."""


Need = tuple[str, ...]
"""What a pod has: a label as (key, value), or its name, uid, or the name or uid of one of its owners as ("", kind, value)."""

NAME, UID, OWNER_NAME, OWNER_UID = "name", "uid", "owner name", "owner uid"
"""The kinds of a Need that is no label."""


class PodsWith:
    """Concerns that only pods can be of which one need at least holds: the pods that wait are found by it."""

    def __init__(self, needs: Collection[Need], concerns: Concerns) -> None:
        self.needs = needs
        self._concerns = concerns

    def __call__(self, pod: PodInfo) -> bool:
        return self._concerns(pod)


class Signatures:
    """Calls to make when pods are signed differently.

    What a plugin signs of a pod may depend on what it has seen: labels, for instance, matter from the moment on when a selector names them.
    A plugin that widens its signatures calls `changed` before it gives another answer because of it; pods that wait are then signed again.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[Concerns], None]] = []

    def call(self, hook: Callable[[Concerns], None]) -> None:
        """Call the hook after every change."""
        self._calls.append(hook)

    def changed(self, concerns: Concerns) -> None:
        for hook in self._calls:
            hook(concerns)


class Shared:
    """At most one object of each class, made once, and gone when the cache is."""

    def __init__(self) -> None:
        self._objects: dict[type, object] = {}

    def one(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the object of this class, made by the first call for it."""
        found = self._objects.get(kind)
        if found is None:
            found = self._objects[kind] = make()
        assert isinstance(found, kind)
        return found

    def find(self, kind: type[T]) -> T | None:
        """Return the object of this class, None where no plugin has made it."""
        found = self._objects.get(kind)
        assert found is None or isinstance(found, kind)
        return found
