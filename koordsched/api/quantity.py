"""Quantities ("500m", "1.5Gi", "2e3") read and written exactly as k8s.io/apimachinery's resource.Quantity does.

A quantity is a multiple of 10^-9, so its exact value is an int of nano-units (`nano`): sums are made of those and rounded once, at the
end, as Kubernetes sums Quantities and then takes Value() or MilliValue(). Rounding is away from zero, and what int64 cannot hold becomes
the largest int64 (Kubernetes documents that cap, and v1.35 keeps it for binary suffixes; for the others its Value() yields 0 instead).
Parsing is memoised because a cluster repeats the same few strings.

Amounts that scheduling puts into objects are written by `quantity_text`. A Quantity remembers in which of three formats it was written, and
sums and shares keep it: half of "8Gi" is "4Gi", half of "8G" is "4G".
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koordsched.api.core import Quantity


MAX_INT64 = 2**63 - 1
NANO_PER_UNIT = 10**9
NANO_PER_MILLI = 10**6

_MAX_NANO = MAX_INT64 * NANO_PER_UNIT
_MAX_TEXT = 1000  # characters: far beyond any number, and below the length from which Python refuses to convert digits
_MAX_EXPONENT = 2 * _MAX_TEXT  # beyond it only "too large" or "too small" matters
_SHOWN_TEXT = 60

EXPECTED = "a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent"

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,18}))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}


_EXPONENT = re.compile(r"[0-9.][eE][+-]?[0-9]+\s*$", re.ASCII)
_DECIMAL_SUFFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI = 1024
_THREE = 3  # decimal suffixes stand for powers of 1000


class QuantityError(ValueError):
    """A value that is no quantity. `path` says where it stands ("" when the reader of a bare value raised it)."""

    def __init__(self, value: object, path: str = "") -> None:
        self.value = value
        self.path = path
        super().__init__(f"{path}: {self.problem}" if path else self.problem)

    @property
    def problem(self) -> str:
        """Say what is wrong, without the path."""
        return f"{_shown(self.value)} is not a quantity: expected {EXPECTED}"

    def at(self, path: str) -> QuantityError:
        """Return the same error with the place where the value stands."""
        return type(self)(self.value, path)


class NegativeQuantityError(QuantityError):
    """A quantity below zero where only amounts make sense: what is requested."""

    @property
    def problem(self) -> str:
        return f"{_shown(self.value)} is negative"


@lru_cache(maxsize=16384, typed=True)
def nano(quantity: Quantity) -> int:
    """Return the exact value in units of 10^-9, at most int64's maximum of whole units in magnitude; QuantityError when it is none."""
    if isinstance(quantity, str):
        return _parse(quantity)
    if isinstance(quantity, bool):
        raise QuantityError(quantity)
    if isinstance(quantity, int):
        return _capped(quantity * NANO_PER_UNIT)
    if isinstance(quantity, float):
        return _parse(repr(quantity))
    raise QuantityError(quantity)


@lru_cache(maxsize=16384, typed=True)
def value(quantity: Quantity) -> int:
    """Return whole units (bytes, devices, pods), rounded away from zero, within int64."""
    return units(nano(quantity))


@lru_cache(maxsize=16384, typed=True)
def milli_value(quantity: Quantity) -> int:
    """Return thousandths (milli-CPUs), rounded away from zero, within int64."""
    return millis(nano(quantity))


def units(nanos: int) -> int:
    """Round an exact sum of nano-units to whole units, away from zero, within int64."""
    return _rounded(nanos, NANO_PER_UNIT)


def millis(nanos: int) -> int:
    """Round an exact sum of nano-units to thousandths, away from zero, within int64."""
    return _rounded(nanos, NANO_PER_MILLI)


def _rounded(nanos: int, divisor: int) -> int:
    if nanos < 0:
        return max(nanos // divisor, -MAX_INT64)
    return min(-(-nanos // divisor), MAX_INT64)


def _parse(text: str) -> int:
    stripped = text.strip()
    match = _GRAMMAR.fullmatch(stripped) if len(stripped) <= _MAX_TEXT else None
    if match is None:
        raise QuantityError(text)
    fraction: str = match["fraction"] or ""
    digits = int(match["whole"] + fraction)
    suffix: str = match["suffix"] or ""
    if suffix in _BINARY:
        digits *= _BINARY[suffix]
        exponent = 0
    else:
        exponent = _DECIMAL.get(suffix, 0) + int(match["exponent"] or 0)
    nanos = _capped(_shifted(digits, exponent - len(fraction) + 9))
    return -nanos if match["sign"] == "-" else nanos


def _shifted(digits: int, exponent: int) -> int:
    """Return digits * 10^exponent, rounded up to a whole number, so that no positive amount becomes 0."""
    power: int = 10 ** min(abs(exponent), _MAX_EXPONENT)
    return digits * power if exponent >= 0 else -(-digits // power)


def _capped(nanos: int) -> int:
    return max(-_MAX_NANO, min(nanos, _MAX_NANO))


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "..."


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
