"""Debugger: a difference counts when it is found at every look, whatever else is found meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from koordsched.clock import VirtualClock
from koordsched.scheduler.debugger import Comparison, Stale, WrongNode
from koordsched.scheduler.debugger.comparison import key_of, pod_name, uid_of
from koordsched.scheduler.debugger.debugger import confirmed


def looks(*found: Comparison) -> Callable[[], Awaitable[Comparison]]:
    """Return a look that finds these, one after the other, and then the last one again and again."""
    left = list(found)

    async def look() -> Comparison:
        return left.pop(0) if len(left) > 1 else left[0]

    return look


async def test_one_look_is_enough_when_nothing_differs(clock: VirtualClock) -> None:
    before = clock.now()
    assert await confirmed(looks(Comparison(nodes=1), Comparison(missed_nodes=("n",)))) == Comparison(nodes=1)
    assert clock.now() == before


async def test_another_difference_every_time_is_none(clock: VirtualClock) -> None:
    before = clock.now()
    found = await confirmed(looks(Comparison(missed_pods=("a",)), Comparison(missed_pods=("b",), redundant_pods=("a",), pods=3)))
    assert found == Comparison(pods=3)
    assert clock.now() - before == 1


async def test_what_is_found_every_time_is_reported_after_five_seconds(clock: VirtualClock) -> None:
    before = clock.now()
    found = await confirmed(looks(Comparison(missed_pods=("a", "b"), redundant_nodes=("n",)), Comparison(missed_pods=("b", "c"))))
    assert found == Comparison(missed_pods=("b",))
    assert clock.now() - before == 5


async def test_a_column_is_the_same_difference_with_other_values(clock: VirtualClock) -> None:
    first = Comparison(wrong_nodes=(WrongNode("n", "pods", ["a"], []), WrongNode("n", "ports", [], [80])))
    found = await confirmed(looks(first, Comparison(wrong_nodes=(WrongNode("n", "pods", ["a", "b"], ["b"]),))))
    assert found.wrong_nodes == (WrongNode("n", "pods", ["a", "b"], ["b"]),)


async def test_a_watch_that_is_behind_but_moves_is_not_stale(clock: VirtualClock) -> None:
    first = Comparison(stale=(Stale("pod", "moves", "1", "2"), Stale("pod", "stuck", "1", "2")))
    found = await confirmed(looks(first, Comparison(stale=(Stale("pod", "moves", "2", "3"), Stale("pod", "stuck", "1", "4")))))
    assert found.stale == (Stale("pod", "stuck", "1", "4"),)


def test_two_comparisons_together_have_what_either_found_once() -> None:
    one = Comparison(missed_pods=("b", "a"), wrong_nodes=(WrongNode("n", "pods", [1], []),), nodes=2, pods=3)
    other = Comparison(missed_pods=("a", "c"), stale=(Stale("node", "n", "1", "2"),), unreadable=("node x",))
    assert one.merged(other) == Comparison(
        missed_pods=("a", "b", "c"), wrong_nodes=one.wrong_nodes, stale=other.stale, unreadable=("node x",), nodes=2, pods=3
    )


@pytest.mark.parametrize("uid", ["u1", "u (1)", ""])
def test_a_pods_name_in_a_report_gives_back_its_key_and_uid(uid: str) -> None:
    name = pod_name("ns/p", uid)
    assert (name, key_of(name), uid_of(name)) == (f"ns/p ({uid})", "ns/p", uid)
