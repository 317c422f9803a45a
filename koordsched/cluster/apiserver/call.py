"""One request, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from koordsched.cluster.apiserver.limiter import Priority

JSON = "application/json"


class Pool(Enum):
    """Requests that share connections: a storm of one sort must not starve another."""

    WATCH = "watch"
    BIND = "bind"
    LEASE = "lease"
    OTHER = "other"


class Label(NamedTuple):
    """What a request is counted under: its verb (those of the port, and "patch status") and the kind's plural."""

    verb: str
    plural: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `seconds` limits its whole time, `silence` the time between two pieces of the answer; None: no limit."""

    label: Label
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = ""  # of the body
    pool: Pool = Pool.OTHER
    priority: Priority = Priority.HIGH
    seconds: float | None = None
    silence: float | None = None
    needs_answer: bool = True  # False: the status says it all
    decides: bool = False  # it changes what only the leading scheduler may change
