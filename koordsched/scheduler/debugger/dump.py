"""The cache and the queue as data to log or to answer: at most so many nodes and pods, with a count of all.

Amounts of cpu are in milli-cores, all others in whole units. A dump is taken in slices: what comes or goes meanwhile may be in it or not.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from koordsched.clock import rfc3339
from koordsched.queue.queued_pod import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo
    from koordsched.queue.nominator import Nominator
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.queue.scheduling_queue import SchedulingQueue
    from koordsched.scheduler.context import SchedulerContext

    Pause = Callable[[], Awaitable[None]]  # lets others run when this has taken long enough (`koordsched.slices`)


class NodeDump(msgspec.Struct, frozen=True):
    """A node. `known` is false while only pods on it are known; pods are "ns/name"."""

    name: str
    known: bool
    pods: int
    assumed_pods: tuple[str, ...]
    nominated_pods: tuple[str, ...]
    requested: dict[str, int]
    allocatable: dict[str, int]


class CacheDump(msgspec.Struct, frozen=True):
    """Nodes by name; `nominated` has the nominations for nodes that do not exist (any more) as well."""

    nodes_total: int
    pods_total: int
    assumed_total: int
    repairs: int
    nodes: tuple[NodeDump, ...]
    nominated: dict[str, tuple[str, ...]]


class PodDump(msgspec.Struct, frozen=True):
    """A pod that waits or is being tried: which plugins refused it, and the message of its condition.

    admission_keys: the gangs and quotas whose announcements move it, as "plugin/key".
    """

    pod: str
    uid: str
    profile: str
    priority: int
    since: str  # of being where it is
    attempts: int
    rejectors: tuple[str, ...]
    admission_keys: tuple[str, ...]
    message: str
    nominated_node: str


class PartDump(msgspec.Struct, frozen=True):
    """One part of the queue: how many pods are in it and the first of them."""

    total: int
    pods: tuple[PodDump, ...]


class WaitingDump(msgspec.Struct, frozen=True):
    """A pod that waits on Permit."""

    pod: str
    node: str
    pending_plugins: tuple[str, ...]


class QueueDump(msgspec.Struct, frozen=True):
    active: PartDump  # in the order of their turn
    backoff: PartDump
    unschedulable: PartDump
    gated: PartDump
    in_flight: PartDump
    waiting_total: int
    waiting: tuple[WaitingDump, ...]


async def dump_cache(context: SchedulerContext, limit: int, pause: Pause) -> CacheDump:
    """Show at most `limit` nodes, by name, and as many nodes with nominations."""
    cache, nominator = context.cache, context.queue.nominator
    nodes = []
    for name in sorted(cache.nodes_by_name)[:limit]:
        if (info := cache.nodes_by_name.get(name)) is not None:
            nodes.append(_node(info, cache, nominator))
        await pause()
    return CacheDump(
        nodes_total=len(cache.nodes_by_name),
        pods_total=len(cache.pods),
        assumed_total=cache.assumed_count,
        repairs=cache.repairs,
        nodes=tuple(nodes),
        nominated={node: tuple(pod.key for pod in pods.values()) for node, pods in islice(nominator.nodes.items(), limit)},
    )


async def dump_queue(context: SchedulerContext, limit: int, pause: Pause) -> QueueDump:
    """Show at most `limit` pods of each part."""
    queue = context.queue
    by_place: dict[QueuePlace, list[QueuedPodInfo]] = {place: [] for place in QueuePlace}
    for info in queue.pending():
        by_place[info.place].append(info)
    await pause()

    async def part(infos: list[QueuedPodInfo]) -> PartDump:
        shown = []
        for info in infos[:limit]:
            shown.append(_pod(info, queue))
            await pause()
        return PartDump(len(infos), tuple(shown))

    return QueueDump(
        active=await part(by_place[QueuePlace.ACTIVE]),
        backoff=await part(by_place[QueuePlace.BACKOFF]),
        unschedulable=await part(by_place[QueuePlace.UNSCHEDULABLE]),
        gated=await part(by_place[QueuePlace.GATED]),
        in_flight=await part(list(queue.in_flight)),
        waiting_total=len(context.waiting_pods),
        waiting=tuple(
            WaitingDump(waiting.pod.key, waiting.node_name, _sorted(waiting.pending_plugins))
            for waiting in islice(context.waiting_pods, limit)
        ),
    )


def _node(info: NodeInfo, cache: Cache, nominator: Nominator) -> NodeDump:
    names = [*cache.columns.resources]
    return NodeDump(
        name=info.name,
        known=info.node is not None,
        pods=len(info.pods),
        assumed_pods=_sorted(pod.key for uid, pod in info.pods.items() if cache.is_assumed(uid)),
        nominated_pods=tuple(pod.key for pod in nominator.pods_on(info.name)),
        requested={name: amount for name in names if (amount := info.requested(name))},
        allocatable={name: amount for name in names if (amount := info.allocatable(name))},
    )


def _pod(info: QueuedPodInfo, queue: SchedulingQueue) -> PodDump:
    return PodDump(
        pod=info.key,
        uid=info.uid,
        profile=info.profile,
        priority=info.pod_info.priority,
        since=rfc3339(info.since),
        attempts=info.attempts,
        rejectors=_sorted(info.rejectors.all),
        admission_keys=() if info.group is None else tuple(f"{key.plugin}/{key.key}" for key in info.group.admission_keys),
        message=info.gating_message if info.gated else info.last_message,
        nominated_node=queue.nominator.node_of(info.uid),
    )


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
