"""A stream of bytes into whole lines.

A watch's event may be cut anywhere between two reads, and one read may hold thousands of them: lines are handed on together, as one piece
of bytes, because decoding many at once is cheaper than one after the other.
"""

from __future__ import annotations


class LineBuffer:
    """Collects pieces until they hold the end of a line."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that are whole now, b"" when none is."""
        end = piece.rfind(b"\n") + 1
        if not end:
            if piece:
                self._begun.append(piece)
            return b""
        lines = piece[:end]
        if self._begun:
            self._begun.append(lines)
            lines = b"".join(self._begun)
            self._begun.clear()
        if end < len(piece):
            self._begun.append(piece[end:])
        return lines
