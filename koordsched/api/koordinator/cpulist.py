"""CPU lists as Linux and Koordinator write them ("0-3,8"), and CPU sets, which are integers: bit i is the CPU with id i.

nodenumaresource.md §1. A set is as large as its text says; which CPUs exist is the topology's business (`_core/cpuset.pyx`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MAX_CPU = 4096
"""The largest id that Koordinator accepts in a list."""


def parse_cpus(text: str) -> int:
    """Read a CPU list; the empty text is no CPU. ValueError names the part that is wrong."""
    cpus = 0
    for part in text.split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)) or len(first + last) > 2 * len(str(MAX_CPU)):
            raise ValueError(f"{part!r} is not a CPU or a range of CPUs")
        low, high = int(first), int(last or first)
        if high < low or high > MAX_CPU:
            raise ValueError(f"{part!r} is not an ascending range of CPUs up to {MAX_CPU}")
        cpus |= (1 << (high + 1)) - (1 << low)
    return cpus


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def format_cpus(cpus: int) -> str:
    """Write a CPU list, sorted and with ranges."""
    runs = []
    start = 0
    while cpus:
        gap = (cpus & -cpus).bit_length() - 1
        low = start + gap
        cpus >>= gap
        length = (~cpus & (cpus + 1)).bit_length() - 1
        runs.append(str(low) if length == 1 else f"{low}-{low + length - 1}")
        cpus >>= length
        start = low + length
    return ",".join(runs)


def cpu_ids(cpus: int) -> Iterator[int]:
    """Yield the ids in a set, ascending."""
    while cpus:
        lowest = cpus & -cpus
        yield lowest.bit_length() - 1
        cpus ^= lowest


def mask_of(ids: Iterable[int]) -> int:
    """Return the set of some ids."""
    cpus = 0
    for cpu in ids:
        cpus |= 1 << cpu
    return cpus
