"""The embedded cluster: the verbs of the port on objects in memory.

It answers as kube-apiserver v1.35 would, as far as a scheduler can see: one resource version over all kinds, optimistic concurrency,
finalizers, graceful deletion, priority and request defaulting, paging, watches with bookmarks, field selectors and compaction. Custom
resources follow their definitions: defaults, enums and types, unknown fields, status. It is more lenient in three ways: every kind
is served, kinds without a definition here keep the `status` that an object is created with, and immutable fields may be patched. It is
stricter in one: what the scheduler could not read, such as a Reservation's template that is no pod's, is refused. No verb waits unless a
fault delays it, and time is only that of the `Clock` that is handed in.
"""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import POD, Kind
from koordsched.api.selectors import FieldSelector, parse_field_selector
from koordsched.cluster.memory import answers
from koordsched.cluster.memory.faults import Fault, Faults, Verb
from koordsched.cluster.memory.paging import Pages
from koordsched.cluster.memory.registry import Registry
from koordsched.cluster.memory.store import Raw
from koordsched.cluster.memory.volumes import WATCHED, VolumeController
from koordsched.cluster.memory.watch import WatchRequest, watch_changes
from koordsched.cluster.port import Binding, ClusterError, Invalid, ListPage, Patch, Ref, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from random import Random

    from koordsched.api.meta import Object
    from koordsched.clock import Clock


class MemoryClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the embedded API server behaves. Times are seconds of the loop's clock."""

    history: int = 65_536  # changes that a kind's watch can go back
    bookmark_interval: float = 60.0
    watch_seconds: tuple[float, float] = (300.0, 600.0)  # a watch ends after a random time in this range
    volume_controller: bool = False  # whether claims are bound, and volumes made, as by kube-controller-manager


