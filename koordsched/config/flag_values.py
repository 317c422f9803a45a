"""The text of a flag's value to the value, by the flag's type, with the error texts of Go's parsers (pflag's value types)."""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from koordsched.api.quantity import QuantityError, nano
from koordsched.config.decoding import MAX_FLOAT32
from koordsched.config.duration import Duration, DurationError
from koordsched.config.errors import ConfigError
from koordsched.config.features import parse_bool
from koordsched.config.flag_table import UNSPLIT, Flags
from koordsched.config.loading import documents_of, read_file

_INTEGER = r"([-+]?)(?:0[xX]([0-9a-fA-F]{1,40})|0[bB]([01]{1,99})|0[oO]?([0-7]{1,40})|(0|[1-9][0-9]{0,40}))"
_FLOAT = r"[-+]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,5})?"


class BadValueError(ValueError):
    """A flag's value is not of its type; the text is the one of Go's parser."""


def read_value(name: str, annotation: Any, text: str) -> Any:
    """Return the value of a flag; BadValueError when the text is none."""
    if name in UNSPLIT:
        return (text,)
    if name in _SPECIAL:
        return _SPECIAL[name](text)
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if kind is str:
        return text
    if get_origin(kind) is tuple:
        return _read_list(text)
    if get_origin(kind) is dict:
        return _read_map(text)
    return _READERS[kind](text)


def read_bool(text: str) -> bool:
    """Return what Go's ParseBool reads."""
    value = parse_bool(text)
    if value is None:
        raise BadValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return value


def _read_integer(text: str, bits: int = 64) -> int:
    match = re.fullmatch(_INTEGER, text, re.ASCII)
    if match is None:
        raise BadValueError(f"strconv.ParseInt: parsing {quoted(text)}: invalid syntax")
    sign, hexadecimal, binary, octal, decimal = match.groups()
    digits, base = (hexadecimal, 16) if hexadecimal else (binary, 2) if binary else (octal, 8) if octal else (decimal, 10)
    value = int(f"{sign}{digits}", base)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise BadValueError(f"strconv.ParseInt: parsing {quoted(text)}: value out of range")
    return value


def read_level(text: str) -> int:
    """Return a verbosity: what Go reads as an unsigned integer of 32 bits."""
    try:
        level = _read_integer(text, bits=33)
    except BadValueError as error:
        raise BadValueError(str(error).replace("ParseInt", "ParseUint")) from None
    if level < 0:
        raise BadValueError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    return level


def read_decimal(text: str) -> int:
    """Return what Go's Atoi reads: a decimal integer of 64 bits."""
    if not re.fullmatch(r"[-+]?[0-9]{1,40}", text, re.ASCII):
        raise BadValueError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise BadValueError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return value


def _read_float(text: str) -> float:
    if not re.fullmatch(_FLOAT, text, re.ASCII):
        raise BadValueError(f"strconv.ParseFloat: parsing {quoted(text)}: invalid syntax")
    value = float(text)
    if abs(value) > MAX_FLOAT32:
        raise BadValueError(f"strconv.ParseFloat: parsing {quoted(text)}: value out of range")
    return value


def _read_duration(text: str) -> Duration:
    try:
        return Duration.parse(text)
    except DurationError as error:
        raise BadValueError(str(error)) from None


def _read_quantity(text: str) -> str:
    try:
        nano(text)
    except QuantityError as error:
        raise BadValueError(error.problem) from None
    return text


def _read_ip(text: str) -> str:
    if text and not is_ip(text.strip()):
        raise BadValueError(f"failed to parse IP: {quoted(text)}")
    return text.strip() or Flags().bind_address


def _read_version(text: str) -> str:
    """Return what to print: "raw", "true" or "false" (nothing)."""
    return text if text == "raw" else "true" if read_bool(text) else "false"


def _read_vmodule(text: str) -> str:
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if not pattern or not level.isdecimal():
            raise BadValueError(f"{quoted(item)} does not have the pattern=N format")
    return text


def _read_list(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        return tuple(next(csv.reader([text], strict=True)))
    except csv.Error as error:
        raise BadValueError(str(error)) from None


def _read_map(text: str) -> dict[str, str]:
    pairs = (text.strip('"'),) if text.count("=") <= 1 else _read_list(text)
    made = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadValueError(f"{pair} must be formatted as key=value")
        made[key] = value
    return made


def read_allowed_labels(path: str) -> dict[str, str]:
    """Return what --allow-metric-labels-manifest says, a YAML mapping of `metric,label` to `value,value`; nothing without a file."""
    if not path:
        return {}
    try:
        documents = documents_of(read_file(path), path)
    except ConfigError as error:
        raise BadValueError(error.errors[0].problem) from None
    for problem in documents[0].problems:
        raise BadValueError(f"{problem.path}: {problem.text}")
    found = documents[0].value
    if not isinstance(found, dict) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise BadValueError('expected a mapping of "metric,label" to "value,value"')
    return found


_READERS: dict[Any, Callable[[str], Any]] = {
    bool: read_bool,
    int: _read_integer,
    float: _read_float,
    Duration: _read_duration,
}
_SPECIAL: dict[str, Callable[[str], Any]] = {
    "bind-address": _read_ip,
    "kube-api-burst": lambda text: _read_integer(text, bits=32),
    "log-json-info-buffer-size": _read_quantity,
    "log-text-info-buffer-size": _read_quantity,
    "v": read_level,
    "version": _read_version,
    "vmodule": _read_vmodule,
}


def is_ip(text: str) -> bool:
    """Answer whether the text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def quoted(text: str) -> str:
    """Write a text as Go's %q does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def written(value: Any) -> str:
    """Write a flag's value as pflag does: true, 1m0s, [a,b], [k=v]."""
    match value:
        case Duration():
            return value.text
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
        case dict():
            return written(tuple(f"{key}={item}" for key, item in value.items()))
        case tuple():
            return f"[{','.join(value)}]"
    return str(value)
