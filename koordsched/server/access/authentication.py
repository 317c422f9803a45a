"""The user of a request: by the first of front proxy, client certificate and bearer token that names one; else anonymous.

As with k8s.io/apiserver's union of authenticators, something that was shown and is wrong (an expired certificate, an unknown token)
refuses the request with 401 unless another of the three vouches for it; what shows nothing is system:anonymous.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import cast

import msgspec
from cachetools import TTLCache

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.server.access.authorities import Trust
from koordsched.server.access.identities import ANONYMOUS, RequestUser, authenticated, common_name, user_behind, user_of
from koordsched.server.access.reviews import TOKEN_REVIEW, Reviews, TokenReview
from koordsched.server.http import HttpRequest

log = get_logger(__name__)

KEPT = 32_768
INVALID = "invalid bearer token"


LINES = 10
LINES_SECONDS = 60.0
"""Refused requests are logged that often in so many seconds: a client that asks with a wrong token must not fill the log."""


class LimitedLog:
    """Logs errors, LINES of them in LINES_SECONDS, and with the next line how many were left out before it."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._lines = self._left_out = 0

    def error(self, now: float, event: str, err: str) -> None:
        if not self._begun <= now < self._begun + LINES_SECONDS:
            self._begun, self._lines = now, 0
        if self._lines == LINES:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        log.error(event, err=err, **({"left_out": left_out} if left_out else {}))


class Verdict(msgspec.Struct, frozen=True):
    """The user of what a request shows, or what is wrong with it; neither when it shows nothing."""

    user: RequestUser | None = None
    flaw: str = ""


class Tokens:
    """Bearer tokens: TokenReviews of the API server, kept for `seconds` (--authentication-token-webhook-cache-ttl).

    An answer that could not be had is not kept, nor one that says that the token could not be checked: a kube-apiserver says no more of
    tokens that it does not know yet. Tokens are kept as hashes only, and equal ones that come together are reviewed once.
    """

    def __init__(self, reviews: Reviews, now: Callable[[], float], seconds: float) -> None:
        self._reviews = reviews
        self._now = now
        self._log = LimitedLog()
        self._known: TTLCache[bytes, Verdict] = TTLCache(KEPT, seconds, now)
        self._asked: dict[bytes, asyncio.Task[Verdict]] = {}

    async def verdict(self, token: str) -> Verdict:
        """Return the user of a token."""
        key = sha256(token.encode(errors="surrogateescape")).digest()
        known = self._known.get(key)
        if known is not None:
            return known
        asking = self._asked.get(key)
        if asking is None:
            asking = self._asked[key] = asyncio.create_task(self._ask(key, token))
        return await asyncio.shield(asking)  # a request that is given up leaves the others their answer

    async def _ask(self, key: bytes, token: str) -> Verdict:
        try:
            review = cast("TokenReview", await self._reviews.ask(TOKEN_REVIEW, {"token": token}))
        except ClusterError as error:
            self._log.error(self._now(), "a token cannot be reviewed, so its request is refused", error.message)
            return Verdict(flaw=error.message)
        finally:
            del self._asked[key]
        verdict = _read(review)
        if not review.status.error:
            self._known[key] = verdict
        return verdict


def _read(review: TokenReview) -> Verdict:
    status = review.status
    if not status.authenticated:
        return Verdict(flaw=status.error or INVALID)
    return Verdict(RequestUser(status.user.username, status.user.groups, status.user.uid, status.user.extra))


BEARER = "bearer"
NOTHING_SHOWN = Verdict()


class Authenticator(msgspec.Struct):
    """`trust` has the authorities of this moment; `tokens` None: tokens are not looked at; `now` in seconds since the epoch."""

    trust: Trust
    now: Callable[[], float]
    tokens: Tokens | None = None
    limited_log: LimitedLog = msgspec.field(default_factory=LimitedLog)

    async def user(self, request: HttpRequest) -> RequestUser | None:
        """Return the user; None when what was shown is wrong, which is logged."""
        flaws = []
        async for verdict in self._verdicts(request):
            if verdict.user is not None:
                return authenticated(verdict.user)
            if verdict.flaw:
                flaws.append(verdict.flaw)
        if not flaws:
            return ANONYMOUS
        self.limited_log.error(self.now(), "Unable to authenticate the request", "; ".join(flaws))
        return None

    async def _verdicts(self, request: HttpRequest) -> AsyncIterator[Verdict]:
        if request.chain:
            yield self._by_front_proxy(request)
            yield self._by_certificate(request)
        if self.tokens is not None and (token := bearer_token(request)):
            yield await self.tokens.verdict(token)

    def _by_front_proxy(self, request: HttpRequest) -> Verdict:
        proxy = self.trust.front_proxy
        if proxy is None:
            return NOTHING_SHOWN
        flaw = proxy.authorities.flaw(request.chain, self.now())
        name, allowed = "" if flaw else common_name(request.chain[0]), proxy.rules.allowed_names
        if not flaw and allowed and name not in allowed:
            flaw = f"x509: subject with cn={name} is not in the allowed list"
        return Verdict(flaw=flaw) if flaw else Verdict(user_behind(request.headers, proxy.rules))

    def _by_certificate(self, request: HttpRequest) -> Verdict:
        authorities = self.trust.clients
        if authorities is None:
            return NOTHING_SHOWN
        flaw = authorities.flaw(request.chain, self.now())
        return Verdict(flaw=flaw) if flaw else Verdict(user_of(request.chain[0]))


def bearer_token(request: HttpRequest) -> str:
    """Return the token of the Authorization header, "" when it has none."""
    words = request.headers.get("Authorization", "").strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == BEARER else ""
