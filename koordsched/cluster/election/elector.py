"""Elector: acquires a Lease, renews it, gives it up; client-go's rules (tools/leaderelection, v1.35) with the differences noted here.

A lease is free when it names no holder, or when it was not *seen* to change for as long as it says it lasts. Every write carries the
version that it replaces, so of two candidates that take it one gets a Conflict. A failed request changes nothing: the next comes a retry
period later.

Differences: a waiting candidate looks every 0.4 to 0.8 retry periods (client-go: 1 to 2.2) and when the lease runs out, so that it leads
within lease duration + retry period of its predecessor's death; a leader that finds another holder in its lease stops leading at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.groups import Lease
from koordsched.cluster.election.record import Record, record_of
from koordsched.cluster.election.term import Timing
from koordsched.cluster.event_body import micro_time
from koordsched.cluster.port import ClusterError, Conflict, NotFound, Ref, ServerError
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from random import Random

    from koordsched.api.meta import Object
    from koordsched.clock import Clock
    from koordsched.cluster.election.term import LeaderTerm
    from koordsched.cluster.port import Cluster

log = get_logger(__name__)

REPEAT_SECONDS = 60.0
"""Seconds after which the same failure is logged again."""
SHORTEST_WAIT, LONGEST_WAIT = 0.4, 0.8  # of a retry period, between two looks of a waiting candidate
STALLED_WAIT = 0.1
"""Seconds until the next look at a loop that does not run."""
RELEASE_TRIES = 3


class ElectionConfig(msgspec.Struct, frozen=True):
    """A candidate's identity and the Lease it wants to hold. `stalls` says that the loop whose decisions the lease allows does not run."""

    identity: str
    lease: Ref
    timing: Timing
    stalls: Callable[[], bool] = lambda: False


class ObservedLease(msgspec.Struct, frozen=True):
    """The Lease as it was last read or written, and the uptime at which its record was first seen."""

    lease: Lease
    record: Record
    since: float


