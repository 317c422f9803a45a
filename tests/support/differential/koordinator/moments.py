"""Moments that a recording can be replayed at: "@-120" in a manifest is two minutes before the cluster was begun.

Usage expires, and pods count by when they were scheduled: a recorded timestamp would mean something else at each replay.
"""

from __future__ import annotations

import re
from typing import Any

from koordsched.clock import parse_rfc3339, rfc3339

RELATIVE = re.compile(r"@-?\d+")


def moment(seconds: int) -> str:
    """Name the moment so many seconds after the cluster was begun; before it if negative."""
    return f"@{seconds}"


def absolute(value: Any, begun: int) -> Any:
    """Return the manifest with timestamps; `begun` in seconds since the epoch."""
    if isinstance(value, dict):
        return {key: absolute(each, begun) for key, each in value.items()}
    if isinstance(value, list):
        return [absolute(each, begun) for each in value]
    if isinstance(value, str) and RELATIVE.fullmatch(value):
        return rfc3339(begun + int(value[1:]))
    return value


def relative(timestamp: str, begun: int) -> str:
    """Name the moment of a timestamp."""
    return moment(round(parse_rfc3339(timestamp)) - begun)
