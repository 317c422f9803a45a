"""Locks on Nodes: one pod at a time, for vendors whose device plugin cannot distinguish two of them (deviceshare.md §11).

A lock is an annotation of the Node, `<RFC 3339>,<namespace>,<pod>`, which the vendor's device plugin removes when the pod has its devices.
It is written before the pod's annotations. One that is older than five minutes, or whose pod is gone, is replaced; one that names the pod
itself is its own, left by an attempt that failed later (*Here:* the reference takes it for another pod's).

Within this process a mutex lets one pod at a time look at a Node and lock it. The patch names the resourceVersion that was looked at,
because the watch may be late and others write Nodes, too: after a conflict the Node is read again, and looked at again.

A pod that is refused backs off, as after any error, and waits in line besides: the first in the line of a Node is tried again as soon as
the lock is released, its holder is deleted, or it has become too old. So a lock that is held for seconds costs seconds, however often a pod
has been refused, and the pods behind the first one are not tried in vain.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from koordsched.api.kinds import NODE, POD
from koordsched.backoff import Backoff
from koordsched.clock import parse_rfc3339, rfc3339
from koordsched.cluster.object_store import LatestStateHandler
from koordsched.cluster.port import ClusterError, Conflict, OutcomeUnknown, Patch, PatchType, Ref, ServerError, TooManyRequests
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle

TIMEOUT_SECONDS = 300.0
"""A lock older than this was left behind: a device plugin removes its pod's within seconds."""

TRIES = 5  # patches in all
FIRST_DELAY, LONGEST_DELAY = 0.01, 0.25  # seconds before the second try, and at most before a later one
FACTOR, JITTER = 5.0, 0.2  # by what the delay grows from try to try, and the part of it that is added at most, by chance
MAY_PASS = (Conflict, TooManyRequests, OutcomeUnknown, ServerError)  # errors after which the patch is tried again
PARTS = 3  # of a lock: time, namespace, pod
LOOK_LATER_SECONDS = 1.0  # after a lock has become too old: times of locks are whole seconds


class LockRefused(Exception):
    """The pod cannot have the lock; the text says why."""


class NodeLocked(LockRefused):
    """There is another lock."""


class _Lock(NamedTuple):
    """A lock as it is written: seconds since the epoch, and namespace/name of its pod."""

    since: float
    holder: str


class _InLine(NamedTuple):
    """A pod that waits until a Node's annotation is no other pod's lock."""

    pod: PodInfo
    key: str


class NodeLocks:
    """Takes locks for pods. One for all profiles (`Cache.shared`)."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._cluster = handle.cluster
        self._clock = handle.clock
        self._random = handle.random
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._pods: Mapping[str, Pod] = handle.informer(POD).store
        self._mutexes: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # each lives as long as a pod has it or waits for it
        self._lines: dict[str, dict[str, _InLine]] = {}  # by Node, then by uid, the first in line first
        self._timed: set[str] = set()  # Nodes that will be looked at when their lock is too old
        handle.informer(NODE).add_handler(LatestStateHandler(self._node_changed, self._node_changed))
        handle.informer(POD).add_handler(LatestStateHandler(_ignore, self._pod_left))

    async def lock(self, node_name: str, key: str, pod: PodInfo) -> None:
        """Lock the Node for the pod. key: of the Node's annotation.

        LockRefused: it cannot be written. NodeLocked: there is another lock; the pod is activated when that has gone.
        """
        mutex = self._mutexes.setdefault(node_name, asyncio.Lock())
        async with mutex:
            node = self._nodes.get(node_name)
            if node is None:
                raise LockRefused(f'node "{node_name}" not found')
            try:
                await self._write(node, key, pod.pod)
            except NodeLocked:
                self._lines.setdefault(node_name, {})[pod.uid] = _InLine(pod, key)
                self._look_when_too_old(node_name)
                raise
            except ClusterError as refusal:
                raise LockRefused(f'failed to patch node "{node_name}": {refusal.message}') from None
            self._leave_line(node_name, pod.uid)

    async def _write(self, node: Node, key: str, pod: Pod) -> None:
        """Write the lock, looking at the Node again after each answer that may pass; the last such answer is raised."""
        ref = Ref(NODE, "", node.metadata.name)
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY, factor=FACTOR, jitter=JITTER)
        for left in reversed(range(TRIES)):
            if (held := self._refusal(node, key, pod)) is not None:
                raise NodeLocked(held)
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
        lock = _read(text)
        if lock is None:
            return f"invalid node lock value {shown(text)}"
        if lock.holder == f"{pod.metadata.namespace}/{pod.metadata.name}":
            return None
        if self._clock.now() - lock.since > TIMEOUT_SECONDS or lock.holder not in self._pods:
            return None
        return f'node "{node.metadata.name}" has been locked'

    # The line

    def _leave_line(self, node_name: str, uid: str) -> None:
        line = self._lines.get(node_name)
        if line is not None:
            line.pop(uid, None)
            if not line:
                del self._lines[node_name]

    def _node_changed(self, node: Node) -> None:
        if node.metadata.name in self._lines:
            self._call_first(node.metadata.name)

    def _pod_left(self, pod: Pod) -> None:
        if not self._lines:
            return
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        for node_name, line in list(self._lines.items()):
            locks = [self._lock_on(node_name, key) for key in {waiting.key for waiting in line.values()}]
            if pod.metadata.uid in line or any(lock is not None and lock.holder == name for lock in locks):
                self._call_first(node_name)

    def _call_first(self, node_name: str) -> None:
        """Activate the first pod in line if it could have the lock now; all, if the Node is gone."""
        node = self._nodes.get(node_name)
        for uid, (pod, key) in list(self._lines.get(node_name, {}).items()):
            stored = self._pods.get(pod.key)
            if stored is None or stored.metadata.uid != uid or stored.spec.node_name:
                self._leave_line(node_name, uid)
            elif node is None:
                self._leave_line(node_name, uid)
                self._handle.activate([pod])
            else:
                if self._refusal(node, key, stored) is None:
                    self._leave_line(node_name, uid)
                    self._handle.activate([pod])
                else:
                    self._look_when_too_old(node_name)
                return

    def _look_when_too_old(self, node_name: str) -> None:
        """Call the first in line once the lock has become too old. A lock that cannot be read never does."""
        if node_name in self._timed:
            return
        locks = [self._lock_on(node_name, waiting.key) for waiting in self._lines.get(node_name, {}).values()]
        since = min([lock.since for lock in locks if lock is not None], default=None)
        if since is None:
            return
        self._timed.add(node_name)

        def look() -> None:
            self._timed.discard(node_name)
            self._call_first(node_name)

        self._handle.call_later(max(since + TIMEOUT_SECONDS - self._clock.now(), 0.0) + LOOK_LATER_SECONDS, look)

    def _lock_on(self, node_name: str, key: str) -> _Lock | None:
        node = self._nodes.get(node_name)
        return None if node is None else _read(node.metadata.annotations.get(key, ""))


def _read(text: str) -> _Lock | None:
    """Return what a lock says, None for what is none."""
    parts = text.split(",")
    try:
        since = parse_rfc3339(parts[0])
    except ValueError:
        return None
    return _Lock(since, f"{parts[1]}/{parts[2]}") if len(parts) == PARTS else None


def _ignore(_pod: Pod) -> None:
    """Pods that come or change release no lock."""


def node_locks(handle: Handle) -> NodeLocks:
    """Return the locks that all plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(NodeLocks, lambda: NodeLocks(handle))
