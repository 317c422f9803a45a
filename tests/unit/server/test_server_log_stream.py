"""The log behind a queue (`--async-log`): the order of lines, a reader that is slow, a queue that is full, and the end."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from threading import Event, Thread

import pytest

from koordsched.server import log_stream
from koordsched.server.log_stream import QueuedStream

LONG = 20.0
"""Seconds that no test takes unless it fails."""


class Slow(io.StringIO):
    """A stream that takes nothing until it is let go, and says when it was asked first and how often it was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go, self.flushed = Event(), Event(), Event()

    def write(self, text: str) -> int:
        self.asked.set()
        assert self.let_go.wait(LONG)
        return super().write(text)

    def flush(self) -> None:
        self.flushed.set()


def in_thread(call: Callable[[], object]) -> Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_lines_come_out_in_their_order_and_all_of_them() -> None:
    heard = io.StringIO()
    with QueuedStream(heard, 3) as stream:
        assert [stream.write(f"{number}\n") for number in range(8, 12)] == [2, 2, 3, 3]
    assert heard.getvalue() == "8\n9\n10\n11\n"


def test_who_logs_does_not_wait_for_a_slow_reader_until_the_queue_is_full() -> None:
    slow = Slow()
    with QueuedStream(slow, 2) as stream:
        stream.write("taken")
        assert slow.asked.wait(LONG)
        for text in (" waits", " too"):
            stream.write(text)
        stream.flush()
        assert slow.getvalue() == ""
        held = in_thread(lambda: stream.write(" last"))
        held.join(0.05)
        assert held.is_alive(), "a queue that is full holds up who logs"
        slow.let_go.set()
        held.join(LONG)
        assert not held.is_alive()
    assert slow.getvalue() == "taken waits too last"


def test_what_was_written_is_flushed_once_there_is_nothing_more() -> None:
    slow = Slow()
    slow.let_go.set()
    with QueuedStream(slow, 10) as stream:
        stream.write("line\n")
        assert slow.flushed.wait(LONG)
        assert slow.getvalue() == "line\n"


def test_before_and_after_it_is_in_use_it_writes_at_once() -> None:
    heard = io.StringIO()
    stream = QueuedStream(heard, 10)
    stream.write("before ")
    assert heard.getvalue() == "before "
    with stream:
        stream.write("during ")
        stream.drain()
        assert heard.getvalue() == "before during "
        assert stream.write("late ") == 5
        assert heard.getvalue() == "before during late "
    stream.write("after")
    assert heard.getvalue() == "before during late after"


def test_an_error_in_its_use_does_not_lose_what_waits() -> None:
    heard = io.StringIO()
    stream = QueuedStream(heard, 10)

    def fail() -> None:
        with stream:
            stream.write("said before it")
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert heard.getvalue() == "said before it"


def test_a_reader_that_never_takes_anything_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "CLOSE_SECONDS", 0.05)
    slow = Slow()
    ended = in_thread(lambda: use(slow, 5))
    ended.join(LONG)
    assert not ended.is_alive()
    slow.let_go.set()


def test_nor_does_one_before_which_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "CLOSE_SECONDS", 0.05)
    slow = Slow()
    ended = in_thread(lambda: use(slow, 1))
    ended.join(LONG)
    assert not ended.is_alive()
    slow.let_go.set()


def use(slow: Slow, length: int) -> None:
    """Write two lines, of which the first is being written for ever, and end."""
    with QueuedStream(slow, length) as stream:
        stream.write("one")
        assert slow.asked.wait(LONG)
        stream.write("two")
    stream.write("after the end")
