"""Whether somebody may do something: system:masters may, everybody may on the always-allowed paths, else the API server decides.

It decides by a SubjectAccessReview on the path and the method in small letters; answers are remembered for the flags' times. Without an
answer nobody is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from koordsched.server.access.memory import Memory
from koordsched.server.access.reviews import SUBJECT_ACCESS_REVIEW, Reviews, SubjectAccessReview, SubjectAccessReviewStatus
from koordsched.server.access.users import MASTERS, User
from koordsched.server.request import Request

KEPT = 8192
LONGEST_KEPT = 10_000
"""Characters of what the requester says of himself and wants: a longer question is not worth remembering."""


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""


ALLOWED = Decision(allowed=True)
NO_OPINION = Decision(allowed=False)


class Holding(msgspec.Struct, frozen=True):
    """For how many seconds answers hold."""

    authorized: float = 10.0
    unauthorized: float = 10.0


class OpenPaths:
    """Paths that everybody may ask for; a trailing * is any rest, a leading slash makes no difference."""

    def __init__(self, patterns: Sequence[str]) -> None:
        bare = [pattern.removeprefix("/") for pattern in patterns]
        self._exact = frozenset(pattern for pattern in bare if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in bare if pattern.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or (bool(self._prefixes) and bare.startswith(self._prefixes))


class Authorization:
    """`reviews` None: there is no API server to ask, and the answer is no."""

    def __init__(self, open_paths: OpenPaths, reviews: Reviews | None, now: Callable[[], float], holding: Holding) -> None:
        self._open_paths = open_paths
        self._reviews = reviews
        self._holding = holding
        self._memory = Memory[SubjectAccessReviewStatus](now, KEPT)

    async def decide(self, user: User, request: Request) -> Decision:
        """Return whether the user may; ClusterError when the API server cannot be asked."""
        if MASTERS in user.groups or request.path in self._open_paths:
            return ALLOWED
        if self._reviews is None:
            return NO_OPINION
        status = await self._status(self._reviews, user, request)
        return Decision(status.allowed and not status.denied, status.reason)

    async def _status(self, reviews: Reviews, user: User, request: Request) -> SubjectAccessReviewStatus:
        spec = {
            "user": user.name,
            "groups": user.groups,
            "nonResourceAttributes": {"path": request.path, "verb": request.method.lower()},
            **({"uid": user.uid} if user.uid else {}),
            **({"extra": user.extra} if user.extra else {}),
        }
        key = msgspec.json.encode(spec)
        status = self._memory.get(key)
        if status is None:
            status = cast("SubjectAccessReview", await reviews.ask(SUBJECT_ACCESS_REVIEW, spec)).status
            if len(key) < LONGEST_KEPT:
                self._memory.put(key, status, self._holding.authorized if status.allowed else self._holding.unauthorized)
        return status
