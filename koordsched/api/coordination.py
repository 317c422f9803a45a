"""coordination.k8s.io/v1: the Lease that leader election holds (framework.md §1.6).

Times are RFC 3339 with microseconds, as written by client-go.
"""

from __future__ import annotations

from koordsched.api.meta import Api, Int32, Object


class LeaseSpec(Api):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None


class Lease(Object):
    spec: LeaseSpec = LeaseSpec()
