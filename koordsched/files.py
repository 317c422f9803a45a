"""Files that others write: certificates, tokens, configurations; and how to write one that others read.

They are read up to a limit, so that a wrong path (/dev/zero) costs a message and not all memory. Some are read again when they change, such
as the certificates that a volume of Kubernetes renews under the same names (`FollowedFile`). A look costs one stat: the file is only read
when its identity, time or size differ. Nothing announces a change: the owner of a file looks.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

MAX_BYTES = 4 * 2**20
"""More than any certificate bundle, token or configuration has."""


FOLLOW_SECONDS = 1.0
"""How often files are looked at: what kube-scheduler gets from inotify at once."""


def read_limited(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """Return what the file holds. OSError: it cannot be read, or is larger than the limit (EFBIG; `strerror` says so). Blocks."""
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", str(path))
    return data


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file that is there as a whole or not at all, whatever ends the process or the machine meanwhile. OSError. Blocks."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


class FollowedFile:
    """One file; `content` is what it last held. OSError: it cannot be read now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._seen = self._stamp()
        self.content = read_limited(path)

    def changed(self) -> bool:
        """Look, and return whether there is new content."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        content = read_limited(self.path)
        self._seen = stamp  # taken before reading: a change in between is seen by the next look
        if content == self.content:
            return False
        self.content = content
        return True

    def _stamp(self) -> tuple[int, int, int, int]:
        found = os.stat(self.path)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