class MemoryCluster:
    """A `Cluster` in memory.

    `calls` counts the requests so far, failed ones included. All kinds are served but those of which `undefine` was called. `faults` may
    be changed at any time. The random source is the cluster's own: uids, watch lifetimes and faults are drawn from it.
    """

    def __init__(self, clock: Clock, *, random: Random, faults: Faults | None = None, options: MemoryClusterOptions | None = None) -> None:
        self.faults = faults or Faults()
        self._clock = clock
        self._random = random
        self._options = options or MemoryClusterOptions()
        self._registry = Registry(clock, random, self._options.history)
        self._controllers = dict.fromkeys(WATCHED, VolumeController(self._registry)) if self._options.volume_controller else {}
        self._pages = Pages()
        self._selectors: dict[str, FieldSelector | None] = {"": None}  # by text, one object each: `Stored.selected` asks for that
        self._compacted_at = clock.now()
        self._undefined: set[Kind] = set()

    @property
    def calls(self) -> Counter[tuple[str, Kind]]:
        """Return how many requests there were of each verb and kind."""
        return Counter({(verb, store.kind): count for store in self._registry.kinds() for verb, count in store.requests.items()})

    @property
    def max_silence(self) -> float:
        """Return the time of three bookmarks."""
        return 3.0 * self._options.bookmark_interval

    @property
    def resource_version(self) -> str:
        """Return the version of the last write to any kind."""
        return str(self._registry.version)

    def raw(self, ref: Ref) -> Raw:
        """Return the object as it is stored, which must not be changed. NotFound. Not counted as a request, and no fault is injected."""
        return self._registry.find(ref).raw

    def raws(self, kind: Kind) -> Sequence[Raw]:
        """Return all objects of the kind as the JSON that is stored, in the order of their creation. As `raw` does."""
        return [stored.raw for stored in self._registry.kind(kind).objects.values()]

    def copy(self, random: Random) -> MemoryCluster:
        """Return another cluster with the same objects, uids and versions included, and no history. What is written to one the other never
        sees; what is stored is shared. random: the copy's own source."""
        made = MemoryCluster(self._clock, random=random, options=self._options)
        made._registry.take_over(self._registry)
        for kind, controller in made._controllers.items():
            for stored in list(made._registry.kind(kind).objects.values()):
                controller.wrote(stored.object())
        return made

    async def list(self, kind: Kind, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> ListPage:
        """Return the objects in the order of their keys, as etcd keeps them."""
        fault = self._arrive("list", kind)
        if fault is not None:
            await fault.before()
        now = self._clock.now()
        if continue_token:
            page = self._pages.next(continue_token, now)
        else:
            objects = self._registry.kind(kind).objects
            items = [objects[key] for key in sorted(objects)]
            selector = self._selector(field_selector)
            if selector is not None:
                items = [stored for stored in items if stored.selected(selector)]
            page = self._pages.first(items, self._registry.version, limit, now)
        if fault is not None:
            fault.after()
        return page

    async def watch(self, kind: Kind, *, resource_version: str, field_selector: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Watch until the server's time limit or a cut; see `watch_changes`."""
        fault = self._arrive("watch", kind)
        if fault is not None:
            await fault.before()
        if fault is not None:
            fault.after()
        every = self.faults.compact_every
        if every and self._clock.now() - self._compacted_at >= every:
            self.compact()
        request = WatchRequest(
            version=_version(resource_version, self._registry.version),
            selector=self._selector(field_selector),
            lifetime=self._watch_lifetime(),
            bookmark_interval=self._options.bookmark_interval,
        )
        changes = watch_changes(self._registry.kind(kind), request, lambda: self._registry.version)
        async with aclosing(changes):
            async for batch in changes:
                yield batch

    async def get(self, ref: Ref) -> Object:
        fault = self._arrive("get", ref.kind)
        if fault is not None:
            await fault.before()
        stored = self._registry.find(ref)
        if fault is not None:
            fault.after()
        return stored.object()

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        """Create the object with a uid, a version and what admission fills in. The namespace is created on demand."""
        fault = self._arrive("create", kind)
        if fault is not None:
            await fault.before()
        stored = self._registry.create(kind, body)
        if kind in self._controllers:
            self._controllers[kind].wrote(stored.object())
        if fault is not None:
            fault.after()
        return stored.object()

    async def patch(self, ref: Ref, patch: Patch) -> Object:
        """Patch the object or its status. A patch that changes nothing makes no new version.

        Conflict: metadata.resourceVersion or metadata.uid of the body is another. Invalid: the result is, or the patch cannot be read.
        """
        fault = self._arrive("patch status" if patch.subresource == "status" else "patch", ref.kind)
        if fault is not None:
            await fault.before()
        stored = self._registry.patch(ref, patch)
        if ref.kind in self._controllers:
            self._controllers[ref.kind].wrote(stored.object())
        if fault is not None:
            fault.after()
        return stored.object()

    async def update(self, ref: Ref, body: Mapping[str, Any]) -> Object:
        """Replace the object by the body. Without metadata.resourceVersion any version is replaced, even of a Lease.

        Only for a custom resource must the body name the version that it replaces.
        """
        fault = self._arrive("update", ref.kind)
        if fault is not None:
            await fault.before()
        stored = self._registry.update(ref, body)
        if ref.kind in self._controllers:
            self._controllers[ref.kind].wrote(stored.object())
        if fault is not None:
            fault.after()
        return stored.object()

    async def delete(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Delete the object, or mark it terminating while finalizers or a bound pod's grace period hold it."""
        fault = self._arrive("delete", ref.kind)
        if fault is not None:
            await fault.before()
        self._registry.delete(ref, uid, grace_period_seconds)
        if ref.kind in self._controllers:
            self._controllers[ref.kind].deleted(ref)
        if fault is not None:
            fault.after()

    async def evict(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Evict the pod. Budgets allow what their status states: there is no disruption controller here that would update it."""
        fault = self._arrive("evict", ref.kind)
        if fault is not None:
            await fault.before()
        self._registry.evict(ref, uid, grace_period_seconds)
        if fault is not None:
            fault.after()

    async def bind(self, binding: Binding) -> None:
        fault = self._arrive("bind", POD)
        if fault is not None:
            await fault.before()
        self._registry.bind(binding)
        if fault is not None:
            fault.after()

    def compact(self) -> None:
        """Forget all history: a watch that is behind, and every continue token, gets 410."""
        self._compacted_at = self._clock.now()
        self._pages.forget()
        for store in self._registry.kinds():
            store.compact(self._registry.version)

    def undefine(self, kind: Kind) -> None:
        """Stop serving the kind, as when its definition is deleted: its objects are removed, its watches end, and requests get 404."""
        store = self._registry.kind(kind)
        self._registry.remove_all(kind)
        self._undefined.add(kind)
        store.cut(None)

    def define(self, kind: Kind) -> None:
        """Serve the kind again, empty at first."""
        self._undefined.discard(kind)

    def cut_watches(self, error: Callable[[], ClusterError] | None = None) -> None:
        """End all watches that run now, with an error or as if their time were over."""
        for store in self._registry.kinds():
            store.cut(error)

    def _arrive(self, verb: Verb, kind: Kind) -> Fault | None:
        """Count the request and return the fault that is injected into it, if any. NotFound: the kind is not served."""
        self._registry.kind(kind).requests[verb] += 1
        if self._undefined and kind in self._undefined:
            raise answers.not_served()
        return self.faults.for_request(verb, kind, self._random) if self.faults.rules else None

    def _watch_lifetime(self) -> float:
        """Draw how long a new watch may last, in seconds."""
        lifetime = self._random.uniform(*self._options.watch_seconds)
        return min(lifetime, self.faults.cut_watches_every) if self.faults.cut_watches_every else lifetime

    def _selector(self, text: str) -> FieldSelector | None:
        """Parse a field selector. Invalid: the API server would refuse it."""
        if text not in self._selectors:
            try:
                self._selectors[text] = parse_field_selector(text)
            except ValueError as error:
                raise Invalid(f'unable to parse "{text}" as a field selector: {error}') from error
        return self._selectors[text]


def _version(text: str, current: int) -> int:
    """Parse the version to watch from. Invalid: it is no version, or a later one than the last."""
    if not text.isdecimal():
        raise Invalid(f'resourceVersion: Invalid value: "{text}": must be the version of a list or of an event')
    if int(text) > current:
        raise Invalid(f"Too large resource version: {text}, current: {current}")
    return int(text)
