"""An evaluation that asked only about rows that changed equals one made anew, whatever its plugins answer and whoever else used the lists.

test_shapes.py holds this for real plugins and events; here are the ways that those rarely take: rows that change in any order, plugins
that answer None, rounds that are not ranked or break off, filters and scorers that are switched or forgotten, rows that are left out for
one round, a table that grows, and several evaluations on one Scratch, each of them used again for other plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from koordsched._core.change import NodeChange
from koordsched._core.evaluation import Evaluation
from koordsched._core.scratch import Scratch
from koordsched._core.table import NodeTable

USAGE, TAINTS = int(NodeChange.USAGE), int(NodeChange.TAINTS)
NONE, MAX, MAX_REVERSE, CUSTOM = range(4)
FORGOTTEN = (4, 5)  # in SCORERS: those that read what the table does not log
FORGOTTEN_FILTER = 3  # in FILTERS, likewise


@dataclass
class Facts:
    """What the plugins below read of a row: two logged numbers of 0..9, and one that is not logged."""

    usage: dict[int, int] = field(default_factory=dict)
    taints: dict[int, int] = field(default_factory=dict)
    offset: int = 0


class Filter(NamedTuple):
    reads: int
    code: Callable[[Facts, int], int]


class Scorer(NamedTuple):
    reads: int
    mode: int
    weight: int
    score: Callable[[Facts, int], int]


FILTERS = [
    Filter(USAGE, lambda facts, row: max(0, facts.usage[row] - 7)),
    Filter(TAINTS, lambda facts, row: max(0, facts.taints[row] - 7)),
    Filter(USAGE | TAINTS, lambda facts, row: 5 * (facts.usage[row] == facts.taints[row])),
    Filter(0, lambda facts, row: (facts.offset + row) % 3),
]
SCORERS = [
    Scorer(USAGE, NONE, 1, lambda facts, row: 10 * facts.usage[row]),
    Scorer(TAINTS, MAX, 2, lambda facts, row: facts.taints[row]),
    Scorer(USAGE, MAX_REVERSE, 1, lambda facts, row: facts.usage[row] ** 2),
    Scorer(TAINTS, CUSTOM, 3, lambda facts, row: 1000 * facts.taints[row] - 2000),
    Scorer(0, NONE, 1, lambda facts, row: facts.offset + row % 3),
    Scorer(0, CUSTOM, 2, lambda facts, row: facts.offset * (row % 4) - 30),
]


class Plugins(NamedTuple):
    """Which filters and scorers an evaluation is configured for, in its order."""

    filters: list[int]
    scorers: list[int]


plugins = st.builds(
    Plugins,
    st.lists(st.integers(0, len(FILTERS) - 1), min_size=1, unique=True),
    st.lists(st.integers(0, len(SCORERS) - 1), min_size=1, unique=True),
)


class Asker:
    """One evaluation and those who ask it: does to it what Shapes does."""

    def __init__(self, table: NodeTable, scratch: Scratch, facts: Facts) -> None:
        self.table, self.facts = table, facts
        self.evaluation = Evaluation(table, scratch)
        self.plugins = Plugins([], [])
        self.broken = False  # a plugin raised: what is half done is done again
        self.normalized = False
        self.enabled: list[bool] = []
        self.seen: list[tuple[int, int]] | None = None  # verdicts after the last round

    def configure(self, chosen: Plugins) -> None:
        self.plugins, self.broken, self.normalized, self.seen = chosen, False, False, None
        self.enabled = [True] * len(chosen.scorers)
        scorers = [SCORERS[s] for s in chosen.scorers]
        reads = [FILTERS[f].reads for f in chosen.filters]
        self.evaluation.configure(reads, [s.reads for s in scorers], [s.mode for s in scorers], [s.weight for s in scorers])

    def enable(self, enabled: list[bool]) -> None:
        self.enabled = enabled
        self.evaluation.enable_scorers(enabled)

    def filter(self, *, terse: bool = False, stop: int = -1) -> None:
        """Run the filters. terse: they answer None when they can. stop: how many answer before one raises."""
        if self.broken:
            self.configure(self.plugins)
        if self.evaluation.is_current():
            return
        self.broken = True
        f = self.evaluation.first_filter()
        while f >= 0:
            rows = self.evaluation.work_rows().tolist()
            if stop == 0:
                return
            stop -= 1
            codes = [FILTERS[self.plugins.filters[f]].code(self.facts, row) for row in rows]
            f = self.evaluation.store_codes(None if terse and not any(codes) else np.array(codes, np.int32))
        self.broken = False
        self._follow_changes()

    def _follow_changes(self) -> None:
        before, self.seen = self.seen, self.verdicts()
        if before is not None and before != self.seen[: len(before)]:
            assert self.evaluation.verdict_changed
        if self.evaluation.feasible_changed:
            self.normalized = False

    def rank(self, *, terse: bool = False, stop: int = -1) -> None:
        """Run the scorers, likewise."""
        self.broken = True
        feasible = set(self.evaluation.feasible_rows().tolist())
        s = self.evaluation.first_scorer()
        while s >= 0:
            rows = self.evaluation.work_rows().tolist()
            assert feasible.issuperset(rows)
            if stop == 0:
                return
            stop -= 1
            scores = [SCORERS[self.plugins.scorers[s]].score(self.facts, row) for row in rows]
            s = self.evaluation.store_scores(None if terse and not any(scores) else np.array(scores, np.int64))
            self.normalized = False
        self._normalize()
        assert self.evaluation.rank() == -1
        self.broken = False

    def _normalize(self) -> None:
        rows = self.evaluation.feasible_rows()
        for s, number in enumerate(self.plugins.scorers):
            if SCORERS[number].mode == CUSTOM and self.enabled[s] and not self.normalized and len(rows):
                scores = self.evaluation.raw_scores(s, rows)
                span = max(1, int(scores.max() - scores.min()))
                self.evaluation.store_normalized(s, rows, 100 * (scores - scores.min()) // span)
        self.normalized = True

    def overrule(self, rows: list[int]) -> None:
        self.normalized = False  # a normalisation is of all rows that take part
        self.evaluation.overrule(np.array(rows, np.int32))

    def reinstate(self, rows: list[int]) -> None:
        self.normalized = False
        self.evaluation.reinstate(np.array(rows, np.int32))

    def verdicts(self) -> list[tuple[int, int]]:
        return [self.evaluation.verdict(row) for row in range(self.table.capacity)]

    def filtered(self) -> dict[str, object]:
        """Return what the filters' part of a round found."""
        rows, filters, codes = self.evaluation.refusals()
        return {
            "verdicts": self.verdicts(),
            "feasible": self.evaluation.feasible_rows().tolist(),
            "count": self.evaluation.feasible_count,
            "histogram": self.evaluation.histogram(),
            "refusals": (rows.tolist(), filters.tolist(), codes.tolist()),
        }

    def ranked(self) -> dict[str, object]:
        """Return what the scorers' part found."""
        best, ties = self.evaluation.best()
        scores = {row: self.evaluation.scores(row) for row in self.evaluation.feasible_rows().tolist()}
        return {
            "raw": {row: [score for s, score in enumerate(raw) if self.enabled[s]] for row, (raw, _) in scores.items()},
            "totals": {row: total for row, (_, total) in scores.items()},
            "best": (best, [self.evaluation.pick(best, k) for k in range(ties)]),
        }


