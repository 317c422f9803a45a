"""Quantities written as k8s.io/apimachinery's resource.Quantity writes them, for amounts that scheduling puts into objects.

A Quantity remembers in which of three formats it was written, and sums and shares keep it: half of "8Gi" is "4Gi", half of "8G" is "4G".
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from koordsched.api.quantity import NANO_PER_UNIT

if TYPE_CHECKING:
    from koordsched.api.core import Quantity

_EXPONENT = re.compile(r"[0-9.][eE][+-]?[0-9]+\s*$", re.ASCII)
_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI = 1024
_THREE = 3  # decimal suffixes stand for powers of 1000


class QuantityFormat(Enum):
    """What follows the number."""

    DECIMAL_SI = "DecimalSI"  # 38500m, 4, 2k, 1G
    BINARY_SI = "BinarySI"  # 8Gi
    DECIMAL_EXPONENT = "DecimalExponent"  # 4e9


def format_of(quantity: Quantity) -> QuantityFormat:
    """Return the format in which a quantity is written; a JSON number is DecimalSI."""
    if isinstance(quantity, str):
        if quantity.rstrip().endswith("i"):
            return QuantityFormat.BINARY_SI
        if "e" in quantity.lower() and _EXPONENT.search(quantity):  # E alone is exa
            return QuantityFormat.DECIMAL_EXPONENT
    return QuantityFormat.DECIMAL_SI


def quantity_text(nanos: int, written: QuantityFormat) -> str:
    """Write an exact amount of nano-units in its canonical form. What is below 1024 or no whole number is never written in binary."""
    units, rest = divmod(nanos, NANO_PER_UNIT)
    if written is QuantityFormat.BINARY_SI and not rest and abs(units) >= _KIBI:
        return _binary(units)
    mantissa, exponent = _decimal(nanos)
    if written is QuantityFormat.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[exponent]}"


def _binary(units: int) -> str:
    power = 0
    while units % _KIBI == 0 and power < len(_BINARY_SUFFIXES) - 1:
        units //= _KIBI
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _decimal(nanos: int) -> tuple[int, int]:
    """Return the mantissa and the exponent, a multiple of three, with the smallest whole mantissa."""
    mantissa, exponent = nanos, -9
    while mantissa and mantissa % 1000 == 0 and exponent < max(_DECIMAL_SUFFIXES):
        mantissa //= 1000
        exponent += _THREE
    return (mantissa, exponent) if mantissa else (0, 0)
