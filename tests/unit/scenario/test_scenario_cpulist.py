"""CPU lists."""

from __future__ import annotations

import pytest

from koordsched.scenario.cpulist import format_cpus, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", set()), ("3", {3}), ("0-3,8", {0, 1, 2, 3, 8}), ("8,0-1,1", {0, 1, 8}), (" 1 , 2-3 ", {1, 2, 3}), ("4096", {4096})],
)
def test_a_list_is_read(text: str, cpus: set[int]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["a", "1,,2", "1-", "-1", "3-1", "4097", "0-9999999999", "1-2-3", "٣-x"])
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_cpus(text)


def test_a_list_is_written_sorted_with_ranges() -> None:
    assert format_cpus({8, 0, 1, 2, 3, 10, 11}) == "0-3,8,10-11"
    assert format_cpus([]) == ""
