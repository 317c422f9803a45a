"""Programs of a control plane: start, watch, measure, end.

Every program joins the process group of a guardian (`guardian.py`), which ends them all when the test process dies in whatever way. A
group of their own also keeps a terminal's Ctrl-C from them, so that the tests' teardown comes first. Output goes to one log
file a program. CPU and memory are read from /proc, on Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

GUARDIAN = Path(__file__).with_name("guardian.py")
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 15


class StartFailed(Exception):
    """A program ended or did not get ready; the text names it and ends with the last lines of its log."""


class Usage(NamedTuple):
    """What a process has used since it started: CPU seconds (user and system), resident bytes now and at their highest."""

    cpu_seconds: float
    resident_bytes: int
    peak_resident_bytes: int


class Guardian:
    """The process that outlives this one for a moment to clean up after it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-I", str(GUARDIAN), str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)

    @property
    def group(self) -> int:
        return self._process.pid

    def release(self) -> None:
        """Let it end whatever is still in the group, and itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Launch(NamedTuple):
    """How to start a program."""

    name: str
    command: Sequence[str]
    log: Path
    group: int
    environment: Mapping[str, str]


class Process:
    """A running program; its log is appended to over restarts."""

    def __init__(self, launch: Launch) -> None:
        self.name = launch.name
        self.log = launch.log
        self._log_begin = launch.log.stat().st_size if launch.log.exists() else 0
        with launch.log.open("ab") as output:
            self._process = subprocess.Popen(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=launch.environment,
                process_group=launch.group,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the program has ended."""
        self._process.send_signal(number)

    def stop(self, timeout: float) -> int:
        """Ask the program to end, kill it after `timeout` seconds, and return its exit code (negative: the signal)."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        return self.kill()

    def kill(self) -> int:
        """End the program with SIGKILL and return its exit code."""
        self._process.kill()
        return self._process.wait()

    def wait(self, timeout: float) -> int:
        """Wait for the program's own end and return its exit code; subprocess.TimeoutExpired after `timeout` seconds."""
        return self._process.wait(timeout)

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Poll until the program is ready; StartFailed when it ends before that or `timeout` seconds have passed."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise StartFailed(f"{self.name} ended with exit code {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{self.name} was not ready after {timeout:.0f} s:\n{self.log_tail()}")
            time.sleep(POLL_SECONDS)

    def usage(self) -> Usage:
        """Read what the program has used; ProcessLookupError when it has ended."""
        if not self.running:
            raise ProcessLookupError(f"{self.name} has ended")
        return usage_of(self.pid)

    def output(self) -> str:
        """Return what was written since this program was first started, not by earlier ones of the same name."""
        return self.log.read_bytes()[self._log_begin :].decode(errors="replace")

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the last lines of its log, those of earlier starts included."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def usage_of(pid: int) -> Usage:
    """Read a process's usage from /proc, threads included, children not."""
    # The second field is the program's name in parentheses and may hold spaces; fields are counted from behind it (proc_pid_stat(5)).
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = int(after_name[11]) + int(after_name[12])
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    resident, peak = (int(status[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), resident, peak)
