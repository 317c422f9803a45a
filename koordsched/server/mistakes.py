"""What keeps the scheduler from starting and is its operator's to mend."""

from __future__ import annotations


class StartError(Exception):
    """The process cannot start or go on; the text is one line that says what was being done, to what, and why it failed."""
