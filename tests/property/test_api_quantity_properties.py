"""Quantities against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.quantity import MAX_INT64, QuantityError, milli_value, millis, nano, units, value

SUFFIXES = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
SUFFIXES |= {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)}
SUFFIXES |= {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)}
SUFFIXES |= {f"e{exponent}": Fraction(10) ** exponent for exponent in range(-12, 19)}

numbers = st.from_regex(r"([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)


def away_from_zero(number: Fraction) -> int:
    return math.ceil(number) if number >= 0 else math.floor(number)


@given(st.sampled_from(["", "+", "-"]), numbers, st.sampled_from(sorted(SUFFIXES)))
def test_a_well_formed_quantity_is_its_number_times_its_suffix_rounded_away_from_zero(sign: str, number: str, suffix: str) -> None:
    exact = Fraction(number if not number.endswith(".") else number[:-1]) * SUFFIXES[suffix] * (-1 if sign == "-" else 1)
    billionths = away_from_zero(exact * 10**9)
    text = f"{sign}{number}{suffix}"
    if abs(exact) <= MAX_INT64:
        assert nano(text) == billionths
    assert value(text) == max(-MAX_INT64, min(away_from_zero(Fraction(billionths, 10**9)), MAX_INT64))
    assert milli_value(text) == max(-MAX_INT64, min(away_from_zero(Fraction(billionths, 10**6)), MAX_INT64))


@given(st.text(alphabet="0123456789.eE+-numkKMGTPi ", max_size=12) | st.text(max_size=20) | st.integers() | st.floats())
def test_whatever_is_given_is_a_quantity_within_int64_or_refused(given_value: str | int | float) -> None:
    try:
        whole, milli = value(given_value), milli_value(given_value)
    except QuantityError:
        return
    assert abs(whole) <= abs(milli) <= MAX_INT64
    assert whole == units(nano(given_value))
    assert milli == millis(nano(given_value))


@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_an_integer_and_its_text_are_the_same_quantity(number: int) -> None:
    assert value(number) == value(str(number)) == number


@given(st.floats(min_value=0, max_value=1e18))
def test_a_json_number_is_read_by_its_shortest_text(number: float) -> None:
    assert nano(number) == nano(repr(number))
