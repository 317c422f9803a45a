"""CPU lists as Linux and Koordinator write them: "0-3,8"."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPU = 4096
"""The largest id that Koordinator accepts (nodenumaresource.md §1)."""


def parse_cpus(text: str) -> frozenset[int]:
    """Read a CPU list; the empty text is no CPU. ValueError names the part that is wrong."""
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 2 * len(str(MAX_CPU)):
            raise ValueError(f"{part!r} is not a CPU or a range of CPUs")
        low, high = int(first), int(last or first)
        if high < low or high > MAX_CPU:
            raise ValueError(f"{part!r} is not an ascending range of CPUs up to {MAX_CPU}")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """Write a CPU list, sorted and with ranges."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
