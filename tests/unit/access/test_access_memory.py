"""What is remembered, for how long, and what is forgotten first."""

from __future__ import annotations

import pytest

from koordsched.server.access.memory import Memory


class Watch:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_holds_for_its_time() -> None:
    watch = Watch()
    memory = Memory[str](watch, 2)
    memory.put("a", "x", 5.0)
    watch.now = 104.9
    assert memory.get("a") == "x"
    watch.now = 105.0
    assert memory.get("a") is None


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_a_time_nothing_is_remembered(seconds: float) -> None:
    memory = Memory[str](Watch(), 2)
    memory.put("a", "x", seconds)
    assert memory.get("a") is None


def test_the_least_recently_used_answer_is_forgotten_first() -> None:
    memory = Memory[str](Watch(), 2)
    for key in ("a", "b"):
        memory.put(key, key, 5.0)
    memory.get("a")
    memory.put("c", "c", 5.0)
    assert [memory.get(key) for key in ("a", "b", "c")] == ["a", None, "c"]
