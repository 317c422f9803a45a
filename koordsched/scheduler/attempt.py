"""Attempt: one pod on its way, from the queue to its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.cycle_state import CycleState

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.profile import Profile
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.extenders.asking import ExtenderAnswer

NO_STATE = CycleState()


class Attempt(msgspec.Struct, eq=False):
    """One pod on its way."""

    info: QueuedPodInfo
    pod: PodInfo
    profile: Profile
    started: float  # Clock.perf
    searched: float = 0.0  # Clock.perf: when the search for its node began; 0: when the attempt did
    state: CycleState = NO_STATE  # from PreFilter on
    answer: ExtenderAnswer | None = None  # of the extenders, if they were asked
    node: str = ""  # once it is chosen
    planned: str = ""  # the only node that it may go to, by the plan of its group
