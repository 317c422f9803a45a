"""Members of a group placed as a plan says: what a plan learns from nodes that refuse, and that there is an end to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.builders import pod

from koordsched.framework.interface import GroupRefusal
from koordsched.framework.status import Status, unschedulable
from koordsched.scheduler import planned_group
from koordsched.scheduler.attempt import Attempt
from koordsched.scheduler.planned_group import PlannedGroup

FULL = unschedulable("full")


class Turn:
    """Places members as long as their node has room. room: how many each node takes; a member in `refused_anywhere` fits nowhere."""

    def __init__(self, room: Mapping[str, int], refused_anywhere: Sequence[str] = ()) -> None:
        self.room = room
        self.refused_anywhere = refused_anywhere
        self.placed: dict[str, str] = {}
        self.tried: list[str] = []
        self.taken_back = 0
        self.refused_by_node: Status | None = None

    async def place_member(self, attempt: Attempt, planned: str = "") -> str:
        key = attempt.pod.key
        self.tried.append(f"{attempt.pod.pod.metadata.name} {planned}")
        self.refused_by_node = None
        if key in self.refused_anywhere:
            return "no member of anything"
        if list(self.placed.values()).count(planned) == self.room.get(planned, 0):
            self.refused_by_node = FULL
            return f"{planned} is full"
        self.placed[key] = planned
        return ""

    def take_back_all(self) -> object:
        self.placed.clear()
        self.taken_back += 1
        return None

    def refusal(self, member: str, message: str) -> GroupRefusal:
        return GroupRefusal("", member, message, len(self.placed), frozenset({"P"}))


class Plan:
    """Fills node after node by what it believes of their slots, and learns."""

    def __init__(self, slots: dict[str, int], members: Sequence[str], *, stubborn: bool = False) -> None:
        self.slots = slots
        self.members = members
        self.stubborn = stubborn
        self.cost = 0
        self.learned: list[tuple[str, int, Status]] = []
        self._given: dict[str, str] = {}

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        places = [node for node, count in self.slots.items() for _ in range(count)]
        if len(places) < len(self.members):
            return GroupRefusal("g", "", "no plan", 0)
        self._given = dict(zip(self.members, places, strict=False))
        return self._given

    def refused(self, member: str, before: int, status: Status) -> None:
        self.learned.append((member, before, status))
        if not self.stubborn:
            self.slots[self._given[member]] = before


def attempts(*names: str, cpu: str = "1") -> dict[str, Attempt]:
    nothing: Any = None
    found = {}
    for name in names:
        info = pod(name).cpu(cpu).info()
        info.shape = "s"  # any value that equal pods share
        queued: Any = type("Queued", (), {"key": info.key})
        found[info.key] = Attempt(queued, info, nothing, 0.0)
    return found


async def placed(turn: Turn, plan: Plan, members: dict[str, Attempt]) -> GroupRefusal | None:
    return await PlannedGroup(turn, next(iter(members.values()))).place(plan, members)


async def test_a_plan_that_holds_is_followed_in_its_order() -> None:
    members = attempts("a", "b", "c")
    turn, plan = Turn({"n1": 2, "n2": 1}), Plan({"n1": 2, "n2": 1}, list(members))
    assert await placed(turn, plan, members) is None
    assert turn.placed == {"default/a": "n1", "default/b": "n1", "default/c": "n2"}
    assert (turn.tried, turn.taken_back, plan.learned) == (["a n1", "b n1", "c n2"], 0, [])


async def test_a_node_that_takes_fewer_is_learned_once_a_pass_and_the_members_are_placed_anew() -> None:
    members = attempts("a", "b", "c")
    turn, plan = Turn({"n1": 1, "n2": 2}), Plan({"n1": 3, "n2": 2}, list(members))
    assert await placed(turn, plan, members) is None
    assert plan.learned == [("default/b", 1, FULL)]
    assert turn.tried == ["a n1", "b n1", "a n1", "b n2", "c n2"], "c is not tried where b was refused"
    assert turn.placed == {"default/a": "n1", "default/b": "n2", "default/c": "n2"}
    assert turn.taken_back == 1


async def test_members_that_are_not_alike_are_tried_on_a_node_that_refused_another() -> None:
    members = attempts("a", "b") | attempts("c", cpu="2")
    list(members.values())[2].pod.shape = "other"
    turn, plan = Turn({"n1": 1, "n2": 3}), Plan({"n1": 3, "n2": 3}, list(members))
    assert await placed(turn, plan, members) is None
    assert turn.tried[:3] == ["a n1", "b n1", "c n1"]
    assert [member for member, _, _ in plan.learned] == ["default/b", "default/c"]


async def test_without_a_plan_nothing_is_left_placed() -> None:
    members = attempts("a", "b")
    turn, plan = Turn({"n1": 1}), Plan({"n1": 2}, list(members))
    assert await placed(turn, plan, members) == GroupRefusal("g", "", "no plan", 0)
    assert (turn.placed, turn.taken_back) == ({}, 1)


async def test_a_member_that_is_refused_whatever_its_node_is_the_reason_of_the_group() -> None:
    members = attempts("a", "b", "c")
    turn, plan = Turn({"n1": 3}, refused_anywhere=["default/b"]), Plan({"n1": 3}, list(members))
    refusal = GroupRefusal("", "default/b", "no member of anything", 1, frozenset({"P"}))
    assert await placed(turn, plan, members) == refusal, "one was placed until then"
    assert (turn.placed, turn.taken_back, plan.learned) == ({}, 1, [])


async def test_what_plans_cost_counts_as_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan leads to two placements, of which the last is refused."""
    monkeypatch.setattr(planned_group, "MOST_TRIES", 20)
    tried = {}
    for cost in (1, 10):
        members = attempts("a", "b")
        turn, plan = Turn({"n1": 1}), Plan({"n1": 2}, list(members), stubborn=True)
        plan.cost = cost
        assert await placed(turn, plan, members) is not None
        tried[cost] = len(turn.tried)
    assert tried == {1: 16, 10: 4}


async def test_a_large_group_has_a_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_group, "MOST_TRIES", 1)
    members = attempts("a", "b", "c", "d", "e")
    turn, plan = Turn({"n1": 2, "n2": 3}), Plan({"n1": 5, "n2": 3}, list(members))
    assert await placed(turn, plan, members) is None
    assert len(turn.tried) == 8, "three were refused by n1 or not tried there, and all five placed anew"


async def test_a_plan_that_never_learns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_group, "MOST_TRIES", 5)
    members = attempts("a", "b")
    turn, plan = Turn({"n1": 1}), Plan({"n1": 2}, list(members), stubborn=True)
    refusal = await placed(turn, plan, members)
    assert refusal == GroupRefusal("", "default/a", "no plan stood the test of 8 placements: n1 is full", 0)
    assert (len(turn.tried), turn.placed, turn.taken_back) == (8, {}, 4)
