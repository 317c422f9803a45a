"""QueuedStream: the log behind a queue (`--async-log`), so that a reader of stderr that is slow does not hold up who logs.

As with Koordinator's, a queue that is full holds up who logs until there is room: no line is lost.
"""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from queue import Full, Queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TextIO

CLOSE_SECONDS = 2.0
"""For how long the end of the process waits for lines that are not written yet."""


class QueuedStream(io.TextIOBase):
    """Passes what is written to another stream, in a thread of its own, in order; `length` pieces may wait. To be used with `with`."""

    def __init__(self, stream: TextIO, length: int) -> None:
        self._stream = stream
        self._queue: Queue[str | None] = Queue(max(length, 1))
        self._ended = False  # whether what is written now comes after the end
        self._thread = threading.Thread(target=self._pass_on, name="log", daemon=True)

    def write(self, text: str) -> int:
        if not self._thread.is_alive():
            return self._stream.write(text)
        if not self._ended:
            self._queue.put(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread flushes when there is nothing more to write."""

    def drain(self) -> None:
        """Write what waits, and everything from now on at once. A reader that takes nothing gets no more: the process has to end."""
        if self._thread.is_alive():
            self._ended = True
            with suppress(Full):
                self._queue.put(None, timeout=CLOSE_SECONDS)
            self._thread.join(CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._stream.flush()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.drain()

    def _pass_on(self) -> None:
        while (text := self._queue.get()) is not None:
            self._stream.write(text)
            if self._queue.empty():
                self._stream.flush()
