"""What must hold between any two calls of the scheduling queue. Tests check it after every step, production never: it is O(pods)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koordsched.queue.queued_pod import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.queue.inflight import InFlight
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.queue.sub_queues import SubQueues


def check(queues: SubQueues, inflight: InFlight) -> None:
    """Raise AssertionError at the first thing that does not hold."""
    _check_places(queues)
    _check_groups(queues)
    _check_nominations(queues)
    for info in inflight:
        _require(info.place is QueuePlace.IN_FLIGHT or queues.get(info.key) is not info, "a pod in flight is in a queue", queues, info)
    _require(len(inflight.pods) > 0 or inflight.events == 0, "events are kept though no pod is in flight", queues)


def _check_places(queues: SubQueues) -> None:
    found = Counter(info.key for part in (queues.active, queues.backoff, queues.unschedulable) for info in part)
    for key, times in found.items():
        _require(times == 1, f"{key} is in {times} queues", queues, queues.get(key))
    _require(found.keys() == {info.key for info in queues}, "a pod is lost or in no queue", queues)
    for place, part in ((QueuePlace.ACTIVE, queues.active), (QueuePlace.BACKOFF, queues.backoff)):
        for info in part:
            _require(info.place is place, f"is in the {place.value} queue but its place is {info.place.name}", queues, info)
            _require(info.group is None and not info.gated, "is in a group of unschedulable pods or gated as well", queues, info)
    for info in queues.backoff:
        computed = info.backoff_expiry
        info.backoff_expiry = None
        _require(queues.backoff.expiry(info) == computed, "its cached backoff is out of date", queues, info)


def _check_groups(queues: SubQueues) -> None:
    for group in queues.unschedulable.groups:
        _require(len(group.members) > 0, f"the group {group.key} is empty", queues)
        _require(group.by_shape or not group.active, f"the group {group.key} is active but moves as a whole", queues)
        for info in group.members:
            expected = QueuePlace.GATED if group.gating_plugin else QueuePlace.UNSCHEDULABLE
            _require(info.place is expected and info.group is group, f"is in {group.key} but has another place", queues, info)
            _require(bool(info.rejectors.all), "is unschedulable but no plugin refused it", queues, info)
        if group.active:
            probe_pod = group.probe_pod
            _require(
                probe_pod is not None and probe_pod.place is QueuePlace.ACTIVE and probe_pod.probe_pod_of is group,
                f"{group.key} has no probe pod",
                queues,
                probe_pod,
            )
    gated = sum(info.gated for info in queues.unschedulable)
    _require(gated == queues.unschedulable.gated, "the number of gated pods is wrong", queues)


def _check_nominations(queues: SubQueues) -> None:
    listed = {uid: node for node, pods in queues.nominator.nodes.items() for uid in pods}
    _require(all(queues.nominator.node_of(uid) == node for uid, node in listed.items()), "a nomination is listed twice", queues)
    _require(len(listed) == len(queues.nominator), "a nomination is not listed under its node", queues)


def _require(holds: bool, message: str, queues: SubQueues, info: QueuedPodInfo | None = None) -> None:
    if not holds:
        history: Iterable[object] = queues.history(info.key) if info is not None else ()
        raise AssertionError("\n".join([f"{info or 'queue'}: {message}", *map(str, history)]))
