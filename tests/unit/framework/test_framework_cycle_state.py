"""CycleState: what a copy shares with its original, and what not."""

from __future__ import annotations

from koordsched.framework.cycle_state import CycleState


def state_with(**values: object) -> CycleState:
    state = CycleState()
    for key, value in values.items():
        state.write(key, value)
    return state


def test_a_clone_reads_what_was_written_before() -> None:
    value = object()
    assert state_with(a=value).clone().read("a") is value


def test_what_a_clone_writes_or_deletes_is_its_own() -> None:
    state = state_with(a=1, b=2)
    writing, deleting = state.clone(), state.clone()
    writing.write("a", 3)
    deleting.delete("b")
    assert [each.read("a") for each in (state, writing, deleting)] == [1, 3, 1]
    assert [each.read("b") for each in (state, writing, deleting)] == [2, 2, None]


def test_what_the_original_writes_or_deletes_later_does_not_reach_a_clone() -> None:
    state = state_with(a=1, b=2)
    clone = state.clone()
    state.write("a", 3)
    state.delete("b")
    assert (clone.read("a"), clone.read("b")) == (1, 2)
    assert (state.read("a"), state.read("b")) == (3, None)


def test_clones_of_clones_stand_alone() -> None:
    first = state_with(a=1).clone()
    second = first.clone()
    first.write("a", 2)
    second.write("a", 3)
    assert (first.read("a"), second.read("a")) == (2, 3)


def test_a_clone_is_sampled_if_the_original_is() -> None:
    state = CycleState()
    state.sampled = True
    assert state.clone().sampled
