"""Starts schedulers without importing them: a server that has, and forks for each start. For tests that start hundreds of processes.

    with Preloaded(folder) as command: ...   `command` in place of `python -m koordsched`, in any command line

Importing is two thirds of the CPU that a start takes. What is started is a process of its own all the same, which ends when the process
that stands for it (`preloaded_client.py`) is killed. A start from nothing is what the other e2e tests are about.
"""

from __future__ import annotations

import gc
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

CLIENT = Path(__file__).with_name("preloaded_client.py")
IMPORTED = ("koordsched.cli", "koordsched.config.validate", "koordsched.config.writing", "koordsched.plugins", "koordsched.serve.command")
START_SECONDS = 60.0
POLL_SECONDS = 0.02
LONGEST_COMMAND = 1 << 16


class Preloaded:
    """A server and its socket; it ends with this context or with the process that began it."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "preloaded"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        line = [sys.executable, "-P", __file__, str(self._socket)]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, process_group=0)
        deadline = time.monotonic() + START_SECONDS
        while not self._socket.exists():
            assert self._process.poll() is None, "the server has ended; its last words are above"
            assert time.monotonic() < deadline, f"no server after {START_SECONDS} s"
            time.sleep(POLL_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    @property
    def command(self) -> str:
        """Return what to write in place of `python -m koordsched`; it understands SIGTERM and SIGKILL."""
        return shlex.join([sys.executable, "-I", "-S", str(CLIENT), str(self._socket)])


def serve(path: str) -> None:
    """Import all that a scheduler needs, then fork for each connection until standard input ends."""
    for module in IMPORTED:
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who stands for a start has an end of its own that is not asked for
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        os.rename(f"{path}.new", path)  # whoever sees it may connect
        while True:
            ready, _, _ = select.select([listener.fileno(), sys.stdin.fileno()], [], [])
            if sys.stdin.fileno() in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    stand_for(connection)
                    os._exit(0)


def stand_for(connection: socket.socket) -> None:
    """Start what the client asks for, and be for it and its client what a kernel is for a process and its parent."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words, outputs, _, _ = socket.recv_fds(connection, LONGEST_COMMAND, 2)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(words.decode().split("\0"), outputs)
    end = os.pidfd_open(pid)
    while end not in select.select([connection.fileno(), end], [], [])[0]:
        asked = connection.recv(1)
        os.kill(pid, signal.SIGTERM if asked else signal.SIGKILL)
        if not asked:
            return
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.send(str(code).encode())


def run(words: list[str], outputs: list[int]) -> None:
    """Be the scheduler; this does not return."""
    from koordsched.cli import main  # noqa: PLC0415

    os.setsid()
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
    code: int | str | None = 1
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  # as the interpreter does it
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
