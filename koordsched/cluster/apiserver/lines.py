"""A stream of bytes into whole lines.

A watch's event may be cut anywhere between two reads, and one read may hold thousands of them: lines are handed on together, as one piece
of bytes, because decoding many at once is cheaper than one after the other.
"""

from __future__ import annotations


class LineTooLongError(ValueError):
    """A line is longer than the limit."""


class LineBuffer:
    """Collects pieces until they hold the end of a line, which must come within `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that are whole now, b"" when none is. LineTooLongError."""
        end = piece.rfind(b"\n") + 1
        if not end:
            self._begin(piece)
            return b""
        lines = piece[:end]
        if self._begun:
            lines = bytes(self._begun) + lines
            self._begun.clear()
        self._begin(piece[end:])
        return lines

    def _begin(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._limit:
            raise LineTooLongError(f"larger than {self._limit} bytes")
        self._begun += piece
