"""Kinds that few pods ask for: after a start, the pods that do not are decided about before the lists of these kinds are there.

What 5,000 Devices say changes nothing for a pod without devices, but the API server needs seconds to send them. So plugins name such kinds
(`Plugin.late_kinds`), and which pods need them. They are listed last, once all other kinds are known; or at once when a pod shows that
needs them, be it one that is bound. Such a pod is not queued before they are known. If one of those is pending that are there at the
start, nothing is decided before: the others would take the room that it is to have by the order of the queue.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.informer import Informer
    from koordsched.framework.interface import Plugin


class LateLists:
    """The informers of late kinds, and the pods that wait for their first lists. Without `begin` no kind is late."""

    def __init__(self) -> None:
        self.informers: list[Informer[Any]] = []
        self._plugins: list[Plugin] = []
        self._wanted = asyncio.Event()  # the lists are to be read now
        self._held: dict[str, PodInfo] = {}  # by key

    def begin(self, informers: Iterable[Informer[Any]], plugins: Iterable[Plugin]) -> None:
        """Let the kinds be late that plugins name as such. To be called before an informer runs."""
        self._plugins = [plugin for plugin in plugins if plugin.late_kinds]
        kinds = {kind for plugin in self._plugins for kind in plugin.late_kinds}
        self.informers = [informer for informer in informers if informer.kind in kinds]

    async def run(self, informer: Informer[Any]) -> None:
        """Run one of the informers, from when its list is wanted."""
        await self._wanted.wait()
        await informer.run()

    def want(self) -> None:
        """Have the lists read now."""
        self._wanted.set()

    async def known(self) -> None:
        """Wait until all lists are known. From then on no pod is held, but for those that `released` has not come to yet."""
        for informer in self.informers:
            await informer.synced.wait()
        self.informers = []

    # Pods

    def note(self, pod: PodInfo) -> bool:
        """Take note of a pod that came; answer whether it needs what is not known yet."""
        if not self.informers or not any(plugin.needs_late_kinds(pod) for plugin in self._plugins):
            return False
        self._wanted.set()
        return True

    def hold(self, pod: PodInfo) -> bool:
        """Keep a pending pod out of the queue if it needs what is not known yet; answer whether it is kept out."""
        if not self.note(pod):
            return False
        self._held[pod.key] = pod
        return True

    def forget(self, key: str) -> None:
        """Drop a pod that was deleted."""
        self._held.pop(key, None)

    def is_held(self, key: str) -> bool:
        """Answer whether the pod of a key is kept out of the queue."""
        return key in self._held

    @property
    def holds_any(self) -> bool:
        """Whether some pod waits."""
        return bool(self._held)

    def released(self) -> Iterator[PodInfo]:
        """Yield the pods that were held, each of which is to be queued before the next one is asked for."""
        while self._held:
            yield self._held.pop(next(iter(self._held)))
