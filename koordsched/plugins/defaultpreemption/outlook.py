"""Outlook: what evictions could do for one pod on all nodes, as far as that can be foreseen on columns.

Only nodes that refuse the pod with Unschedulable count. Each of them is in one of four lists:

- `foreseen`: one filter refuses it, it is the only one for which pods on nodes matter, and it only compares amounts. The kernel then knows
  the exact victims, since the same amounts decide at every step of the reprieve. Pods that are nominated for the node are amounts too.
- `open`: anything else that might work. All filters have to be asked (`victims`).
- `empty`: there is nobody to evict.
- `shut`: it is known without asking why the node refuses the pod even without all lower pods; with that refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.prospects import Prospects
from koordsched.framework.status import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched._core.table import Request
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.status import Status
    from koordsched.framework.what_if import Supposition
    from koordsched.plugins.defaultpreemption.occupants import Occupants

Rows = NDArray[np.int32]

NOBODY = -1
MAX_BYTES = 32 << 20
BYTES_A_ROW = 40
NO_ROWS = np.zeros(0, np.int32)


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

    def of(self, pod: PodInfo, diagnosis: Diagnosis, supposing: Supposition) -> Outlook:
        """Sort the nodes that refuse the pod with Unschedulable. The occupants are brought up to date."""
        self._occupants.bring_up_to_date()
        fit = supposing.fit(pod)
        request = supposing.request_of_fit(pod) if fit is None else fit[1]
        outlook = Outlook(None if request is None else self.prospects(pod.priority, request))
        sorting = _Sorting(pod, supposing, outlook, self._odd_rows(pod))
        if diagnosis.pre_filter is not None:
            sorting.unknown(self._occupants.occupancy.table.live_rows())
        elif fit is None:
            sorting.by_bound()
        else:
            sorting.by_kernel(fit[0])
        sorting.exceptions(diagnosis, None if fit is None else fit[0])
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

    def _odd_rows(self, pod: PodInfo) -> _Odd:
        odd = set(self._occupants.odd_claims.values())
        own = self._occupants.claim_of(pod.uid)
        if own is not None:
            odd.add(own.row)
        return _Odd(odd, self._occupants.occupancy.table.capacity)


class _Odd(msgspec.Struct, frozen=True):
    """The rows where the kernel's claims are not the truth: one is the pod's own, or somebody nominated takes more than room."""

    rows: set[int]
    capacity: int

    def flags(self) -> NDArray[np.bool_]:
        """Return for every row whether it is one. isin() costs ten times as much, and each event asks for each shape that waits."""
        flags = np.zeros(self.capacity, np.bool_)
        flags[list(self.rows)] = True
        return flags


class _Sorting:
    """Fills one outlook."""

    def __init__(self, pod: PodInfo, supposing: Supposition, outlook: Outlook, odd: _Odd) -> None:
        self._pod = pod
        self._supposing = supposing
        self._outlook = outlook
        self._odd = odd

    def by_kernel(self, f: int) -> None:
        """Sort rows that the shape's filters refuse, where filter f alone depends on pods."""
        for (g, code), rows in self._refused().items():
            if g != f:
                self._constant(self._supposing.explain(g, self._pod, code), rows)
                continue
            self._foresee(f, self._usual(rows))

    def by_bound(self) -> None:
        """Sort rows that the shape's filters refuse, where several filters depend on pods: the kernel knows only who has no chance."""
        for (g, _), rows in self._refused().items():
            request = self._supposing.shape.filters[g].fit_request(self._supposing.shape.state, self._pod)
            if request is None or self._outlook.prospects is None or request is not self._outlook.prospects.request:
                self.unknown(rows)
            else:
                self._foresee_bound(g, self._usual(rows))

    def exceptions(self, diagnosis: Diagnosis, f: int | None) -> None:
        """Sort rows of which something else is true than what the shape's filters say: nominated pods or extenders refuse."""
        for status, rows in diagnosis.exceptions.groups():
            if status.code is not Code.UNSCHEDULABLE:
                continue
            if f is not None and status.plugin == self._supposing.shape.filters[f].name:
                self._foresee(f, self._usual(rows))
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
        """Return the rows of which the kernel knows the truth; leave the others to the filters."""
        if not self._odd.rows:
            return rows
        odd = self._odd.flags()[rows]
        if not odd.any():
            return rows
        self.unknown(rows[odd])
        return rows[~odd]

    def _refused(self) -> dict[tuple[int, int], Rows]:
        """Return the rows that filters refuse with Unschedulable, by filter and code. Kept as long as no verdict changes."""
        if self._supposing.refused is None:
            self._supposing.refused = self._find_refused()
        return self._supposing.refused

    def _find_refused(self) -> dict[tuple[int, int], Rows]:
        evaluation = self._supposing.shape.evaluation
        wanted = [
            (g, code) for g, code, _ in evaluation.histogram() if self._supposing.explain(g, self._pod, code).code is Code.UNSCHEDULABLE
        ]
        if not wanted:
            return {}
        rows, filters, codes = evaluation.refusals()
        return {(g, code): rows[(filters == g) & (codes == code)] for g, code in wanted}

    def _foresee(self, f: int, rows: Rows) -> None:
        """Take over the kernel's answer for rows that filter f refuses."""
        outlook, prospects = self._outlook, self._outlook.prospects
        assert prospects is not None
        codes = prospects.codes(rows)
        outlook.empty += int((codes == NOBODY).sum())
        self._shut(f, codes)
        fitting = rows[codes == 0]
        passing = self._supposing.passing_after(f, self._pod, fitting)
        if len(passing) < len(fitting):
            outlook.open = np.concatenate((outlook.open, np.setdiff1d(fitting, passing)))
        outlook.foreseen = np.concatenate((outlook.foreseen, passing))

    def _foresee_bound(self, f: int, rows: Rows) -> None:
        """Take over what the kernel knows for sure: that filter f goes on refusing. Filters before f let the rows pass."""
        assert self._outlook.prospects is not None
        codes = self._outlook.prospects.codes(rows)
        self._shut(f, codes)
        self._outlook.empty += int((codes == NOBODY).sum())
        self._outlook.open = np.concatenate((self._outlook.open, rows[codes == 0]))

    def _shut(self, f: int, codes: NDArray[np.int32]) -> None:
        for code, count in _counts(codes[codes > 0]):
            self._outlook.shut.append((self._supposing.explain(f, self._pod, code), count))

    def _constant(self, status: Status, rows: Rows) -> None:
        """Note rows whose refusal has nothing to do with pods: evicting changes nothing."""
        assert self._outlook.prospects is not None
        nobody = int((self._outlook.prospects.codes(rows) == NOBODY).sum())
        self._outlook.empty += nobody
        if len(rows) > nobody:
            self._outlook.shut.append((status, len(rows) - nobody))


def _counts(codes: NDArray[np.int32]) -> Iterable[tuple[int, int]]:
    if not len(codes):
        return ()
    if (codes == codes[0]).all():
        return ((int(codes[0]), len(codes)),)  # as a rule, and unique() sorts
    values, counts = np.unique(codes, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
