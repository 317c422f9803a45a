"""Go durations: what time.ParseDuration reads and Duration.String writes (values from Go's documentation and time_test.go)."""

from __future__ import annotations

import pytest

from koordsched.config.duration import Duration, DurationError, format_nanoseconds, parse_nanoseconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5s", 5),
        ("30s", 30),
        ("1478s", 1478),
        ("-5s", -5),
        ("+5s", 5),
        ("5.6s", 5.6),
        ("5.s", 5),
        (".5s", 0.5),
        ("1m30s", 90),
        ("1h0m0s", 3600),
        ("3h30m", 12600),
        ("100ms", 0.1),
        ("11us", 11e-6),
        ("12µs", 12e-6),
        ("13ns", 13e-9),
        ("1.5h", 5400),
    ],
)
def test_a_duration_is_the_sum_of_its_numbers_with_units(text: str, seconds: float) -> None:
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("3", 'time: missing unit in duration "3"'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".", 'time: invalid duration "."'),
        ("\n", r'time: invalid duration "\x0a"'),
        ('1"\\\xa0', r'time: unknown unit "\"\\\xc2\xa0" in duration "1\"\\\xc2\xa0"'),
        ("10x", 'time: unknown unit "x" in duration "10x"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("1" * 200 + "s", f'time: invalid duration "{"1" * 60}..."'),
    ],
)
def test_what_is_no_duration_is_refused_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(DurationError) as refused:
        Duration.parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (3_600_000_000_000, "1h0m0s"),
        (60_000_000_000, "1m0s"),
        (-1_500_000_000, "-1.5s"),
    ],
)
def test_a_duration_is_written_with_hours_minutes_and_seconds_or_one_smaller_unit(nanoseconds: int, text: str) -> None:
    assert format_nanoseconds(nanoseconds) == text
    assert parse_nanoseconds(text) == nanoseconds


def test_a_duration_is_a_number_of_seconds_that_knows_its_text() -> None:
    assert Duration(90) + 1 == 91
    assert Duration(90).text == "1m30s"
    assert Duration(0.1).text == "100ms"
