"""What was sent to the API server and what came back, counted for metrics and for the comparison with other schedulers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

import msgspec

SECONDS: tuple[float, ...] = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""The bounds of client-go's rest_client_request_duration_seconds. Whole numbers are int, since `le` labels say 1, not 1.0."""


class Latency(msgspec.Struct):
    """How many requests took up to each of SECONDS (the last count: longer), and how long all of them together."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


class Traffic(msgspec.Struct):
    """Counts since the connection was made. Bytes are those of bodies, as they are on the wire: compression is never asked for."""

    requests: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # by (verb, plural); repeated ones count once
    sent: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # bytes of request bodies
    received: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # bytes of answers, watches included
    retries: int = 0  # requests sent once more, with renewed credentials
    unreadable: Counter[str] = msgspec.field(default_factory=Counter)  # by plural and group: objects and events left out; each time counts
    host: str = ""  # of the API server, with its port
    answers: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # by (method, status or "<error>"); repeated ones count
    latency: dict[str, Latency] = msgspec.field(default_factory=dict)  # by method, until the answer or, of a watch, its beginning was there

    def answered(self, method: str, outcome: str, seconds: float) -> None:
        """Count a request that got an answer with this status, or none ("<error>"), after so long."""
        self.answers[method, outcome] += 1
        latency = self.latency.get(method)
        if latency is None:
            latency = self.latency[method] = Latency()
        latency.add(seconds)
