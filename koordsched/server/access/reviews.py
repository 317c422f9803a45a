"""Asking the API server for a review: of a token (which user it stands for), or of access (whether a user may do something).

A review changes nothing, so it is asked again after every answer that may pass (as k8s.io/apiserver's webhooks do: five times, from half a
second on), for ten seconds in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Protocol

import msgspec

from koordsched.api.kinds import Kind
from koordsched.api.meta import Api, Object
from koordsched.backoff import Backoff
from koordsched.cluster.port import ClusterError, OutcomeUnknown, ServerError, TooManyRequests

TRIES = 5
FIRST_DELAY = 0.5
FACTOR = 1.5
JITTER = 0.2
SECONDS = 10.0


class UserInfo(Api):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class TokenReviewStatus(Api):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(Object):
    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(Api):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class SubjectAccessReview(Object):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False, struct=TokenReview)
SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False, struct=SubjectAccessReview
)


class Creating(Protocol):
    """What is needed of the port."""

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object: ...


class Reviews:
    """Reviews of one API server, with the credentials of one kubeconfig."""

    def __init__(self, cluster: Creating, random: Random) -> None:
        self._cluster = cluster
        self._random = random

    async def ask(self, kind: Kind, spec: Mapping[str, Any]) -> Object:
        """Return the answered review; ClusterError when there is no answer in time or it will not come."""
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}
        try:
            async with asyncio.timeout(SECONDS):
                return await self._insist(kind, body)
        except TimeoutError:
            raise ServerError(f"{kind.plural_group}: no answer within {SECONDS:.0f} s") from None

    async def _insist(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=SECONDS, factor=FACTOR, jitter=JITTER)
        for left in reversed(range(TRIES)):
            try:
                return await self._cluster.create(kind, body)
            except (ServerError, TooManyRequests, OutcomeUnknown):
                if not left:
                    raise
            await asyncio.sleep(backoff.delay())
        raise ClusterError("unreachable: the last try returns or raises")
