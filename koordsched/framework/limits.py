"""Limits that pods share: what a plugin that has such limits, as ElasticQuota, says of them, and how a change of them is tried.

For `scheduler.suggestions`: which limit keeps a pod back, who holds most of it, and whether a larger one would admit the pod.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.quantity import QuantityFormat
from koordsched.framework.interface import Plugin

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo


class Limit(msgspec.Struct, frozen=True):
    """The most of one resource that the pods of a quota may use, in the units of scheduling (cpu in milli).

    written: the format in which the object has it. holders: the pods that use most of it, by key; none where too many would have to be
    looked at.
    """

    namespace: str
    quota: str
    resource: str
    most: int
    used: int
    written: QuantityFormat
    holders: tuple[tuple[str, int], ...]


class RaisedLimit(msgspec.Struct, frozen=True):
    """A limit that is larger by this much. with_min: what the quota is guaranteed is larger by as much."""

    quota: str
    resource: str
    added: int
    with_min: bool


class LimitsPlugin(Plugin):
    """A plugin that limits what pods use together."""

    @abstractmethod
    def limits_of(self, pod: PodInfo) -> Sequence[Limit]:
        """Return the limits that the pod comes under, of the resources that it asks for: those of its own quota first."""

    @abstractmethod
    def counted_as(self, pod: PodInfo, raised: Sequence[RaisedLimit] = (), gone: Sequence[PodInfo] = ()) -> AbstractContextManager[None]:
        """Return what counts a pending pod as this state of it asks, under larger limits and without pods that are gone, while the block
        runs.

        Nothing may await inside, and what changes there is not reported. O(quotas) for a raised limit.
        """
