"""Credits: capacity of nodes that belongs to an owner, held by pods that stand for it (reservation.md §6, "the RP leaves the view").

A placeholder is a pod that the cache counts, so that strangers find its amounts, ports, CPUs and whatever else a pod may hold taken, and
pay nothing for that. To its owner the placeholder is not there: while pods of the owner are evaluated, the owner's `OwnerView` hides its
placeholders and then restores them. What a view changes is compiled once, row by row, and again for a row that has changed since, so
that hiding is one call for the table's columns. A plugin with state of its own of what pods hold takes part by `PodFollower.without`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from koordsched._core.view import RowView, TableView
from koordsched.api.resources import PodResources

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from koordsched._core.table import NodeTable
    from koordsched._core.view import CountedPod
    from koordsched.api.podinfo import PodInfo

    States = dict[int, list[Any]]
    """Pods that are counted on rows (`CountedPod`), by row."""


class CountedPods(Protocol):
    """What views need of the cache."""

    table: NodeTable
    simulating: bool

    def row_of(self, uid: str) -> int | None:
        """Return the row on which the pod is counted; None if there is none of its own, or a simulation has removed the pod."""

    def locate(self, uids: Iterable[str]) -> tuple[States, list[str]]:
        """Return which of these pods each row counts, and the uids of those of which `row_of` is None. O(these pods)."""

    def rows_without(self, states: States) -> list[RowView]:
        """Compile what each of these rows looks like without these pods, which are counted there. O(these pods)."""


class Credits:
    """The placeholders of every owner. shown: the view of nodes that the cache shows now, None outside of views."""

    def __init__(self, counted: CountedPods) -> None:
        self._counted = counted
        self._owners: dict[Hashable, OwnerView] = {}
        self._same: dict[Hashable, Hashable] = {}  # owners that have what another one has
        self._owned: dict[str, int] = {}  # by uid of a placeholder: how many owners it has
        self.shown: OwnerView | None = None
        self.overdrawn: set[str] = set()  # placeholders of which pods took more than there was of some resource; to be read only
        self._returned: dict[str, frozenset[str] | None] = {}  # by uid of a pod that draws: what goes back to its placeholder; None: all
        self._drawn: dict[str, str] = {}  # by uid of a pod: the placeholder that it draws on
        self._drawers: dict[str, dict[str, None]] = {}  # by uid of a placeholder: the pods that draw on it
        self._draw_hooks: list[Callable[[str, str], None]] = []

    def __len__(self) -> int:
        """Return how many owners there are."""
        return len(self._owners)

    def of(self, owner: Hashable) -> OwnerView | None:
        """Return the view of an owner; None when it has no placeholder."""
        found = self._owners.get(owner)
        return self._owners.get(self._same.get(owner)) if found is None and self._same else found

    def version(self, owner: Hashable) -> int:
        """Return a number that differs when the owner has other placeholders; what they hold is a matter of the node table's log."""
        owned = self.of(owner)
        return 0 if owned is None else owned.version

    def is_placeholder(self, uid: str) -> bool:
        """Answer whether what the pod holds belongs to an owner."""
        return uid in self._owned

    def grant(self, owner: Hashable, *placeholders: str, runs: bool = False) -> None:
        """Let what the pods with these uids hold belong to the owner, whether or not they are counted already.

        runs: they are pods of the cluster, which the owner may take over as they are; for all others they are pods like any.
        """
        if not placeholders:
            return
        owned, number = self._owners.get(owner), self._owned
        if owned is None:
            owned = self._owners[owner] = OwnerView(self._counted, self, owner)
        for placeholder in placeholders:
            if placeholder not in owned.placeholders:
                owned.placeholders[placeholder] = runs
                if not runs:
                    number[placeholder] = number.get(placeholder, 0) + 1
        owned.version = self._counted.table.next_stamp()

    def share(self, owner: Hashable, other: Hashable) -> None:
        """Let an owner that is granted nothing itself have whatever the other one has, until `end_share`."""
        self._same[owner] = other

    def end_share(self, owner: Hashable) -> None:
        self._same.pop(owner, None)

    def end(self, owner: Hashable) -> None:
        """Let nothing belong to the owner any more."""
        owned = self._owners.get(owner)
        for placeholder in [] if owned is None else list(owned.placeholders):
            self.revoke(owner, placeholder)

    def renew(self, owner: Hashable) -> None:
        """Let what is known of the owner's pods be found out anew: something else about its placeholders has changed."""
        owned = self._owners.get(owner)
        if owned is not None:
            owned.version = self._counted.table.next_stamp()

    def revoke(self, owner: Hashable, placeholder: str) -> None:
        """Let it belong to the owner no longer."""
        owned = self._owners.get(owner)
        if owned is None or placeholder not in owned.placeholders:
            return
        runs = owned.placeholders.pop(placeholder)
        owned.version = self._counted.table.next_stamp()
        if not owned.placeholders:
            del self._owners[owner]
        if runs:
            return
        self._owned[placeholder] -= 1
        if not self._owned[placeholder]:
            del self._owned[placeholder]

    # What pods take of placeholders

    def draw(self, pod: str, placeholder: str, resources: frozenset[str] | None = None) -> None:
        """Note that the pod (by uid) takes what it holds out of the placeholder, and out of no other.

        resources: those that go back to the placeholder when the pod ends; None: all.
        """
        before = self._drawn.get(pod)
        if before == placeholder and self._returned[pod] == resources:
            return
        if before != placeholder:
            if before is not None:
                self.end_draw(pod)
            self._drawn[pod] = placeholder
            self._drawers.setdefault(placeholder, {})[pod] = None
        self._returned[pod] = resources
        for hook in self._draw_hooks:
            hook(pod, placeholder)

    def end_draw(self, pod: str) -> None:
        """Note that the pod takes nothing out of a placeholder any more."""
        placeholder = self._drawn.pop(pod, None)
        if placeholder is None:
            return
        del self._returned[pod]
        drawers = self._drawers[placeholder]
        del drawers[pod]
        if not drawers:
            del self._drawers[placeholder]
        for hook in self._draw_hooks:
            hook(pod, placeholder)

    def set_overdrawn(self, placeholder: str, *, overdrawn: bool) -> None:
        """Note whether the pods that draw on the placeholder took more of a resource than there was: what one frees depends on others."""
        if overdrawn == (placeholder in self.overdrawn):
            return
        (self.overdrawn.add if overdrawn else self.overdrawn.discard)(placeholder)
        for pod in self.drawers(placeholder):
            for hook in self._draw_hooks:
                hook(pod, placeholder)

    def freed_by(self, pod: PodInfo) -> PodResources:
        """Return what pods that are no owners of its placeholder find free when this pod ends: at most that much where it is overdrawn."""
        placeholder = self._drawn.get(pod.uid)
        if placeholder is None or placeholder in self.overdrawn:
            return pod.resources
        returned = self._returned[pod.uid]
        requests = pod.resources.requests
        return PodResources({} if returned is None else {name: requests[name] for name in requests if name not in returned}, 0, 0, 0, 0)

    def drawn_from(self, pod: str) -> str | None:
        """Return the placeholder that the pod draws on."""
        return self._drawn.get(pod)

    def drawers(self, placeholder: str) -> Collection[str]:
        """Return the pods that draw on the placeholder."""
        return self._drawers.get(placeholder, {})

    def drawn_on(self) -> Collection[str]:
        """Return the placeholders on which pods draw."""
        return self._drawers.keys()

    def call_when_drawn(self, hook: Callable[[str, str], None]) -> None:
        """Call the hook with (pod, placeholder) when a pod begins or ceases to draw on it."""
        self._draw_hooks.append(hook)

    def forget_compiled(self, but: OwnerView | None = None) -> None:
        """Compile all views anew, but for one, because columns were renewed or more has to be hidden."""
        for owned in self._owners.values():
            if owned is not but:
                owned.forget_compiled()


