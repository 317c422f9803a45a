"""The dry run of preemption finds the reference's victims: evict all pods of lower priority, then put back as many as possible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordsched._core.dry_run import DryRun
from koordsched._core.pod_index import PodIndex
from koordsched._core.table import NodeTable, Request

ROOM, PREEMPTOR = {0: 12, 1: 8000}, 4
ROW = np.zeros(1, np.int32)


class Pod(NamedTuple):
    name: str
    priority: int
    milli: int
    budget: int  # of which it is: 1 or 2; 0: none
    excluded: bool


PODS = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from([0, 500, 1000, 2500]), st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([False] * 5 + [True])
    ),
    max_size=12,
).map(lambda drawn: [Pod(f"p{i}", *fields) for i, fields in enumerate(sorted(drawn, key=lambda fields: -fields[0]))])


def cpu(milli: int) -> Request:
    return Request([0, 1], [1, milli], milli, 0)


def expected(pods: list[Pod], milli: int, allowed: dict[int, int], to_release: int) -> tuple[list[str], int] | None:
    """Return the victims, and how many of them violate budgets; None where all of them together are too few."""
    lower = [pod for pod in pods if pod.priority < PREEMPTOR and not pod.excluded]
    left, violating = dict(allowed), set()
    for pod in lower:
        if pod.budget:
            left[pod.budget] -= 1
            if left[pod.budget] < 0:
                violating.add(pod.name)

    def fits(victims: list[Pod]) -> bool:
        rest = [pod for pod in pods if pod not in victims]
        free = ROOM[1] - sum(pod.milli for pod in rest)
        return len(rest) < ROOM[0] and milli <= free and sum(pod.milli for pod in victims) >= to_release

    victims = list(lower)
    if not lower or not fits(victims):
        return None
    for pod in sorted(lower, key=lambda pod: pod.name not in violating):
        if fits([other for other in victims if other != pod]):
            victims.remove(pod)
    return [pod.name for pod in victims], sum(pod.name in violating for pod in victims)


@given(
    pods=PODS,
    milli=st.sampled_from([0, 1000, 4000, 8000]),
    allowed=st.tuples(*[st.integers(0, 2)] * 2),
    to_release=st.sampled_from([0, 0, 3000]),
)
def test_victims_are_those_left_of_all_evicted_when_no_more_can_be_put_back(
    pods: list[Pod], milli: int, allowed: tuple[int, int], to_release: int
) -> None:
    table = NodeTable()
    index = PodIndex(table)
    row = table.acquire_row()
    table.set_allocatable(row, ROOM)
    table.set_live(row, True)
    index.set_budgets(allowed, [(), (0,), (1,)])
    for pod in pods:
        table.add(row, cpu(pod.milli))
        index.add(row, pod.name, pod.priority, cpu(pod.milli), budgets=pod.budget)
        if pod.excluded:
            index.exclude(row, pod.name)
    dry_run = DryRun(index, PodIndex(table), PREEMPTOR, cpu(milli), 0, ((1, to_release),) if to_release else ())
    dry_run.refresh()
    wanted = expected(pods, milli, dict(enumerate(allowed, 1)), to_release)
    assert (dry_run.codes(ROW)[0] == 0) == (wanted is not None)
    if wanted is not None:
        assert dry_run.victims(0) == wanted
