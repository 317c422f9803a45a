"""Bearer tokens: the API server says whose one is (TokenReview); the answer is remembered for --authentication-token-webhook-cache-ttl.

An answer that could not be had is not remembered, nor one that says that the token could not be checked: that is all a kube-apiserver says
of tokens that it does not know yet. Tokens are kept as hashes only, and equal ones that come together are asked about once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import cast

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.server.access.memory import Memory
from koordsched.server.access.reviews import TOKEN_REVIEW, Reviews, TokenReview
from koordsched.server.access.users import User

log = get_logger(__name__)

KEPT = 32_768
INVALID = "invalid bearer token"


class Verdict(msgspec.Struct, frozen=True):
    """Whose a token is, or what is wrong with it."""

    user: User | None = None
    flaw: str = ""


class Tokens:
    """`seconds` is how long an answer holds."""

    def __init__(self, reviews: Reviews, now: Callable[[], float], seconds: float) -> None:
        self._reviews = reviews
        self._seconds = seconds
        self._memory = Memory[Verdict](now, KEPT)
        self._asked: dict[bytes, asyncio.Task[Verdict]] = {}

    async def verdict(self, token: str) -> Verdict:
        """Return whose the token is."""
        key = sha256(token.encode(errors="surrogateescape")).digest()
        known = self._memory.get(key)
        if known is not None:
            return known
        asking = self._asked.get(key)
        if asking is None:
            asking = self._asked[key] = asyncio.create_task(self._ask(key, token))
        return await asyncio.shield(asking)  # whoever goes away leaves the others their answer

    async def _ask(self, key: bytes, token: str) -> Verdict:
        try:
            review = cast("TokenReview", await self._reviews.ask(TOKEN_REVIEW, {"token": token}))
        except ClusterError as error:
            log.error("a token cannot be reviewed, so its request is refused", err=error.message)
            return Verdict(flaw=error.message)
        finally:
            del self._asked[key]
        verdict = _read(review)
        if not review.status.error:
            self._memory.put(key, verdict, self._seconds)
        return verdict


def _read(review: TokenReview) -> Verdict:
    status = review.status
    if not status.authenticated:
        return Verdict(flaw=status.error or INVALID)
    return Verdict(User(status.user.username, status.user.groups, status.user.uid, status.user.extra))
