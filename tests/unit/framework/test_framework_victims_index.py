"""The victims index notes which pods came and went since it was last brought up to date."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

from support.builders import pod
from support.counted import cache_of

from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.koordinator.reserve_pods import reserve_pod
from koordsched.api.meta import ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.framework.preemption.victims_index import FEWEST_NOTED, MAX_NOTED, VictimsIndex

BUDGETS: Any = SimpleNamespace(structure=0, allowances=-1, covering=lambda _pod: 0)


def test_undone_group_turns_leave_nothing_to_note_and_do_not_end_the_index() -> None:
    cache = cache_of("n1")
    victims = VictimsIndex(cache, BUDGETS)
    victims.bring_up_to_date()
    members = [pod(f"m{index}").uid(f"uid-{index}").info() for index in range(3)]
    for _ in range(MAX_NOTED // 4):  # 1.5 times as many entries as are kept, if each were noted
        for info in members:
            cache.assume_pod(info, "n1")
        for info in reversed(members):
            cache.forget_pod(info.uid)
    victims.bring_up_to_date()
    assert victims.rebuilt == 1


def test_pods_that_have_gone_are_not_kept_where_no_preemption_comes_any_more() -> None:
    cache = cache_of("n1")
    victims = VictimsIndex(cache, BUDGETS)
    victims.bring_up_to_date()
    gone = []
    for number in range(3 * FEWEST_NOTED):
        first, second = (pod(f"p{number}-{place}").uid(f"uid-{number}-{place}").info() for place in range(2))
        for info in (first, second):
            cache.assume_pod(info, "n1")
        for info in (first, second):
            cache.forget_pod(info.uid)
        gone.append(weakref.ref(first))
    del first, second, info
    assert sum(ref() is not None for ref in gone) <= FEWEST_NOTED
    victims.bring_up_to_date()
    assert victims.rebuilt == 2
    assert not any(ref() for ref in gone)


def test_a_pod_that_goes_after_another_came_is_noted() -> None:
    cache = cache_of("n1")
    victims = VictimsIndex(cache, BUDGETS)
    first, second = (pod(name).uid(name).info() for name in "ab")
    cache.assume_pod(first, "n1")
    victims.bring_up_to_date()
    cache.assume_pod(second, "n1")
    cache.forget_pod(first.uid)
    index = victims.bring_up_to_date()
    assert victims.rebuilt == 1
    assert [each.uid for each in index.lower_on(cache.nodes_by_name["n1"].row, 100, 0)] == ["b"]


def test_a_reserve_pod_whose_amounts_change_and_that_goes_is_no_matter_of_the_index() -> None:
    cache = cache_of("n1")
    victims = VictimsIndex(cache, BUDGETS)
    victims.bring_up_to_date()
    placeholder, smaller = (PodInfo(reserve_pod(Reservation(metadata=ObjectMeta(name="r", uid="r")))) for _ in range(2))
    cache.assume_pod(placeholder, "n1")
    assert victims.bring_up_to_date().lower_on(cache.nodes_by_name["n1"].row, 100, 0) == []
    cache.resize_pod(smaller)
    cache.forget_pod("r")
    victims.bring_up_to_date()
    assert not victims.any_below(100)
