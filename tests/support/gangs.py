"""A gang of pods by label: all or none of them. The label `gang` names it, `size` says how many there are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.framework.handle import Handle
from koordsched.framework.interface import GangTurn, GroupRefusal, GroupTurnPlugin, PreEnqueuePlugin
from koordsched.framework.status import Status, unresolvable
from koordsched.queue.events import EventHint
from support.fakes import pod_manifest


class Gangs(PreEnqueuePlugin, GroupTurnPlugin):
    """Lets the first pending member of a gang stand for all: the others are gated, and placed in its turn."""

    name = "Gangs"

    def __init__(self, handle: Handle, *, strict: bool = True) -> None:
        self.pods: Any = handle.informer(POD).store
        self.cache = handle.cache
        self.handle = handle
        self.strict = strict
        self.refusals: list[GroupRefusal] = []

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def events_to_register(self) -> Sequence[EventHint] | None:
        return None

    def pending(self, gang: str) -> list[Pod]:
        """Return the members that are not placed, by name."""
        members = [pod for pod in self.pods.values() if pod.metadata.labels.get("gang") == gang]
        return sorted((pod for pod in members if pod.metadata.uid not in self.cache.pods), key=lambda pod: pod.metadata.name)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gang = pod.pod.metadata.labels.get("gang")
        if gang is None or self.missing(pod) <= 0:
            return None
        first = self.pending(gang)[0]
        return None if first.metadata.uid == pod.uid else unresolvable(f"{first.metadata.name} stands for the gang")

    def missing(self, pod: PodInfo) -> int:
        """Return how many members have to be placed for the gang to have its size."""
        labels = pod.pod.metadata.labels
        placed = sum(state.info.pod.metadata.labels.get("gang") == labels["gang"] for state in self.cache.pods.values())
        return int(labels["size"]) - placed

    def group_turn(self, pod: PodInfo) -> Sequence[GangTurn] | None:
        gang = pod.pod.metadata.labels.get("gang")
        if gang is None or (missing := self.missing(pod)) <= 0:
            return None
        keys = tuple(f"{each.metadata.namespace}/{each.metadata.name}" for each in self.pending(gang))
        return [GangTurn(gang, keys, missing, self.strict)]

    def group_refused(self, pod: PodInfo, refusal: GroupRefusal) -> str:
        self.refusals.append(refusal)
        return super().group_refused(pod, refusal)


def member(name: str, gang: str = "g", size: int = 3, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a pod of a gang."""
    made = pod_manifest(name, cpu, **spec)
    made["metadata"]["labels"] = {"gang": gang, "size": str(size)}
    return made
