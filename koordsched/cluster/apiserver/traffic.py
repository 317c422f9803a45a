"""What was sent to the API server and what came back, counted for metrics and for the comparison with other schedulers."""

from __future__ import annotations

from collections import Counter

import msgspec


class Traffic(msgspec.Struct):
    """Counts since the connection was made. Bytes are those of bodies, as they are on the wire: compression is never asked for."""

    requests: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # by (verb, plural); repeated ones count once
    sent: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # bytes of request bodies
    received: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # bytes of answers, watches included
    retries: int = 0  # requests sent once more, with renewed credentials

    @property
    def bytes_sent(self) -> int:
        return self.sent.total()

    @property
    def bytes_received(self) -> int:
        return self.received.total()
