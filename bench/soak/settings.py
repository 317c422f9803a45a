"""How much there is of everything, for how long, and how much memory may grow."""

from __future__ import annotations

from churn.settings import RunSettings


class SoakSettings(RunSettings, frozen=True, kw_only=True):
    """The soak. `growth`: percent."""

    minutes: float = 60.0
    rate: float = 8.0
    nodes: int = 40
    pods: int = 420  # besides those of gangs
    gangs: int = 12  # that there are at a time, as the next
    reservations: int = 25
    faults: float = 0.03
    growth: float = 2.0