ROWS = 6  # that rules change: few and neighbours, so that changes meet, and every order of them comes up


class Changed(NamedTuple):
    """A change of some rows, logged in this order."""

    kind: int
    order: list[int]
    numbers: list[int]  # [row]


which = st.integers(0, 1)
orders = st.tuples(st.permutations(range(ROWS)), st.integers(1, ROWS)).map(lambda drawn: drawn[0][: drawn[1]])
changes = st.builds(Changed, st.sampled_from([USAGE, TAINTS]), orders, st.lists(st.integers(0, 9), min_size=ROWS, max_size=ROWS))


class IncrementalEqualsNew(RuleBasedStateMachine):
    """Rows change, and two evaluations that share their lists follow when they are used; each use is compared with one made anew."""

    @initialize(rows=st.sampled_from([ROWS, 63]), capacity=st.sampled_from([64, 192]), configured=st.tuples(plugins, plugins))
    def begin(self, rows: int, capacity: int, configured: tuple[Plugins, Plugins]) -> None:
        self.table, self.facts = NodeTable(capacity), Facts()
        self.add_rows(rows)
        scratch = Scratch()
        self.kept = [Asker(self.table, scratch, self.facts) for _ in configured]
        for asker, chosen in zip(self.kept, configured, strict=True):
            asker.configure(chosen)

    # The table

    @rule(count=st.sampled_from([1, 2, 60]))
    def add_rows(self, count: int) -> None:
        if len(self.facts.usage) > 200:
            return
        for _ in range(count):
            row = self.table.acquire_row()
            self.facts.usage[row], self.facts.taints[row] = row % 7, row % 5
            self.table.set_live(row, True)

    @rule(changed=changes)
    def change(self, changed: Changed) -> None:
        column = self.facts.usage if changed.kind == USAGE else self.facts.taints
        for row in changed.order:
            column[row] = changed.numbers[row]
            self.table.mark(row, changed.kind)

    @rule(row=st.integers(0, ROWS - 1))
    def come_or_go(self, row: int) -> None:
        self.table.set_live(row, not self.table.is_live(row))

    # The plugins

    @rule(index=which, chosen=plugins)
    def use_again_for_other_plugins(self, index: int, chosen: Plugins) -> None:
        self.kept[index].configure(chosen)

    @rule(index=which, enabled=st.lists(st.booleans(), min_size=len(SCORERS), max_size=len(SCORERS)))
    def enable_scorers(self, index: int, enabled: list[bool]) -> None:
        asker = self.kept[index]
        asker.enable(enabled[: len(asker.plugins.scorers)])

    @rule(offset=st.integers(0, 50))
    def change_what_is_not_logged(self, offset: int) -> None:
        self.facts.offset = offset
        for asker in self.kept:
            if FORGOTTEN_FILTER in asker.plugins.filters:
                asker.evaluation.forget_filter(asker.plugins.filters.index(FORGOTTEN_FILTER))
            for s, number in enumerate(asker.plugins.scorers):
                if number in FORGOTTEN:
                    asker.evaluation.forget_scorer(s)

    @rule(index=which, changed=changes, stop=st.integers(0, 1), ranking=st.booleans())
    def break_off_after_a_change(self, index: int, changed: Changed, stop: int, ranking: bool) -> None:
        asker = self.kept[index]
        asker.filter()
        self.change(changed)
        asker.filter(stop=-1 if ranking else stop)
        if ranking:
            asker.rank(stop=stop)

    # Uses

    @rule(index=which, terse=st.booleans())
    def look_without_ranking(self, index: int, terse: bool) -> None:
        self.kept[index].filter(terse=terse)
        self._compare(self.kept[index])

    @rule(index=which, terse=st.booleans())
    def choose(self, index: int, *, terse: bool) -> None:
        self.kept[index].filter(terse=terse)
        self.kept[index].rank(terse=terse)
        self._compare(self.kept[index], ranked=True)

    @rule(index=which, changed=changes)
    def choose_before_and_after_a_change(self, index: int, changed: Changed) -> None:
        self.choose(index, terse=False)
        self.change(changed)
        self.choose(index, terse=False)

    @rule(index=which, left_out=orders)
    def choose_without_some_rows(self, index: int, left_out: list[int]) -> None:
        asker = self.kept[index]
        asker.filter()
        asker.overrule(left_out)
        asker.rank()
        self._compare(asker, ranked=True, left_out=left_out)
        asker.reinstate(left_out)

    def _compare(self, asker: Asker, *, ranked: bool = False, left_out: list[int] | None = None) -> None:
        anew = Asker(self.table, Scratch(), self.facts)
        anew.configure(asker.plugins)
        anew.enable(asker.enabled)
        anew.filter()
        anew.overrule(left_out or [])
        assert asker.filtered() == anew.filtered()
        if ranked:
            anew.rank()
            assert asker.ranked() == anew.ranked()


IncrementalEqualsNew.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestIncrementalEqualsNew = IncrementalEqualsNew.TestCase
