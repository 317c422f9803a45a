"""What may be written to a stream besides plain text. Knows no command."""

from __future__ import annotations

import os
from typing import TextIO


def is_terminal(stream: TextIO) -> bool:
    """Return whether lines on it can be overwritten, as progress does."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colours(stream: TextIO) -> bool:
    """Return whether colours are wanted on it (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")
