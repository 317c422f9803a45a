"""How much there is of everything, for how long, and how much memory may grow."""

from __future__ import annotations

import msgspec


class SoakSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`rate`: pods created a second; about as many are deleted. `faults`: share of requests that fail. `growth`: percent. `kills`: of the
    scheduler, spread over the run; with any of them there is no one process whose memory could grow."""

    minutes: float = 60.0
    rate: float = 8.0
    nodes: int = 40
    pods: int = 420  # that there are at a time, besides those of gangs
    gangs: int = 12  # that there are at a time, as the next
    reservations: int = 25
    faults: float = 0.03
    growth: float = 2.0
    kills: int = 0
    seed: int = 1
