"""Files that others write: certificates, tokens, configurations.

They are read up to a limit, so that a wrong path (/dev/zero) costs a message and not all memory.
"""

from __future__ import annotations

import errno
from pathlib import Path

MAX_BYTES = 4 * 2**20
"""More than any certificate bundle, token or configuration has."""


def read_limited(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """Return what the file holds. OSError: it cannot be read, or is larger than the limit (EFBIG; `strerror` says so). Blocks."""
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", str(path))
    return data
