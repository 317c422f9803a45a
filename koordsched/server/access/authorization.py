"""Whether a user may do something: system:masters may, all users may on the always-allowed paths, else the API server decides.

It decides by a SubjectAccessReview on the path and the method in small letters; answers are remembered for the flags' times. Without an
answer no request passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec
from cachetools import TLRUCache

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.server.access.authentication import Authenticator
from koordsched.server.access.identities import MASTERS, RequestUser
from koordsched.server.access.reviews import SUBJECT_ACCESS_REVIEW, Reviews, SubjectAccessReview, SubjectAccessReviewStatus
from koordsched.server.http import JSON, HttpRequest, Response, text

log = get_logger(__name__)

KEPT = 8192
LONGEST_KEPT = 10_000
"""Characters of what the requester says of himself and wants: a longer question is not worth remembering."""


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str = ""


ALLOWED = Decision(allowed=True)
UNDECIDED = Decision(allowed=False)


class AnswerLifetimes(msgspec.Struct, frozen=True):
    """For how many seconds answers hold."""

    authorized: float = 10.0
    unauthorized: float = 10.0


class OpenPaths:
    """Paths that all users may ask for; a trailing * is any rest, a leading slash makes no difference."""

    def __init__(self, patterns: Sequence[str]) -> None:
        bare = [pattern.removeprefix("/") for pattern in patterns]
        self._exact = frozenset(pattern for pattern in bare if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in bare if pattern.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or (bool(self._prefixes) and bare.startswith(self._prefixes))


class Authorizer:
    """`reviews` None: there is no API server to ask, and the answer is no."""

    def __init__(self, open_paths: OpenPaths, reviews: Reviews | None, now: Callable[[], float], holding: AnswerLifetimes) -> None:
        self._open_paths = open_paths
        self._reviews = reviews
        self._holding = holding
        self._known: TLRUCache[bytes, SubjectAccessReviewStatus] = TLRUCache(KEPT, self._until, now)

    async def decide(self, user: RequestUser, request: HttpRequest) -> Decision:
        """Return whether the user may; ClusterError when the API server cannot be asked."""
        if MASTERS in user.groups or request.path in self._open_paths:
            return ALLOWED
        if self._reviews is None:
            return UNDECIDED
        status = await self._status(self._reviews, user, request)
        return Decision(status.allowed and not status.denied, status.reason)

    async def _status(self, reviews: Reviews, user: RequestUser, request: HttpRequest) -> SubjectAccessReviewStatus:
        spec = {
            "user": user.name,
            "groups": user.groups,
            "nonResourceAttributes": {"path": request.path, "verb": request.method.lower()},
            **({"uid": user.uid} if user.uid else {}),
            **({"extra": user.extra} if user.extra else {}),
        }
        key = msgspec.json.encode(spec)
        status = self._known.get(key)
        if status is None:
            status = cast("SubjectAccessReview", await reviews.ask(SUBJECT_ACCESS_REVIEW, spec)).status
            if len(key) < LONGEST_KEPT:
                self._known[key] = status
        return status

    def _until(self, _key: bytes, status: SubjectAccessReviewStatus, now: float) -> float:
        return now + (self._holding.authorized if status.allowed else self._holding.unauthorized)


class AccessFilter(msgspec.Struct):
    """Authenticates, then authorises; a request that may not pass is answered in kube-scheduler's words and codes."""

    authenticator: Authenticator
    authorizer: Authorizer

    async def refusal(self, request: HttpRequest) -> Response | None:
        """Return what to answer instead of what was asked for, None when the request may pass."""
        user = await self.authenticator.user(request)
        if user is None:
            return status(401, "Unauthorized", "Unauthorized")
        try:
            decision = await self.authorizer.decide(user, request)
        except ClusterError as error:
            log.error(
                "a request is refused because no API server can be asked; may --authorization-kubeconfig create subjectaccessreviews?",
                user=user.name,
                uri=request.uri,
                err=error.message,
            )
            return text(500, f"Internal Server Error: {_harmless(_quoted(request.uri))}: {_harmless(error.message)}\n")
        if decision.allowed:
            return None
        log.debug("Forbidden", uri=request.uri, user=user.name, reason=decision.reason)
        return forbidden(user, request, decision)


def forbidden(user: RequestUser, request: HttpRequest, decision: Decision) -> Response:
    """Return the answer to a user who is known, and may not."""
    words = _harmless(f"User {_quoted(user.name)} cannot {request.method.lower()} path {_quoted(request.path)}")
    return status(403, "Forbidden", f"forbidden: {words}" + (f": {decision.reason}" if decision.reason else ""), details={})


def status(code: int, reason: str, message: str, **more: object) -> Response:
    """Return a metav1.Status as kube-scheduler writes it."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason}
    return Response(code, JSON, msgspec.json.encode({**head, **more, "code": code}) + b"\n")


def _quoted(words: str) -> str:
    return msgspec.json.encode(words).decode()


def _harmless(words: str) -> str:
    """Leave nothing in a text that a browser might take for HTML."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
