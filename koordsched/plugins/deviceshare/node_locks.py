"""Locks on Nodes: one pod at a time, for vendors whose device plugin cannot distinguish two of them (deviceshare.md §11).

A lock is an annotation of the Node, `<RFC 3339>,<namespace>,<pod>`, which the vendor's device plugin removes when the pod has its devices.
It is written before the pod's annotations. One that is older than five minutes, or whose pod is gone, is replaced; one that names the pod
itself is its own, left by an attempt that failed later (*Here:* the reference takes it for another pod's).

Within this process a mutex lets one pod at a time look at a Node and lock it. The patch names the resourceVersion that was looked at,
because the watch may be late and others write Nodes, too: after a conflict the Node is read again, and looked at again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from koordsched.api.kinds import NODE, POD
from koordsched.backoff import Backoff
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.port import ClusterError, Conflict, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.framework.handle import Handle

TIMEOUT_SECONDS = 300.0
"""A lock older than this was left behind: a device plugin removes its pod's within seconds."""

TRIES = 5  # patches in all
FIRST_DELAY, LONGEST_DELAY = 0.01, 0.25  # seconds before the second try, and at most before a later one
FACTOR, JITTER = 5.0, 0.2  # by what the delay grows from try to try, and the part of it that is added at most, by chance
MAY_PASS = (Conflict, TooManyRequests, OutcomeUnknown, ServerError)  # errors after which the patch is tried again
PARTS = 3  # of a lock: time, namespace, pod


class LockRefused(Exception):
    """The pod cannot have the lock; the text says why."""


class NodeLocks:
    """Takes locks for pods. One for all profiles (`Cache.shared`)."""

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._clock = handle.clock
        self._random = handle.random
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._pods: Mapping[str, Pod] = handle.informer(POD).store
        self._mutexes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # each lives as long as a pod has it or waits for it

    async def lock(self, node_name: str, key: str, pod: Pod) -> None:
        """Lock the Node for the pod. key: of the Node's annotation. LockRefused: another pod holds the lock, or it cannot be written."""
        mutex = self._mutexes.setdefault(node_name, asyncio.Lock())
        async with mutex:
            node = self._nodes.get(node_name)
            if node is None:
                raise LockRefused(f'node "{node_name}" not found')
            try:
                await self._write(node, key, pod)
            except ClusterError as refusal:
                raise LockRefused(f'failed to patch node "{node_name}": {refusal.message}') from None

    async def _write(self, node: Node, key: str, pod: Pod) -> None:
        """Write the lock, looking at the Node again after each answer that may pass; the last such answer is raised."""
        ref = Ref(NODE, "", node.metadata.name)
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY, factor=FACTOR, jitter=JITTER)
        for left in reversed(range(TRIES)):
            if (held := self._refusal(node, key, pod)) is not None:
                raise LockRefused(held)
            lock = f"{rfc3339(self._clock.now())},{pod.metadata.namespace},{pod.metadata.name}"
            meta = node.metadata
            body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": {key: lock}}}
            try:
                await self._cluster.patch(ref, Patch(body, PatchType.STRATEGIC))
            except MAY_PASS as refusal:
                if not left:
                    raise
                wait = max(backoff.delay(), getattr(refusal, "retry_after", 0.0))
            else:
                return
            await asyncio.sleep(wait)
            found = await self._cluster.get(ref)
            if TYPE_CHECKING:
                assert isinstance(found, Node)
            node = found

    def _refusal(self, node: Node, key: str, pod: Pod) -> str | None:
        """Return why the pod cannot have the lock; None: no other pod has it."""
        text = node.metadata.annotations.get(key)
        if text is None:
            return None
        parts = text.split(",")
        try:
            since = parse_rfc3339(parts[0])
        except ValueError:
            since = None
        if since is None or len(parts) != PARTS:
            return f"invalid node lock value {shown(text)}"
        _, namespace, name = parts
        if (namespace, name) == (pod.metadata.namespace, pod.metadata.name):
            return None
        if self._clock.now() - since > TIMEOUT_SECONDS or f"{namespace}/{name}" not in self._pods:
            return None
        return f'node "{node.metadata.name}" has been locked'


def node_locks(handle: Handle) -> NodeLocks:
    """Return the locks that all plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(NodeLocks, lambda: NodeLocks(handle))
