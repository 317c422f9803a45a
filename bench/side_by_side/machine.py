"""What the whole machine has done, to see whether it had time for a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path

IDLE_FIELDS = (3, 4)  # of the first line of /proc/stat: idle and waiting for disks (proc_stat(5))
FIELDS = 8  # up to stolen time; what follows is part of user time


def busy_seconds() -> float:
    """Return the CPU seconds that all processes of the machine have used since it was started."""
    return busy_ticks(Path("/proc/stat").read_text(encoding="utf-8")) / os.sysconf("SC_CLK_TCK")


def busy_ticks(stat: str) -> int:
    counts = stat.split("\n", 1)[0].split()[1 : FIELDS + 1]
    return sum(int(count) for field, count in enumerate(counts) if field not in IDLE_FIELDS)


def own_seconds() -> float:
    """Return the CPU seconds that this process has used."""
    return time.process_time()
