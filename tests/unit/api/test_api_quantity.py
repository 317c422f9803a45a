"""Quantities. Expected values of the table were printed by k8s.io/apimachinery v0.35.2 (ParseQuantity, Value, MilliValue)."""

from __future__ import annotations

import pytest

from koordsched.api.quantity import MAX_INT64, QuantityError, milli_value, millis, nano, units, value

FROM_GO = [
    ("0", 0, 0),
    ("1", 1, 1000),
    ("+1", 1, 1000),
    ("100m", 1, 100),
    ("1500m", 2, 1500),
    ("0.5m", 1, 1),
    ("1u", 1, 1),
    ("1n", 1, 1),
    ("1001n", 1, 1),
    ("0.1", 1, 100),
    (".5", 1, 500),
    ("5.", 5, 5000),
    ("007", 7, 7000),
    ("1k", 1000, 1000000),
    ("1Ki", 1024, 1024000),
    ("1.5Gi", 1610612736, 1610612736000),
    ("0.1Ki", 103, 102400),
    ("1E", 10**18, None),
    ("1Ei", 2**60, None),
    ("1e3", 1000, 1000000),
    ("1E3", 1000, 1000000),
    ("1e-3", 1, 1),
    ("1.5e+2", 150, 150000),
    ("2e00", 2, 2000),
    ("123456789.987654321", 123456790, 123456789988),
    ("0.0000000001", 1, 1),
    ("9223372036854775807", 2**63 - 1, None),
    ("-1", -1, -1000),
    ("-1500m", -2, -1500),
]


@pytest.mark.parametrize(("text", "whole", "milli"), FROM_GO)
def test_a_quantity_has_the_value_that_kubernetes_gives_it(text: str, whole: int, milli: int | None) -> None:
    assert value(text) == whole
    if milli is not None:
        assert milli_value(text) == milli


NOT_QUANTITIES = ["", " ", ".", "+", "-", "k", "Ki", "4x", "1K", "1i", "1mi", "1ki", "1e", "1e+", "1e1.5", "1.2.3", "--1", "1 Gi", "0x10"]
NOT_QUANTITIES += ["1_000", "\uff11", "1Kie3", "inf", "nan", "1e9999999999999999999", "m1", "1Ki\x00", "9" * 2000]


@pytest.mark.parametrize("text", NOT_QUANTITIES)
def test_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        value(text)
    assert caught.value.value == text


def test_the_error_shows_the_value_and_what_was_expected() -> None:
    with pytest.raises(QuantityError) as caught:
        value("4x")
    assert str(caught.value) == '"4x" is not a quantity: expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent'
    located = caught.value.at("spec.overhead[cpu]")
    assert (located.path, located.value) == ("spec.overhead[cpu]", "4x")
    assert str(located).startswith('spec.overhead[cpu]: "4x" is not a quantity')


def test_a_long_value_is_shortened_in_the_error() -> None:
    with pytest.raises(QuantityError) as caught:
        value("y" * 500)
    assert len(str(caught.value)) < 200


def test_white_space_around_a_quantity_is_dropped_as_in_json_decoding() -> None:
    assert value(" 2Ki\n") == 2048


def test_json_numbers_are_quantities() -> None:
    assert (value(3), milli_value(3)) == (3, 3000)
    assert (value(0.1), milli_value(0.1)) == (1, 100)
    assert value(1e22) == MAX_INT64
    assert milli_value(1.5e-07) == 1


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), True, None, b"1"])
def test_what_is_no_number_and_no_text_is_refused(wrong: object) -> None:
    with pytest.raises(QuantityError):
        value(wrong)


def test_rounding_is_away_from_zero() -> None:
    assert value("1.000000001") == 2
    assert value("-1.000000001") == -2
    assert milli_value("0.0001") == 1
    assert milli_value("-0.0001") == -1


@pytest.mark.parametrize("text", ["8Ei", "10E", "1e30", "9223372036854775808", "1e500000", "99999999999999999999Ki"])
def test_what_int64_cannot_hold_is_its_maximum(text: str) -> None:
    assert value(text) == MAX_INT64
    assert value(f"-{text}") == -MAX_INT64


def test_milli_units_that_int64_cannot_hold_are_its_maximum() -> None:
    assert milli_value("1Ei") == MAX_INT64
    assert milli_value("-1Ei") == -MAX_INT64
    assert milli_value(10**400) == MAX_INT64


def test_a_little_is_never_nothing() -> None:
    assert nano("1e-999999999") == 1
    assert nano("0.0000000001") == 1
    assert nano("0e-999999999") == 0


def test_sums_of_exact_values_are_rounded_once() -> None:
    assert millis(nano("0.5m") + nano("0.5m")) == 1
    assert milli_value("0.5m") + milli_value("0.5m") == 2
    assert units(nano("0.25") * 4) == 1
