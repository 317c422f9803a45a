"""Amounts are written as resource.Quantity writes them."""

import pytest

from koordsched.api.quantity import QuantityFormat, format_of, nano, quantity_text


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("8Gi", QuantityFormat.BINARY_SI),
        ("8G", QuantityFormat.DECIMAL_SI),
        ("38500m", QuantityFormat.DECIMAL_SI),
        ("5E", QuantityFormat.DECIMAL_SI),
        ("5E3", QuantityFormat.DECIMAL_EXPONENT),
        ("1.5e3", QuantityFormat.DECIMAL_EXPONENT),
        (4, QuantityFormat.DECIMAL_SI),
        (1.5, QuantityFormat.DECIMAL_SI),
    ],
)
def test_the_format_is_the_one_that_was_written(quantity: str | float, expected: QuantityFormat) -> None:
    assert format_of(quantity) is expected


@pytest.mark.parametrize(
    ("quantity", "written", "text"),
    [
        ("38500m", QuantityFormat.DECIMAL_SI, "38500m"),
        ("22000m", QuantityFormat.DECIMAL_SI, "22"),
        ("4000", QuantityFormat.DECIMAL_SI, "4k"),
        ("4096", QuantityFormat.DECIMAL_SI, "4096"),
        ("4294967296", QuantityFormat.BINARY_SI, "4Gi"),
        ("1610612736", QuantityFormat.BINARY_SI, "1536Mi"),
        ("1025", QuantityFormat.BINARY_SI, "1025"),
        ("1000", QuantityFormat.BINARY_SI, "1k"),  # below 1024: not in binary
        ("1500m", QuantityFormat.BINARY_SI, "1500m"),  # no whole number: not in binary
        ("4e9", QuantityFormat.DECIMAL_EXPONENT, "4e9"),
        ("4500", QuantityFormat.DECIMAL_EXPONENT, "4500"),
        ("0", QuantityFormat.BINARY_SI, "0"),
        ("0", QuantityFormat.DECIMAL_EXPONENT, "0"),
        ("1n", QuantityFormat.DECIMAL_SI, "1n"),
        ("9E", QuantityFormat.DECIMAL_SI, "9E"),
    ],
)
def test_an_amount_is_written_in_its_canonical_form(quantity: str, written: QuantityFormat, text: str) -> None:
    assert quantity_text(nano(quantity), written) == text
