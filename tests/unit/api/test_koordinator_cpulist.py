"""CPU lists."""

from __future__ import annotations

import pytest

from koordsched.api.koordinator.cpulist import cpu_ids, format_cpus, mask_of, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", []), ("3", [3]), ("0-3,8", [0, 1, 2, 3, 8]), ("8,0-1,1", [0, 1, 8]), (" 1 , 2-3 ", [1, 2, 3]), ("4096", [4096])],
)
def test_a_list_is_read(text: str, cpus: list[int]) -> None:
    assert list(cpu_ids(parse_cpus(text))) == cpus


@pytest.mark.parametrize("text", ["a", "1,,2", "1-", "-1", "3-1", "4097", "0-9999999999", "1-2-3", "٣-x", "٣"])
def test_junk_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_cpus(text)


def test_a_refusal_names_the_part() -> None:
    with pytest.raises(ValueError, match="'5-2' is not an ascending range of CPUs up to 4096"):
        parse_cpus("0-3,5-2")


def test_a_list_is_written_sorted_with_ranges() -> None:
    assert format_cpus(mask_of({8, 0, 1, 2, 3, 10, 11})) == "0-3,8,10-11"
    assert format_cpus(0) == ""
