"""What the guard of a serving process says last, and when the kernel is to end it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from koordsched._core import deadman
from koordsched.clock import RealClock
from koordsched.log import Style, write_logs
from koordsched.server.leadership import DeadMan

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kernel:
    """Remembers its calls, and may not have such timers."""

    def __init__(self) -> None:
        self.refuses = False
        self.made: list[int] = []
        self.armed: list[tuple[float, str]] = []
        self.disarmed = 0

    def make(self, thread: int) -> None:
        if self.refuses:
            raise OSError(38, "Function not implemented")
        self.made.append(thread)

    def arm(self, at: float, text: bytes) -> None:
        self.armed.append((at, text.decode()))

    def disarm(self) -> None:
        self.disarmed += 1


class StandingClock(RealClock):
    def now(self) -> float:
        return 1_800_000_000.0

    def uptime(self) -> float:
        return 500.0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    for name in ("make", "arm", "disarm"):
        monkeypatch.setattr(deadman, name, getattr(made, name))
    return made


@pytest.fixture
def json_log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    write_logs(Style("json", lambda: 0.0, stream))
    yield stream
    write_logs(None)


def test_it_is_made_once_and_says_what_every_lost_lease_says(kernel: Kernel, json_log: io.StringIO) -> None:
    guard = DeadMan(StandingClock())
    guard.arm(510.0)
    guard.arm(512.0)
    assert len(kernel.made) == 1
    assert [at for at, _ in kernel.armed] == [510.0, 512.0]
    line: dict[str, Any] = json.loads(kernel.armed[1][1])
    assert (line["msg"], line["level"], line["ts"]) == ("Leaderelection lost", "error", 1_800_000_012_000.0)
    assert kernel.armed[1][1].endswith("\n")
    guard.disarm()
    assert kernel.disarmed == 1
    assert json_log.getvalue() == ""


def test_a_system_without_such_timers_is_reported_once(kernel: Kernel, json_log: io.StringIO) -> None:
    kernel.refuses = True
    guard = DeadMan(StandingClock())
    guard.arm(510.0)
    guard.arm(512.0)
    assert kernel.armed == []
    (line,) = [json.loads(line) for line in json_log.getvalue().splitlines()]
    assert (line["level"], line["err"]) == ("warning", "Function not implemented")


def test_before_any_log_style_is_set_it_is_a_line_of_text(kernel: Kernel) -> None:
    DeadMan(StandingClock()).arm(510.0)
    text = kernel.armed[0][1]
    assert text.startswith("E")
    assert '"Leaderelection lost" why="' in text
