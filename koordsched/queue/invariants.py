"""What must hold between any two calls of the scheduling queue. Tests check it after every step, production never: it is O(pods)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koordsched.queue.queued_pod import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.queue.inflight import InFlight
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.queue.sub_queues import SubQueues

Violation = tuple[str, "QueuedPodInfo | None"]
"""What does not hold, and of which pod; None: of the queue as a whole."""


def check(queues: SubQueues, inflight: InFlight) -> None:
    """Raise AssertionError at the first thing that does not hold, with the history of its pod."""
    for violations in (_places(queues), _groups(queues), _nominations(queues), _flights(queues, inflight)):
        for message, info in violations:
            history = [] if info is None else queues.history(info.key)
            raise AssertionError("\n".join([f"{info or 'queue'}: {message}", *map(str, history)]))


def _places(queues: SubQueues) -> Iterator[Violation]:
    found = Counter(info.key for part in (queues.active, queues.backoff, queues.unschedulable) for info in part)
    for key, times in found.items():
        if times != 1:
            yield f"{key} is in {times} queues", queues.get(key)
    if found.keys() != {info.key for info in queues}:
        yield "a pod is lost or in no queue", None
    for place, part in ((QueuePlace.ACTIVE, queues.active), (QueuePlace.BACKOFF, queues.backoff)):
        for info in part:
            if info.place is not place:
                yield f"is in the {place.value} queue but its place is {info.place.name}", info
            if info.group is not None or info.gated:
                yield "is in a group of unschedulable pods or gated as well", info
    for info in queues.backoff:
        computed = info.backoff_expiry
        info.backoff_expiry = None
        if queues.backoff.expiry(info) != computed:
            yield "its cached backoff is out of date", info


def _groups(queues: SubQueues) -> Iterator[Violation]:
    for group in queues.unschedulable.groups:
        if not len(group.members):
            yield f"the group {group.key} is empty", None
        if group.active and not group.one_by_one:
            yield f"the group {group.key} is active but moves as a whole", None
        for info in group.members:
            expected = QueuePlace.GATED if group.gating_plugin else QueuePlace.UNSCHEDULABLE
            if info.place is not expected or info.group is not group:
                yield f"is in {group.key} but has another place", info
            if not info.rejectors.all:
                yield "is unschedulable but no plugin refused it", info
        probe_pod = group.probe_pod
        places = (QueuePlace.ACTIVE, QueuePlace.BACKOFF) if group.by_admission else (QueuePlace.ACTIVE,)
        if group.active and (probe_pod is None or probe_pod.place not in places or probe_pod.probe_pod_of is not group):
            yield f"{group.key} has no probe pod", probe_pod
        for info in group.members:
            if group.by_admission and queues.group_key(info) != group.key:
                yield f"waits in {group.key}, which is not its own", info
        for key in group.admission_keys:
            if group not in queues.unschedulable.waiting_under(key):
                yield f"{group.key} is not found under {key}", None
    if sum(info.gated for info in queues.unschedulable) != queues.unschedulable.gated:
        yield "the number of gated pods is wrong", None


def _nominations(queues: SubQueues) -> Iterator[Violation]:
    listed = {uid: node for node, pods in queues.nominator.nodes.items() for uid in pods}
    if any(queues.nominator.node_of(uid) != node for uid, node in listed.items()):
        yield "a nomination is listed twice", None
    if len(listed) != len(queues.nominator):
        yield "a nomination is not listed under its node", None


def _flights(queues: SubQueues, inflight: InFlight) -> Iterator[Violation]:
    for info in inflight:
        if info.place is not QueuePlace.IN_FLIGHT and queues.get(info.key) is info:
            yield "a pod in flight is in a queue", info
    if inflight.events and not inflight.pods:
        yield "events are kept though no pod is in flight", None
