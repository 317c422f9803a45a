"""Go durations: the text that flags and configuration files use ("1m30s", "500ms", "1h0m0s").

A `Duration` is a float of seconds, so it can be handed to a clock as it is; reading and writing follow Go's time.ParseDuration and
Duration.String to the nanosecond, including their error texts. A value beyond 2^53 nanoseconds (104 days) loses its last nanoseconds.
"""

from __future__ import annotations

import re
from typing import Self

NANO = 10**9
_MAX_NANOSECONDS = 2**63 - 1
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": NANO, "m": 60 * NANO, "h": 3600 * NANO}
_STEP = re.compile(r"(?P<whole>[0-9]*)(?:(?P<point>\.)(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")
_MAX_TEXT = 100  # characters; far more than the longest duration that fits in 64 bits
_SHOWN_TEXT = 60


class DurationError(ValueError):
    """A text that is no duration; the message is the one of Go's time.ParseDuration."""


class Duration(float):
    """A length of time in seconds."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a Go duration; DurationError says what is wrong with it."""
        return cls(parse_nanoseconds(text) / NANO)

    @property
    def text(self) -> str:
        """The value as Go writes it: "1m30s"."""
        return format_nanoseconds(round(self * NANO))


def parse_nanoseconds(text: str) -> int:
    """Return the nanoseconds that a Go duration names, truncated as Go does."""
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _MAX_TEXT:
        raise DurationError(f"time: invalid duration {_quoted(text)}")
    total, position = 0, 0
    while position < len(rest):
        step = _STEP.match(rest, position)
        if step is None or not (step["whole"] or step["fraction"]):
            raise DurationError(f"time: invalid duration {_quoted(text)}")
        total += _step_nanoseconds(step, text)
        position = step.end()
    if total > _MAX_NANOSECONDS:
        raise DurationError(f"time: invalid duration {_quoted(text)}")
    return -total if text[0] == "-" else total


def _step_nanoseconds(step: re.Match[str], text: str) -> int:
    if not step["unit"]:
        raise DurationError(f"time: missing unit in duration {_quoted(text)}")
    if step["unit"] not in _UNITS:
        raise DurationError(f"time: unknown unit {_quoted(step['unit'])} in duration {_quoted(text)}")
    unit = _UNITS[step["unit"]]
    fraction = step["fraction"] or ""
    below: int = 10 ** len(fraction)
    return int(step["whole"] or "0") * unit + int(fraction or "0") * unit // below


def format_nanoseconds(nanoseconds: int) -> str:
    """Write a duration as Go's Duration.String does: the largest unit below a second, else hours, minutes and seconds."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    for unit, size in (("ns", 10**3), ("µs", 10**6), ("ms", NANO)):
        if rest < size:
            return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, seconds = divmod(rest, 60 * NANO)
    text = f"{_decimal(seconds, NANO)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _quoted(text: str) -> str:
    """Quote as Go's time package does: what is no printable ASCII by its bytes, so that a message stays one line."""
    shown = "".join(_escaped(character) for character in text[:_SHOWN_TEXT])
    return f'"{shown}..."' if len(text) > _SHOWN_TEXT else f'"{shown}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if " " <= character <= "\x7e":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogatepass"))
