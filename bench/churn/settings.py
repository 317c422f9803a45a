"""How much churn, for how long, and how much memory may grow."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`rate`: pods created a second; about as many are deleted. `faults`: share of requests that fail. `growth`: MiB an hour."""

    minutes: float = 30.0
    rate: float = 20.0
    nodes: int = 40
    pods: int = 1300  # that there are at a time
    faults: float = 0.05
    growth: float = 15.0  # more than chance makes of a line through a quarter of an hour
    seed: int = 1
