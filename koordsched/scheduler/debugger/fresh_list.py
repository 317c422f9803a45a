"""What the watches say against a fresh list from the API server.

One look proves little: between the list and the watch there is always something on its way. What the list lacks may be new and what only
the list has may be deleted, so who looks twice and keeps what both looks found (`debugger.confirmed`) has what is really wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.informer import PAGE_SIZE
from koordsched.cluster.mirror import object_key
from koordsched.scheduler.debugger.comparison import Comparison, Stale
from koordsched.scheduler.debugger.sources import pod_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.api.kinds import Kind
    from koordsched.cluster.port import Cluster
    from koordsched.scheduler.debugger.sources import Sources

    Watched = Node | Pod


async def compare_with_list(sources: Sources) -> Comparison:
    """List nodes and pods, and compare each with its watch. ClusterError when they cannot be listed."""
    cluster = sources.parts.cluster
    nodes = await _list(cluster, NODE, "")
    missed_nodes, redundant_nodes, stale_nodes = _differences("node", nodes, dict(sources.nodes.store))
    pods = await _list(cluster, POD, sources.pod_selector)
    missed_pods, redundant_pods, stale_pods = _differences("pod", pods, dict(sources.pods.store))
    return Comparison(
        missed_nodes=missed_nodes,
        redundant_nodes=redundant_nodes,
        missed_pods=missed_pods,
        redundant_pods=redundant_pods,
        stale=stale_nodes + stale_pods,
    )


def newer(version: str, other: str) -> bool:
    """Answer whether a resource version is later than another (frameworkext.md §1.4: by length, then as text)."""
    return (len(version), version) > (len(other), other)


async def _list(cluster: Cluster, kind: Kind, field_selector: str) -> dict[str, Watched]:
    """Return all objects by key."""
    found: dict[str, Watched] = {}
    token = ""
    while True:
        page = await cluster.list(kind, field_selector=field_selector, limit=PAGE_SIZE, continue_token=token)
        found.update({object_key(obj): cast("Watched", obj) for obj in page.items})
        token = page.continue_token
        if not token:
            return found


def _differences(
    kind: str, listed: Mapping[str, Watched], watched: Mapping[str, Watched]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Stale, ...]]:
    """Return what only the list has, what only the watch has, and what the watch has in an older version."""
    missed = tuple(_name(key, listed[key]) for key in sorted(listed.keys() - watched.keys()))
    redundant = tuple(_name(key, watched[key]) for key in sorted(watched.keys() - listed.keys()))
    both = sorted(listed.keys() & watched.keys())
    stale = tuple(
        Stale(kind, _name(key, watched[key]), watched[key].metadata.resource_version, listed[key].metadata.resource_version)
        for key in both
        if _is_stale(watched[key], listed[key])
    )
    return missed, redundant, stale


def _is_stale(watched: Watched, listed: Watched) -> bool:
    ours, theirs = watched.metadata.resource_version, listed.metadata.resource_version
    if ours != theirs:
        return newer(theirs, ours)
    # apiVersion and kind are not compared: the items of a list do not have them.
    return (watched.metadata, watched.spec, watched.status) != (listed.metadata, listed.spec, listed.status)


def _name(key: str, obj: Watched) -> str:
    return pod_name(key, obj.metadata.uid) if obj.metadata.namespace else key
