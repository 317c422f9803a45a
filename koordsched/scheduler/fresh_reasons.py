"""Keeps what pending pods are told true, without retrying them.

The queue does not retry a pod that cannot succeed. But nodes come, go and change, and with them the reasons: a pod that waits since "0/3
nodes" should not say so when there are five. So when the queue found that an event helps nobody of a shape, and the reasons differ from
what its pods were told, they are told anew: after a second, and where reasons go on changing every five; so many pods a time that a large
crowd does not flood the API server. What PostFilter would add is part of the message; where only an attempt could find that out, pods are
left alone.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from koordsched.framework.shapes import ShapeKey
from koordsched.scheduler.failure import UNSCHEDULABLE, tell
from koordsched.scheduler.status_writer import Said
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.profile import Profile
    from koordsched.scheduler.parts import Parts

PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 5.0
"""Doubled from turn to turn while there is always somebody to tell: on a cluster that changes every second each turn is an event and a
status for most pending pods, and nobody reads that fast."""
PODS_A_TURN = 100


class FreshReasons:
    """Shapes whose reasons have changed since their pods were told, each with one of its pods."""

    def __init__(self, parts: Parts, pods: Mapping[str, Pod]) -> None:
        self._parts = parts
        self._pods = pods
        self._changed: dict[tuple[ShapeKey, int], tuple[Profile, PodInfo]] = {}  # by shape and priority
        self._timer: asyncio.TimerHandle | None = None  # set while anything has changed
        self._pause = PAUSE_SECONDS  # before the last turn
        self._last_turn = -MAX_PAUSE_SECONDS

    @property
    def pending(self) -> bool:
        """Whether somebody is still to be told."""
        return bool(self._changed)

    def found(self, profile: Profile, pod: PodInfo, diagnosis: Diagnosis) -> None:
        """Take note of why the pod's shape is refused now. O(1) while that stays the same."""
        shape = pod.shape
        if not isinstance(shape, ShapeKey) or shape.told.get(pod.priority) == diagnosis.message:
            return
        known, shape.told[pod.priority] = shape.told.get(pod.priority, ""), diagnosis.message
        if known:
            self._tell_later(profile, pod, shape)

    def stop(self) -> None:
        """Tell nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell_later(self, profile: Profile, pod: PodInfo, shape: ShapeKey) -> None:
        if self._timer is None:
            calm = asyncio.get_running_loop().time() - self._last_turn > self._pause
            self._pause = PAUSE_SECONDS if calm else min(2 * self._pause, MAX_PAUSE_SECONDS)
            self._timer = call_later(self._pause, self._tell_all)
        self._changed[shape, pod.priority] = (profile, pod)

    def _tell_all(self) -> None:
        self._timer = None
        self._last_turn = asyncio.get_running_loop().time()
        changed, self._changed = self._changed, {}
        for (shape, _), (profile, pod) in changed.items():
            self._tell(profile, pod, shape)

    def _tell(self, profile: Profile, pod: PodInfo, shape: ShapeKey) -> None:
        """Tell some of the shape's pods; if there may be more, go on in the next turn."""
        diagnosis = profile.shapes.why_infeasible(pod)
        message = None if diagnosis is None else profile.message_of(pod, diagnosis)
        if diagnosis is None or message is None:
            return  # an event in between woke it: an attempt will tell
        shape.told[pod.priority] = diagnosis.message
        outdated = (info for info in self._parts.queue.shape_group_of(pod) if info.last_message != message)
        told = list(islice(outdated, PODS_A_TURN))
        for info in told:
            info.last_message = message
            stored = self._pods.get(info.key)
            if stored is not None and stored.metadata.uid == info.uid:
                tell(self._parts, stored, Said(UNSCHEDULABLE, message))
        if len(told) == PODS_A_TURN:
            self._pause = PAUSE_SECONDS  # it is the same turn still
            self._tell_later(profile, told[-1].pod_info, shape)
