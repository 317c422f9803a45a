"""An API server that answers reviews and publishes authorities, and what a test asks a gate with."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from koordsched.api.kinds import Kind
from koordsched.api.meta import Object, Unstructured
from koordsched.cluster.port import ClusterError, NotFound, Ref
from koordsched.server.access.reviews import (
    SUBJECT_ACCESS_REVIEW,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)


class Reviewer:
    """`tokens` says whose a token is, `allowed` which (user, path) may, `published` is the ConfigMap; `refusals` are raised first."""

    def __init__(self) -> None:
        self.tokens: dict[str, UserInfo] = {}
        self.flaws: dict[str, str] = {}  # what the API server says is wrong with a token
        self.allowed: set[tuple[str, str]] = set()
        self.status: SubjectAccessReviewStatus | None = None  # what every access review says, over `allowed`
        self.published: dict[str, str] | None = None
        self.refusals: list[ClusterError] = []
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.closed = False

    async def connect(self, _settings: object, _clock: object, _random: Random) -> Reviewer:
        return self

    async def close(self) -> None:
        self.closed = True

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        spec = body["spec"]
        self.asked.append((kind.kind, spec))
        if self.refusals:
            raise self.refusals.pop(0)
        if kind == SUBJECT_ACCESS_REVIEW:
            allowed = (spec["user"], spec["nonResourceAttributes"]["path"]) in self.allowed
            return SubjectAccessReview(status=self.status or SubjectAccessReviewStatus(allowed=allowed))
        user = self.tokens.get(spec["token"])
        if user is None:
            return TokenReview(status=TokenReviewStatus(error=self.flaws.get(spec["token"], "")))
        return TokenReview(status=TokenReviewStatus(authenticated=True, user=user))

    async def get(self, ref: Ref) -> Object:
        if self.refusals:
            raise self.refusals.pop(0)
        if self.published is None:
            raise NotFound(f'configmaps "{ref.name}" not found')
        return Unstructured(raw={"data": self.published})

    def reviews(self, kind: str) -> list[Mapping[str, Any]]:
        return [spec for asked, spec in self.asked if asked == kind]