class OwnerView:
    """What one owner has (the uids of its placeholders), and the nodes as it sees them: without these, within a `with` block.

    Nothing is logged and no version moves. What is evaluated inside may be kept for pods of this owner alone. Blocks may be nested.
    Entering is O(placeholders); compiling a row again takes a few microseconds.
    """

    __slots__ = (
        "_compiled",
        "_compiled_version",
        "_counted",
        "_credits",
        "_depth",
        "_missing",
        "counts_alone",
        "is_partial",
        "owner",
        "placeholders",
        "row_numbers",
        "stamp",
        "version",
    )

    def __init__(self, counted: CountedPods, all_credits: Credits, owner: Hashable) -> None:
        self.owner = owner
        self.placeholders: dict[str, bool] = {}  # by uid: whether it is a pod of the cluster
        self.version = 0  # another one after each change of `placeholders`
        self.stamp = 0  # another one whenever the view may hide something else than before
        self.row_numbers: list[int] = []  # those that the view changes, as of the last entry
        self.counts_alone = True  # whether it hides only what `RowView.counts_alone` speaks of
        self._counted = counted
        self._credits = all_credits
        self._compiled = TableView(())
        self._compiled_version = 0  # the `version` that `_compiled` is of
        self._missing: list[str] = []  # placeholders that were on no row of their own then
        self._depth = 0  # blocks inside the outermost one
        self.is_partial = False  # whether it is shown by rows

    def rows(self) -> list[RowView]:
        """Return what is hidden while the view is shown, all of it from then on."""
        if self.is_partial:
            self.show_all()
        return self._compiled.rows

    def forget_compiled(self) -> None:
        self._compiled_version = 0
        self._compiled = TableView(())

    def __enter__(self) -> None:
        if self._begin():
            self.show_all()

    def __exit__(self, *_: object) -> None:
        if self._depth:
            self._depth -= 1
            return
        counted, self._credits.shown = self._counted, None
        self.is_partial = False
        simulating, counted.simulating = counted.simulating, True
        try:
            self._compiled.restore()
        finally:
            counted.simulating = simulating

    @contextmanager
    def by_rows(self) -> Iterator[None]:
        """Show the view of those rows alone that `show_rows` names, until all of it is asked for.

        For a block in which nothing is read of other rows: what is evaluated reads no more than the row, as plugins without versions do.
        """
        if self._begin():
            self._credits.shown, self.is_partial = self, True
        try:
            yield
        finally:
            self.__exit__()

    def show_rows(self, rows: NDArray[np.int32]) -> None:
        """Let these rows be as the owner sees them, in a view that is shown by rows."""
        self._hide(rows)

    def show_all(self) -> None:
        """Let all rows be as the owner sees them."""
        self.is_partial = False
        self._hide(None)

    def _begin(self) -> bool:
        """Bring what is compiled up to date; False in a block inside of another one, which shows all rows then."""
        counted, shown = self._counted, self._credits.shown
        if shown is not None:
            if shown is not self:
                raise ValueError(f"the view of {self.owner!r} was asked for within that of {shown.owner!r}")
            self._depth += 1
            if self.is_partial:
                self.show_all()
            return False
        if self._compiled_version != self.version or (self._missing and any(counted.row_of(uid) is not None for uid in self._missing)):
            self._compile()
        if not self._compiled.is_current():
            self._refresh()
            assert self._compiled.is_current(), "a row changed while it was compiled"
        return True

    def _hide(self, rows: NDArray[np.int32] | None) -> None:
        counted, self._credits.shown = self._counted, None  # what is hidden is there until it is
        simulating, counted.simulating = counted.simulating, True
        try:
            self._compiled.hide(rows)
        finally:
            counted.simulating = simulating
        self._credits.shown = self

    # Compiling

    def _compile(self) -> None:
        """Find out where the placeholders are; what is known of rows without them is kept as far as it holds."""
        counted = self._counted
        known: dict[int, RowView] = {}
        if self._compiled.rows:
            outdated = set(self._compiled.outdated())
            known = {row.row: row for i, row in enumerate(self._compiled.rows) if i not in outdated}
        states, self._missing = counted.locate(self.placeholders)
        kept = {row: known[row] for row, of_row in states.items() if row in known and known[row].uids == _uids(of_row)} if known else {}
        made = counted.rows_without({row: of_row for row, of_row in states.items() if row not in kept} if kept else states)
        found = {**kept, **{view.row: view for view in made}}
        self._compiled = TableView([found[row] for row in states] if kept else made)
        self._compiled_version = self.version
        self.row_numbers = list(states)
        self._note_change()

    def _refresh(self) -> None:
        """Compile the rows again that have changed since."""
        counted, compiled = self._counted, self._compiled
        outdated = {compiled.rows[i].row: i for i in compiled.outdated()}
        uids = {row: compiled.rows[i].uids for row, i in outdated.items()}
        states, missing = counted.locate([uid for of_row in uids.values() for uid in of_row])
        if missing or {row: _uids(of_row) for row, of_row in states.items()} != uids:
            self._compile()
            return
        for view in counted.rows_without(states):
            compiled.replace(outdated[view.row], view)
        self._note_change()

    def _note_change(self) -> None:
        self.counts_alone = self._compiled.counts_alone()
        self.stamp = self._counted.table.next_stamp()


def _uids(states: Iterable[CountedPod]) -> frozenset[str]:
    return frozenset([state.info.uid for state in states])
