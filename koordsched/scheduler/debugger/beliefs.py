"""The cache and the queue against what the watches say.

Runs between two awaits. Handlers run inside the informers' updates, so at that moment every difference is one: but for an assumed pod
whose deletion was seen before its binding failed, which is why callers look again before they report (`debugger.confirmed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.cache.cache import Cache
from koordsched.cluster.mirror import object_key
from koordsched.scheduler.debugger.comparison import Comparison
from koordsched.scheduler.debugger.node_facts import wrong_nodes
from koordsched.scheduler.debugger.sources import pod_name

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.scheduler.debugger.sources import Sources


def compare_with_watch(sources: Sources) -> Comparison:
    """Compare the cache with one built anew, and the pods of cache and queue with the watched ones. O(nodes + pods)."""
    cache = sources.parts.cache
    anew, unreadable = rebuilt(sources)
    cached, actual = _live(cache), _live(anew)
    missed, redundant = actual - cached, cached - actual
    missed_pods, unreadable_pods = _missed_pods(sources, anew)
    compared = sorted((cache.nodes_by_name.keys() | anew.nodes_by_name.keys()) - missed - redundant)
    return Comparison(
        missed_nodes=tuple(sorted(missed)),
        redundant_nodes=tuple(sorted(redundant)),
        missed_pods=tuple(missed_pods),
        redundant_pods=_redundant_pods(sources),
        wrong_nodes=wrong_nodes(cache, anew, compared),
        unreadable=tuple(sorted(unreadable + unreadable_pods)),
        nodes=len(sources.nodes.store),
        pods=len(sources.pods.store),
    )


def rebuilt(sources: Sources) -> tuple[Cache, list[str]]:
    """Return the cache as it should be, every fact derived again from the objects, and the objects that cannot be read."""
    anew = Cache()
    unreadable: list[str] = []
    for pod in sources.pods.store.values():
        try:
            _count(pod, sources.parts.cache, anew)
        except QuantityError:
            unreadable.append(f"pod {object_key(pod)}")
            _count_as_believed(pod, sources.parts.cache, anew)
    for node in sources.nodes.store.values():
        try:
            anew.set_node(node)
        except QuantityError:
            unreadable.append(f"node {node.metadata.name}")
    return anew, unreadable


def _count(pod: Pod, believed: Cache, anew: Cache) -> None:
    """Count a bound pod where it is and an assumed one where it is assumed."""
    if pod.spec.node_name:
        anew.set_pod(PodInfo(pod, counted_on_node=True), pod.spec.node_name)
    elif believed.is_assumed(pod.metadata.uid):
        state = believed.pods[pod.metadata.uid]
        anew.assume_pod(PodInfo(state.info.pod), state.node.name)


def _count_as_believed(pod: Pod, believed: Cache, anew: Cache) -> None:
    """Count an unreadable pod as it was before it became so, if it ever could be read."""
    state = believed.pods.get(pod.metadata.uid)
    if state is not None:
        anew.set_pod(state.info, state.node.name)


def _live(cache: Cache) -> set[str]:
    return {name for name, info in cache.nodes_by_name.items() if info.node is not None}


def _missed_pods(sources: Sources, anew: Cache) -> tuple[list[str], list[str]]:
    """Name the pods that should be counted on a node, or be pending with us, but are not; and those of them that cannot be read."""
    parts = sources.parts
    queued = {info.uid for info in (*parts.queue.pending(), *parts.queue.in_flight)}
    missed, unreadable = [], []
    for key, pod in sources.pods.store.items():
        uid = pod.metadata.uid
        if uid in parts.cache.pods or (uid in queued and not pod.spec.node_name):
            continue
        if uid in anew.pods:
            missed.append(pod_name(key, uid))
        elif _is_pending_with_us(sources, pod):
            if _is_readable(pod):
                missed.append(pod_name(key, uid))
            else:
                unreadable.append(f"pod {key}")
    return sorted(missed), unreadable


def _is_pending_with_us(sources: Sources, pod: Pod) -> bool:
    """Answer whether the pod has to be in the queue. One being deleted leaves it when its turn comes."""
    return not pod.spec.node_name and pod.spec.scheduler_name in sources.profiles and pod.metadata.deletion_timestamp is None


def _is_readable(pod: Pod) -> bool:
    try:
        PodInfo(pod)
    except QuantityError:
        return False
    return True


def _redundant_pods(sources: Sources) -> tuple[str, ...]:
    """Name the pods that are counted or queued though they do not exist, or queued though they are bound."""
    parts = sources.parts
    watched = {pod.metadata.uid: pod for pod in sources.pods.store.values()}
    counted = [state.info for uid, state in parts.cache.pods.items() if uid not in watched]
    queued = [info.pod_info for info in parts.queue.pending() if (pod := watched.get(info.uid)) is None or pod.spec.node_name]
    return tuple(sorted({pod_name(info.key, info.uid) for info in (*counted, *queued)}))
