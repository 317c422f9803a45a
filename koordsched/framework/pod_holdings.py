"""What pods hold of their nodes beside amounts (CPUs, devices), and how reservations lend it to the pods that may have it.

The part that states of plugins have in common (`plugins.nodenumaresource.state`, `plugins.deviceshare.state`). What a pod holds is found by
its uid, follows the cache, and is set aside while a simulation has removed the pod. A reservation holds of what it was given what the pods
that draw on it have left (`Cache.credits`), so that nothing is counted twice; while a pod is given its part it may lend all that (`lend`),
and holds again what is left afterwards (`share`). A pod that a reservation takes over lends in the same way.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from koordsched.cache.plugin_state import PodFollower

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache


class HeldByPod(Protocol):
    """What one pod holds."""

    @property
    def uid(self) -> str: ...


H = TypeVar("H", bound=HeldByPod)


class PodHoldings(PodFollower, Generic[H]):
    """What all pods hold, by the names of their nodes. A plugin's state derives from this and counts it."""

    annotation: str
    """The annotation of a bound pod that says what it holds."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._where: dict[str, str] = {}  # by uid: the node where the pod's part is counted
        self._aside: dict[str, H] = {}  # by uid: of pods that a simulation has removed
        self.given: dict[str, H] = {}  # by uid: all that reservations hold; what owners took of it they hold. For others to read only
        self.compiled_left: dict[str, Any] = {}  # by uid, for kernels: what a reservation has left, as far as it was asked for
        self._lent: dict[str, tuple[str, H]] = {}  # by uid: of pods that are being taken over, with their node
        cache.credits.call_when_drawn(lambda _pod, placeholder: self.share(placeholder))

    # What a plugin counts

    @abstractmethod
    def held_by(self, uid: str) -> H | None:
        """Return what the pod holds."""

    @abstractmethod
    def left_of(self, whole: H) -> H:
        """Return what the pods that draw on a reservation have left of all that it holds. O(what they and it hold)."""

    @abstractmethod
    def compile_left(self, uid: str) -> Any:
        """Return what a reservation that was given something has left, as kernels read it; to be kept in `compiled_left`."""

    @abstractmethod
    def _is_nothing(self, held: H) -> bool:
        """Answer whether this needs no counting."""

    @abstractmethod
    def _put(self, name: str, held: H) -> None:
        """Count this on the node, for a pod that holds nothing."""

    @abstractmethod
    def _take(self, name: str, uid: str) -> H:
        """Count what the pod holds on the node no longer, and return it."""

    @abstractmethod
    def _hold(self, name: str, held: H) -> None:
        """Let the pod hold this on the node, instead of what it held."""

    @abstractmethod
    def _read(self, pod: PodInfo, row: int) -> None:
        """Count what the annotation of a bound pod says."""

    @abstractmethod
    def _forget_unknown(self, name: str) -> None:
        """Forget the node if nothing is known of it any more."""

    # Deciding

    def location(self, uid: str) -> str:
        """Return the node on which the pod's part is counted, "" for none."""
        return self._where.get(uid, "")

    def reserve(self, node_name: str, held: H) -> None:
        """Let the pod hold this on the node, instead of what it held. Holding nothing is not kept: no restart would know of it."""
        self._hold(node_name, held)
        self._share_of(held.uid)

    def release(self, uid: str) -> None:
        """Let the pod hold nothing; a pod that holds nothing is left alone."""
        name = self._where.get(uid)
        if name is not None:
            self._take(name, uid)
            self._share_of(uid)
            self._forget_unknown(name)

    # Reservations

    def is_reserved(self, uid: str) -> bool:
        """Answer whether this is a reservation that was given something."""
        return uid in self.given

    def _set_given(self, uid: str, whole: H) -> None:
        self.given[uid] = whole
        self.compiled_left.pop(uid, None)

    def _forget_given(self, uid: str) -> None:
        self.given.pop(uid, None)
        self.compiled_left.pop(uid, None)

    def left(self, placeholder: str) -> H | None:
        """Return what a reservation has left, None for one that was given nothing."""
        whole = self.given.get(placeholder)
        return None if whole is None else self.left_of(whole)

    def compiled(self, placeholder: str) -> Any:
        """Return what a reservation has left as kernels read it, None for one that was given nothing."""
        if placeholder not in self.given:
            return None
        found = self.compiled_left.get(placeholder)
        if found is None:
            found = self.compiled_left[placeholder] = self.compile_left(placeholder)
        return found

    def lend(self, uid: str) -> H | None:
        """Let a reservation, or a pod that one takes over, hold nothing until `share`, so that others can be given of it; what it has."""
        if self.held_by(uid) is not None:
            name = self._where[uid]
            taken = self._take(name, uid)
            if uid not in self.given:
                self._lent[uid] = (name, taken)
        lent = self._lent.get(uid)
        return self.left(uid) if lent is None else lent[1]

    def lend_all(self, uid: str) -> None:
        """Let what a reservation was given be all that it holds, and its pods hold part of it: after `share` of these and of itself."""
        whole = self.held_by(uid)
        if whole is not None:
            self._set_given(uid, whole)
            self.lend(uid)

    def share(self, uid: str) -> None:
        """Let a reservation hold what the pods that draw on it have left, and a pod what it lent."""
        self.compiled_left.pop(uid, None)
        lent = self._lent.pop(uid, None)
        if lent is not None:
            self._put(*lent)
            return
        left, counted = self.left(uid), self._cache.pods.get(uid)
        if left is None or counted is None or (counted.node.hidden is not None and uid in counted.node.hidden):
            return
        if not self._is_nothing(left):
            self._hold(counted.node.name, left)
        elif uid in self._where:
            name = self._where[uid]
            self._take(name, uid)
            self._forget_unknown(name)

    def _share_of(self, uid: str) -> None:
        placeholder = self._cache.credits.drawn_from(uid)
        if placeholder is not None:
            self.share(placeholder)

    @contextmanager
    def without_reservations(self, name: str) -> Iterator[None]:
        """Let the reservations of a node hold nothing, for a pod that ignores them."""
        node = self._cache.node(name)
        lent = [] if node is None else [uid for uid in node.pods if uid in self.given]
        for uid in lent:
            self.lend(uid)
        try:
            yield
        finally:
            for uid in lent:
                self.share(uid)

    @contextmanager
    def lending(self, reservation: str | None, others: Iterable[str]) -> Iterator[None]:
        """Let of these reservations of a node only the named one hold nothing, None: none of them.

        As a simulation, within a view that hides them all as well as outside of views.
        """
        cache = self._cache
        simulating, cache.simulating = cache.simulating, True
        try:
            if cache.credits.shown is not None:
                with self._shown(others):
                    yield
                return
            if reservation is not None:
                self.lend(reservation)
            try:
                yield
            finally:
                if reservation is not None:
                    self.share(reservation)
        finally:
            cache.simulating = simulating

    @contextmanager
    def _shown(self, placeholders: Iterable[str]) -> Iterator[None]:
        """Let these reservations, which a view hides, hold what they have left."""
        shown: list[str] = []
        try:
            for uid in placeholders:
                self.show_left(uid)
                shown.append(uid)
            yield
        finally:
            for uid in reversed(shown):
                self.hide_left(uid)

    def show_left(self, uid: str) -> None:
        """Let a reservation that holds nothing hold what it has left, as a simulation."""
        left, counted, cache = self.left(uid), self._cache.pods.get(uid), self._cache
        if left is None or counted is None or uid not in counted.node.counted or self._is_nothing(left):
            return
        simulating, cache.simulating = cache.simulating, True
        self._put(counted.node.name, left)
        cache.simulating = simulating

    def hide_left(self, uid: str) -> None:
        """Let a reservation hold nothing, as a simulation. Where it did is not forgotten: a view may have hidden what is there."""
        name, cache = self._where.get(uid), self._cache
        if name is None or self.held_by(uid) is None:
            return
        simulating, cache.simulating = cache.simulating, True
        self._take(name, uid)
        self._where[uid] = name
        cache.simulating = simulating

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            aside = self._aside.pop(pod.uid, None)
            if aside is not None:
                self._put(self._name(row, pod), aside)
                self._share_of(pod.uid)
        elif self.annotation in pod.pod.metadata.annotations and pod.pod.spec.node_name:
            self._read(pod, row)  # an assumed pod may still have the annotation of an earlier attempt

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.lends and not self._cache.simulating:
            self._forget_given(pod.uid)
        name = self._where.get(pod.uid)
        if name is None:
            return
        taken = self._take(name, pod.uid)
        self._share_of(pod.uid)
        if self._cache.simulating:
            self._aside[pod.uid] = taken
        else:
            self._forget_unknown(name)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """What pods hold is kept by the names of nodes."""

    def counts_alone(self, pod: PodInfo, row: int) -> bool:
        return pod.uid not in self._where

    def _name(self, row: int, pod: PodInfo) -> str:
        info = self._cache.infos[row]
        return pod.pod.spec.node_name if info is None else info.name  # nodes without a Node object share one row, which has no name
