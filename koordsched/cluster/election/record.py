"""What a Lease says about its holder. Whatever is in it, it is read: what has the wrong type means that there is no holder, or no value.

Times are compared as texts only. A time that another machine wrote says nothing here: when a lease was renewed is when it was *seen* to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from koordsched.api.groups import Lease
    from koordsched.api.meta import ObjectMeta

MAX_TRANSITIONS = 2**31 - 1
RELEASED_SECONDS = 1
"""The duration of a lease that was given up: there must be one."""


class Record(msgspec.Struct, frozen=True):
    """The spec of a Lease. `holder` "": there is none; `seconds` 0: it does not say how long it lasts."""

    holder: str = ""
    seconds: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0

    def released(self, now: str) -> Record:
        """Return the record of a lease that its holder gives up."""
        return Record("", RELEASED_SECONDS, now, now, self.transitions)

    def taken(self, holder: str, seconds: int, now: str) -> Record:
        """Return the record of the next holder."""
        return Record(holder, seconds, now, now, min(self.transitions + 1, MAX_TRANSITIONS))

    def renewed_at(self, seconds: int, now: str) -> Record:
        """Return the record with its holder still there."""
        return Record(self.holder, seconds, self.acquired or now, now, self.transitions)

    def body(self, metadata: ObjectMeta) -> dict[str, Any]:
        """Return the Lease with this record, for `update`; metadata holds the version that it replaces."""
        return {"metadata": msgspec.to_builtins(metadata), "spec": self.spec()}

    def spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


def record_of(lease: Lease) -> Record:
    """Read a Lease."""
    spec = lease.spec
    return Record(
        holder=spec.holder_identity or "",
        seconds=max(0, spec.lease_duration_seconds or 0),
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=max(0, spec.lease_transitions or 0),
    )
