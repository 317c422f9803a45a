"""What the members of a group say whose turn was undone (coscheduling.md §5)."""

from __future__ import annotations

from koordsched.framework.interface import GroupRefusal
from koordsched.scheduler.group_messages import GroupMessages

REFUSAL = GroupRefusal("default/g", "default/b", "0/7 nodes are available: 7 Insufficient cpu.", 1)


def test_members_say_whether_they_lack_something_had_a_node_or_were_not_tried() -> None:
    found = GroupMessages(REFUSAL, {"default/a"}, 7, "refused for b", ("no victims", "b has tried"))
    assert found.of("default/b") == "0/7 nodes are available: 7 Insufficient cpu. no victims"
    assert found.of("default/a") == "0/1 nodes are available: 1 refused for b."
    assert found.of("default/c") == "0/7 nodes are available: refused for b. b has tried"


def test_nothing_is_said_of_preemption_where_none_was_tried() -> None:
    found = GroupMessages(REFUSAL, (), 7, "refused for b", ("", ""))
    assert found.of("default/b") == "0/7 nodes are available: 7 Insufficient cpu."
    assert found.of("default/c") == "0/7 nodes are available: refused for b."
