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
    growth: float = 60.0  # columns of shapes that no pod has any more are kept, up to a limit: they fill for a while
    seed: int = 1
