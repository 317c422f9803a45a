"""Outlook: what evictions could do for one pod on all nodes, as far as that can be foreseen on columns.

Only nodes that refuse the pod with Unschedulable count. Each of them is in one of four lists:

- `foreseen`: the filter that refuses it only compares amounts, all others let it pass, and none of them would answer otherwise if any pods
  of the node went (`affected_by_removals`). The kernel then knows the exact victims, since the same amounts decide at every step of the
  reprieve. Pods that are nominated for the node are amounts too, as long as other filters have nothing to do with pods at all.
- `open`: anything else that might work. All filters have to be asked (`victims`).
- `empty`: there is nobody to evict.
- `shut`: it is known without asking why the node refuses the pod even without all lower pods; with that refusal.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.prospects import Prospects
from koordsched.framework.row_refusals import NO_ROWS, RowRefusals, Rows
from koordsched.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.simulation import FitFilter, NodeSimulation
    from koordsched.framework.status import Status
    from koordsched.plugins.defaultpreemption.occupants import Occupants

NOBODY = -1
MAX_BYTES = 32 << 20
BYTES_A_ROW = 40


class Outlook:
    """The nodes that could be tried, sorted by what is known of them."""

    def __init__(self, prospects: Prospects | None) -> None:
        self.prospects = prospects  # None: no filter says how much room the pod needs
        self.foreseen: Rows = NO_ROWS
        self.open: Rows = NO_ROWS
        self.empty = 0
        self.shut: list[tuple[Status, int]] = []  # refusals and how many nodes give them

    @property
    def hopeful(self) -> bool:
        return bool(len(self.foreseen) or len(self.open))


class Outlooks:
    """Makes outlooks. What the kernel found for a priority and a request is kept and brought up to date; the least recently used goes."""

    def __init__(self, occupants: Occupants) -> None:
        self._occupants = occupants
        self._prospects: dict[tuple[int, Request], Prospects] = {}

    def of(self, pod: PodInfo, diagnosis: Diagnosis, simulation: NodeSimulation) -> Outlook:
        """Sort the nodes that refuse the pod with Unschedulable. The occupants are brought up to date."""
        self._occupants.bring_up_to_date()
        fit = simulation.fit_filter(pod)
        outlook = Outlook(None if fit is None else self.prospects(pod.priority, fit.request))
        sorting = _Sorting(pod, simulation, outlook, self._exceptional(pod, fit))
        if diagnosis.pre_filter is not None:
            sorting.unknown(self._occupants.occupancy.table.live_rows())
        else:
            sorting.by_filters(fit)
        sorting.exceptions(diagnosis, fit)
        return outlook

    def prospects(self, priority: int, request: Request) -> Prospects:
        """Return what the kernel knows for this priority and request, as of now."""
        key = (priority, request)
        found = self._prospects.pop(key, None)
        if found is None:
            most = max(4, MAX_BYTES // (BYTES_A_ROW * self._occupants.occupancy.table.capacity))
            while len(self._prospects) >= most:
                del self._prospects[next(iter(self._prospects))]
            found = Prospects(self._occupants.occupancy, priority, request)
        self._prospects[key] = found
        found.refresh()
        return found

    def _exceptional(self, pod: PodInfo, fit: FitFilter | None) -> _Exceptional:
        odd = set(self._occupants.odd_claims.values())
        own = self._occupants.claim_of(pod.uid)
        if own is not None:
            odd.add(own.row)
        occupancy = self._occupants.occupancy
        claimed = occupancy.claimed_rows() if fit is not None and not fit.alone else NO_ROWS
        return _Exceptional(np.array(list(odd), np.int32), claimed, occupancy.table.capacity)


class _Exceptional(msgspec.Struct, frozen=True):
    """Rows where the kernel does not know everything.

    odd: the kernel's claims are not the truth: one is the pod's own, or somebody nominated takes more than room. claimed: who is nominated
    may matter to other filters than the one that compares amounts.
    """

    odd: Rows
    claimed: Rows
    capacity: int


class _Sorting:
    """Fills one outlook."""

    def __init__(self, pod: PodInfo, simulation: NodeSimulation, outlook: Outlook, exceptional: _Exceptional) -> None:
        self._pod = pod
        self._simulation = simulation
        self._outlook = outlook
        self._exceptional = exceptional

    def by_filters(self, fit: FitFilter | None) -> None:
        """Sort rows that the shape's filters refuse."""
        for (g, code), rows in self._refused().items():
            if fit is None:
                self.unknown(rows)
            elif g == fit.f:
                self._foresee(g, self._usual(rows))
            else:
                swayed = self._simulation.affected_by_removals(g, self._pod, rows, np.full(len(rows), code, np.int32))
                self.unknown(rows[swayed])
                self._constant((g, code), self._usual(rows[~swayed]), fit)

    def exceptions(self, diagnosis: Diagnosis, fit: FitFilter | None) -> None:
        """Sort rows of which something else is true than what the shape's filters say: nominated pods or extenders refuse."""
        for status, rows in diagnosis.exceptions.groups():
            if status.code is not Code.UNSCHEDULABLE:
                continue
            if fit is not None and status.plugin == fit.name:
                self._foresee(fit.f, self._usual(rows))
            else:
                self.unknown(rows)

    def unknown(self, rows: Rows) -> None:
        """Leave these rows to the filters, except where nobody can be evicted."""
        prospects = self._outlook.prospects
        if prospects is not None and len(rows):
            codes = prospects.codes(rows)
            self._outlook.empty += int((codes == NOBODY).sum())
            rows = rows[codes != NOBODY]
        self._outlook.open = np.concatenate((self._outlook.open, rows))

    def _usual(self, rows: Rows) -> Rows:
        """Return the rows of which the kernel knows how much room there could be; leave the others to the filters."""
        usual, odd = self._split(rows, self._exceptional.odd)
        if len(odd):
            self.unknown(odd)
        return usual

    def _split(self, rows: Rows, some: Rows) -> tuple[Rows, Rows]:
        """Return (rows that are not among some, those that are). isin() costs ten times as much, and each event asks for each shape."""
        if not len(some) or not len(rows):
            return rows, NO_ROWS
        flags = np.zeros(self._exceptional.capacity, np.bool_)
        flags[some] = True
        among = flags[rows]
        return (rows[~among], rows[among]) if among.any() else (rows, NO_ROWS)

    def _refused(self) -> Mapping[tuple[int, int], Rows]:
        """Return the rows that filters refuse with Unschedulable, by filter and code. Kept as long as no verdict changes."""
        return self._simulation.unschedulable_rows(self._pod)

    def _foresee(self, f: int, rows: Rows) -> None:
        """Take over the kernel's answer for rows that filter f refuses, where no other filter can be swayed."""
        outlook, prospects = self._outlook, self._outlook.prospects
        assert prospects is not None
        codes = prospects.codes(rows)
        outlook.empty += int((codes == NOBODY).sum())
        self._shut_by_kernel(f, rows, codes)
        fitting, claimed = self._split(rows[codes == 0], self._exceptional.claimed)
        beyond = self._simulation.other_verdicts(f, self._pod, fitting)
        for refused in beyond.refused:
            self._shut(refused)
        outlook.open = np.concatenate((outlook.open, claimed, *beyond.uncertain))
        outlook.foreseen = np.concatenate((outlook.foreseen, beyond.passing))

    def _shut_by_kernel(self, f: int, rows: Rows, codes: NDArray[np.int32]) -> None:
        refused = codes > 0
        self._shut(RowRefusals.of_codes(rows[refused], codes[refused], partial(self._simulation.explain, f, self._pod)))

    def _shut(self, refusals: RowRefusals) -> None:
        self._outlook.shut += [(status, len(rows)) for status, rows in refusals.groups()]

    def _constant(self, refusal: tuple[int, int], rows: Rows, fit: FitFilter) -> None:
        """Note rows where another filter goes on refusing whoever of the pods goes; before it nominated pods may leave too little room."""
        assert self._outlook.prospects is not None
        g, code = refusal
        codes = self._outlook.prospects.codes(rows)
        self._outlook.empty += int((codes == NOBODY).sum())
        if g > fit.f:
            self._shut_by_kernel(fit.f, rows, codes)
            codes = codes[codes <= 0]
        count = int((codes != NOBODY).sum())
        if count:
            self._outlook.shut.append((self._simulation.explain(g, self._pod, code), count))
