"""How many bytes a process exchanges with the API server: TLS, headers and all, whatever language it is written in.

The kernel counts what a process reads and writes by read(2) and write(2), which is how Go and libuv use sockets, and for files just the
same (proc_pid_io(5)). So counting begins when the process first connects, after it has read its own code; logs are the only rest.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

REMOTE, INODE = 2, 9  # fields of a line in /proc/net/tcp


def exchanged(pid: int) -> int:
    """Return the bytes read and written since the process started."""
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines())
    return int(counts["rchar"]) + int(counts["wchar"])


def connected(pid: int, port: int) -> bool:
    """Return whether the process has a connection over IPv4 to this port, on whatever host."""
    return bool(sockets_of(pid) & sockets_to(Path("/proc/net/tcp").read_text(encoding="utf-8"), port))


def sockets_to(table: str, port: int) -> set[str]:
    """Return the inodes of sockets that are connected to a port, out of the text of /proc/net/tcp."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {row[INODE] for row in rows if int(row[REMOTE].rpartition(":")[2], 16) == port}


def sockets_of(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(entry)
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found
