"""What an unquoted YAML scalar means: YAML 1.1 as Kubernetes reads it (go-yaml v2), where `y` is true, `010` is 8 and `12:30` is a text."""

from __future__ import annotations

import re
from math import inf, nan
from typing import Any

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
_NUMERIC_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,60})")
_PREFIXED = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]{1,60})|0[oO]?([0-7]{1,60})|0[bB]([01]{1,200}))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve(text: str) -> Any:
    """Return what an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if prefixed := _PREFIXED.fullmatch(plain):
        sign, hexadecimal, octal, binary = prefixed.groups()
        base = 16 if hexadecimal else 8 if octal else 2
        return int(f"{sign}{hexadecimal or octal or binary}", base)
    return float(plain) if _FLOAT.fullmatch(plain) else text