class Elector:
    """One candidate's part in the election. `acquire`, then `hold`; `release` when either was cancelled.

    While the candidate stalls, the lease is neither taken nor renewed.
    """

    def __init__(self, cluster: Cluster, candidate: ElectionConfig, term: LeaderTerm, clock: Clock, random: Random) -> None:
        self._cluster = cluster
        self._me = candidate
        self._term = term
        self._clock = clock
        self._random = random
        self._seen: ObservedLease | None = None
        self._reported = ""  # the last leader that was logged
        self._wrote = False  # a request to hold the lease was sent and not clearly refused
        self._doing = ""
        self._said, self._said_at = "", 0.0

    @property
    def lease(self) -> Lease | None:
        """Return the Lease as it was last seen."""
        return None if self._seen is None else self._seen.lease

    @property
    def holds(self) -> bool:
        """Whether the Lease named this candidate when it was last seen."""
        return self._holder == self._me.identity

    async def acquire(self) -> None:
        """Try until the lease is held."""
        self._log("attempting to acquire leader lease")
        while True:
            if not self._me.stalls() and await self._try(self._me.timing.renew_deadline):
                break
            await asyncio.sleep(self._pause())
        self._log("successfully acquired lease")

    async def hold(self) -> str:
        """Renew until that is not possible any more, and return why."""
        pause = self._me.timing.retry_period
        while True:
            await asyncio.sleep(max(0.0, min(pause, self._term.left)))
            stalls = self._me.stalls()
            # A stall that ends before the term does costs no lease, so its end is to be noticed soon.
            pause = min(STALLED_WAIT, self._me.timing.retry_period) if stalls else self._me.timing.retry_period
            if self._term.running and not stalls:
                await self._try(self._term.left)
            if self._holder not in {"", self._me.identity}:
                return f"{self._holder} holds it"
            if not self._term.running:
                what = "the scheduling loop does not run, so it was not renewed" if stalls else "it could not be renewed"
                return f"{what} for {self._me.timing.term:g} s"

    async def release(self) -> None:
        """Give the lease up if it is held or may be, so that another one leads at once. ClusterError: it runs out by itself then."""
        self._term.end()
        if not self._wrote:
            return
        for _ in range(RELEASE_TRIES):
            lease = _lease(await self._cluster.get(self._me.lease))
            record = record_of(lease)
            if record.holder != self._me.identity:
                return
            try:
                await self._cluster.update(self._me.lease, record.released(self._time()).body(lease.metadata))
            except Conflict:
                continue  # a renewal that was under way came in between
            self._log("released leader lease")
            return

    async def _try(self, seconds: float) -> bool:
        """Ask for the lease once, and return whether it is held now."""
        try:
            async with asyncio.timeout(seconds):
                return await self._ask()
        except TimeoutError:
            self._complain(ServerError(f"no answer within {seconds:.1f} s"))
        except Conflict:
            log.debug("another candidate was faster", lease=self._name)
        except ClusterError as error:
            self._complain(error)
        return False

    async def _ask(self) -> bool:
        if self._seen is not None and self.holds:
            try:
                return await self._take(self._seen)
            except (Conflict, NotFound):
                pass  # another process wrote or deleted it
        try:
            lease = await self._request("get", self._cluster.get(self._me.lease))
        except NotFound:
            return await self._create()
        seen = self._see(lease)
        if seen.record.holder not in {"", self._me.identity} and self._expires(seen) > self._clock.uptime():
            return False
        return await self._take(seen)

    async def _create(self) -> bool:
        ref, now = self._me.lease, self._time()
        record = Record(self._me.identity, self._me.timing.lease_seconds, now, now)
        body = {"metadata": {"namespace": ref.namespace, "name": ref.name}, "spec": record.spec()}
        await self._write("create", self._cluster.create(ref.kind, body))
        return True

    async def _take(self, seen: ObservedLease) -> bool:
        """Take the lease over, or renew it."""
        seconds, now, old = self._me.timing.lease_seconds, self._time(), seen.record
        record = old.renewed_at(seconds, now) if old.holder == self._me.identity else old.taken(self._me.identity, seconds, now)
        await self._write("update", self._cluster.update(self._me.lease, record.body(seen.lease.metadata)))
        return True

    async def _write(self, verb: str, request: Awaitable[Object]) -> None:
        """Send a request that makes this candidate the holder: from its beginning the term counts."""
        before, self._wrote = self._wrote, True
        began = self._clock.uptime()
        try:
            lease = await self._request(verb, request)
        except (Conflict, NotFound):
            self._wrote = before
            raise
        self._see(lease)
        self._term.extend(began)

    async def _request(self, verb: str, request: Awaitable[Object]) -> Lease:
        self._doing = verb
        return _lease(await request)

    def _see(self, lease: Lease) -> ObservedLease:
        """Take note of a Lease. Its age begins anew when its record is another."""
        record = record_of(lease)
        old = self._seen
        since = old.since if old is not None and old.record == record else self._clock.uptime()
        self._seen = ObservedLease(lease, record, since)
        if record.holder != self._reported:
            self._reported = record.holder
            self._log("new leader elected", identity=record.holder)
        return self._seen

    def _expires(self, seen: ObservedLease) -> float:
        """Return the uptime at which the lease runs out unless it is seen to change."""
        return seen.since + (seen.record.seconds or self._me.timing.lease_seconds)

    def _pause(self) -> float:
        """Return how long to wait before the next look: not beyond the moment when the lease runs out."""
        period = self._me.timing.retry_period * self._random.uniform(SHORTEST_WAIT, LONGEST_WAIT)
        left = self._expires(self._seen) - self._clock.uptime() if self._seen is not None else 0.0
        return min(period, left) if left > 0.0 else period

    @property
    def _holder(self) -> str:
        return "" if self._seen is None else self._seen.record.holder

    @property
    def _name(self) -> str:
        return f"{self._me.lease.namespace}/{self._me.lease.name}"

    def _time(self) -> str:
        return micro_time(self._clock.now())

    def _log(self, event: str, **fields: str) -> None:
        log.info(event, lease=self._name, **fields)

    def _complain(self, error: ClusterError) -> None:
        """Log that a request failed, but the same failure not at every retry."""
        text, now = f"{self._doing} {error.message}", self._clock.uptime()
        if text == self._said and now - self._said_at < REPEAT_SECONDS:
            return
        self._said, self._said_at = text, now
        ref = self._me.lease
        log.warning(
            "leader election: a request failed; it is tried again",
            verb=self._doing,
            resource=ref.kind.plural_group,
            namespace=ref.namespace,
            name=ref.name,
            err=error.message,
        )


def _lease(found: Object) -> Lease:
    assert isinstance(found, Lease)
    return found
