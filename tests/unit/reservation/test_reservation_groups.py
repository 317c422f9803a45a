"""Indexes in which most keys have one value."""

from __future__ import annotations

import pytest

from koordsched.plugins.reservation.groups import members, put, take


def test_values_of_a_key_come_in_the_order_in_which_they_were_put() -> None:
    index: dict[str, str | tuple[str, ...]] = {}
    seen = []
    for value in "abc":
        put(index, "k", value)
        seen.append(members(index.get("k")))
    assert seen == [("a",), ("a", "b"), ("a", "b", "c")]
    assert members(index.get("absent")) == ()


@pytest.mark.parametrize(("first", "left"), [("a", ("b", "c")), ("b", ("a", "c")), ("c", ("a", "b"))])
def test_a_key_is_there_until_its_last_value_is_taken(first: str, left: tuple[str, ...]) -> None:
    index: dict[str, str | tuple[str, ...]] = {"k": ("a", "b", "c")}
    take(index, "k", first)
    assert members(index["k"]) == left
    take(index, "k", left[1])
    assert members(index["k"]) == (left[0],)
    take(index, "k", left[0])
    assert index == {}
    with pytest.raises(KeyError):
        take(index, "k", first)
