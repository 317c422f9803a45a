"""How much churn, for how long, and how much memory may grow."""

from __future__ import annotations

import msgspec


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every run has. `rate`: pods created a second; about as many are deleted. `faults`: share of requests that fail. `growth`: what
    memory may grow. `kills`: of the scheduler, spread over the run; with any of them there is no one process whose memory could grow."""

    minutes: float
    rate: float
    nodes: int
    pods: int  # that there are at a time
    faults: float
    growth: float
    kills: int = 0
    seed: int = 1


class Settings(RunSettings, frozen=True, kw_only=True):
    """The churn. `growth`: MiB an hour."""

    minutes: float = 30.0
    rate: float = 20.0
    nodes: int = 40
    pods: int = 1300
    faults: float = 0.05
    growth: float = 15.0  # more than chance makes of a line through a quarter of an hour
