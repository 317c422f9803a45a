"""Why the reservations that a pod could own are of no use to it, which its condition says after why no node is (reservation.md §10)."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from koordsched.plugins.reservation.matching import Outcome, classify
from koordsched.plugins.reservation.reasons import OF_RESERVATION

if TYPE_CHECKING:
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.plugins.reservation.info import ReservationInfo
    from koordsched.plugins.reservation.matching import Matcher
    from koordsched.plugins.reservation.state import ReservationState

NODES_FIRST = re.compile(r"0/[0-9]+ nodes are available: ")
PARTS = re.compile(r", |\. ")
OWNER_TOTAL = re.compile(r"([0-9]+) Reservation\(s\) matched owner total")
RESERVATION_PART = re.compile(r"[0-9]+ Reservation\(s\) .+")
BY_NAME = "exactly matches the requested reservation name"
BY_NODE = "for node reason that"


def reservation_reasons(state: ReservationState, matcher: Matcher, diagnosis: Diagnosis, rows: dict[str, int]) -> list[str]:
    """Return what happened to the reservations whose owner the pod is; [] where there are none and the pod needs none.

    rows: of the live nodes by name. O(these reservations).
    """
    demand = matcher.demand
    totals: Counter[Outcome] = Counter()
    taints: Counter[str] = Counter()
    remaining: Counter[str] = Counter()  # by node: reservations that matching did not rule out, or that the pod names
    named = owned = 0
    for info in _owned(matcher):
        owned += 1
        found = classify(demand, info, state.node_labels(info.node_name))
        if found.outcome is Outcome.TAINTED:
            taints[found.taint] += 1
        elif found.outcome is Outcome.MATCHED:
            named += bool(demand.name)
            remaining[info.node_name] += 1
        else:
            totals[found.outcome] += 1
    if not owned and not demand.required:
        return []
    of_nodes: Counter[str] = Counter()
    for node_name, count in remaining.items():
        row = rows.get(node_name)
        status = None if row is None else diagnosis.status_of(row)
        reasons = () if status is None else status.reasons
        left = count - sum(reason.startswith(OF_RESERVATION) for reason in reasons)
        if left > 0:
            for reason in reasons:
                if not reason.startswith(OF_RESERVATION):
                    of_nodes[reason] += left
    counted = [
        (named, BY_NAME),
        (totals[Outcome.NAME_UNMATCHED], "didn't match the requested reservation name"),
        (totals[Outcome.AFFINITY_UNMATCHED], "didn't match affinity rules"),
        (totals[Outcome.UNSCHEDULABLE], "is unschedulable"),
        (totals[Outcome.NOT_EXACT], "is not exact matched"),
        *[(count, f"had untolerated taint {taint}") for taint, count in sorted(taints.items())],
        *[(count, f"{BY_NODE} {reason}") for reason, count in sorted(of_nodes.items())],
    ]
    return [f"{count} {OF_RESERVATION}{text}" for count, text in counted if count] + [f"{owned} {OF_RESERVATION}matched owner total"]


def _owned(matcher: Matcher) -> list[ReservationInfo]:
    """Return the matchable reservations whose owners the matcher's pods are."""
    return [info for spec in matcher.specs for info in spec.reservations if info.matchable]


def without_nodes(message: str) -> str | None:
    """Return what a pod's condition says of its reservations alone (frameworkext.md §4.1); None where it does not say how many they are."""
    start = NODES_FIRST.match(message.strip())
    parts = [part.strip(". ") for part in PARTS.split(message.strip()[start.end() :])] if start is not None else []
    total = next((found[1] for part in parts if (found := OWNER_TOTAL.fullmatch(part)) is not None), None)
    if total is None:
        return None
    said = [part for part in parts if RESERVATION_PART.fullmatch(part) and not OWNER_TOTAL.fullmatch(part)]
    said.sort(key=lambda part: (not part.endswith(BY_NAME), f"{OF_RESERVATION}{BY_NODE}" in part))
    return f"0/{total} reservations are available: {', '.join(said)}."
