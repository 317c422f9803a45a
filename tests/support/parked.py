"""Pods that are parked although they could be scheduled: there must be none once all events were handled."""

from __future__ import annotations

from random import Random

from koordsched.api.core import Pod
from koordsched.api.podinfo import PodInfo
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.diagnosis import Diagnosis
from koordsched.queue.queued_pod import UNSCHEDULABLE
from support.world import NodeSearch


def parked_but_schedulable(world: EmbeddedCluster) -> list[str]:
    """Return the unschedulable pods for which a fresh attempt finds a node, with the node and their last message."""
    scheduler, found = world.scheduler, []
    search = NodeSearch(scheduler.cache, scheduler.queue.nominator, Random(1))
    for info in scheduler.queue.pending():
        if info.place is not UNSCHEDULABLE:
            continue
        stored = scheduler.pods[info.key]
        assert isinstance(stored, Pod)
        _, node = search.find(scheduler.profiles[info.profile], PodInfo(stored))
        if not isinstance(node, Diagnosis):
            found.append(f"{info.key} would go to {node}, but is parked: {info.last_message} {scheduler.queue.history(info.key)}")
    return found
