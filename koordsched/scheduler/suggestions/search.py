"""The smallest changes that let a pod run, found by trials: each alone, by bisection over its amounts; two together where none suffices.

Only what a trial showed is returned, in its last form: of the change that is stated, the pod was bound.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from koordsched.scheduler.suggestions.node_changes import PodsRemoved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.scheduler.suggestions.changes import Change, Sized, TrialOutcome, Trials

FEW_LEVELS = 4
"""Amounts of which bisection tries hardly more than a guess would."""
MOST_REMOVED = 30
"""Pods of a node that are tried to be left where they are."""


class Suggestion(msgspec.Struct, frozen=True):
    """Changes that suffice together, and what their trial showed."""

    changes: tuple[Sized, ...]
    outcome: TrialOutcome


async def smallest_changes(trials: Trials, changes: Sequence[Change]) -> list[Suggestion]:
    """Return what suffices: changes alone, smallest amounts; where there is none, pairs of them."""
    found = list[Suggestion]()
    for change in changes:
        if trials.is_exhausted or _is_covered(change, found):
            continue
        level, outcome = await _largest(trials, (), change)
        if outcome.node:
            smallest = await _smallest(trials, (), (change, level), outcome)
            found += [] if smallest is None else [smallest]
    if found:
        return found
    worked: list[tuple[Change, Change]] = []
    for first, second in combinations(changes, 2):
        if trials.is_exhausted:
            break
        if any(_tolerates_more(first, a) and _tolerates_more(second, b) for a, b in worked):
            continue  # fewer taints suffice
        outcome = await trials.run(((first, first.levels), (second, second.levels)))
        if outcome.node:
            worked.append((first, second))
            one = await _smallest(trials, ((second, second.levels),), (first, first.levels), outcome)
            both = None if one is None else await _smallest(trials, one.changes[-1:], (second, second.levels), one.outcome)
            found += [] if both is None else [both]
    return found


def _is_covered(change: Change, found: Sequence[Suggestion]) -> bool:
    """Answer whether a smaller change of the same kind and names is known to suffice: a set of taints of which one alone does."""
    if change.kind == "quota":
        return any(each.changes[0][0].kind == "quota" and _same_max(change, each.changes[0][0]) for each in found)
    if change.kind != "toleration":
        return False
    tolerated = [each.changes[0][0].fields(1)["tolerations"] for each in found if each.changes[0][0].kind == "toleration"]
    return any(all(each in change.fields(1)["tolerations"] for each in those) for those in tolerated)


def _tolerates_more(change: Change, other: Change) -> bool:
    """Answer whether it is the other change, or tolerates all the taints that the other does."""
    if change is other:
        return True
    if change.kind != "toleration" or other.kind != "toleration":
        return False
    return all(each in change.fields(1)["tolerations"] for each in other.fields(1)["tolerations"])


def _same_max(change: Change, other: Change) -> bool:
    names = ("quota", "resource")
    return all(change.fields(1)[name] == other.fields(1)[name] for name in names)


async def _largest(trials: Trials, others: tuple[Sized, ...], change: Change) -> tuple[int, TrialOutcome]:
    """Try the change at its largest; of requests at the smallest amount, too: none at all counts as a default amount to some plugins."""
    outcome = await trials.run((*others, (change, change.levels)))
    if outcome.node or change.kind != "request" or change.levels == 1:
        return change.levels, outcome
    return change.levels - 1, await trials.run((*others, (change, change.levels - 1)))


async def _smallest(trials: Trials, others: tuple[Sized, ...], sized: Sized, outcome: TrialOutcome) -> Suggestion | None:
    """Make the change, which suffices at this level beside the others, as small as it may be. None: one node is not enough for it."""
    change, high = sized
    narrow = trials.narrowed(change, outcome.node)
    if narrow is not None:
        change, outcome = narrow, await trials.run((*others, (narrow, 1)))
        if not outcome.node:
            return None
    if isinstance(change, PodsRemoved):
        change, outcome = await _fewest_pods(trials, others, change, outcome)
    low = 0  # at low it does not suffice, at high it does
    likely = trials.likely_level(change, others) if high > FEW_LEVELS else 0
    while high - low > 1:
        if trials.is_exhausted:
            return None  # something smaller may suffice
        middle = likely if low < likely < high else likely - 1 if low < likely - 1 and high == likely else (low + high) // 2
        tried = await trials.run((*others, (change, middle)))
        if tried.node:
            high, outcome = middle, tried
        else:
            low = middle
    return Suggestion((*others, (change, high)), outcome)


async def _fewest_pods(
    trials: Trials, others: tuple[Sized, ...], change: PodsRemoved, outcome: TrialOutcome
) -> tuple[PodsRemoved, TrialOutcome]:
    """Leave each pod where it is that need not go."""
    for pod in change.pods[:MOST_REMOVED]:
        rest = tuple(each for each in change.pods if each != pod)
        if not rest:
            break
        tried = await trials.run((*others, (PodsRemoved(rest), 1)))
        if tried.node:
            change, outcome = PodsRemoved(rest), tried
    return change, outcome
