"""What the watches say against a list from the API server, page by page.

What is listed is compared as the informer's store would hold it. One comparison proves little: between the list and the watch there is
always something on its way. What the list lacks may be new and what only the list has may be deleted. So what differs is compared again for
some seconds, and it counts if the watch has not reported anything of the object meanwhile, and if the API server, asked for it by name,
still says something else: it may have come or gone since the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import msgspec

from koordsched.api.selectors import parse_field_selector
from koordsched.cluster.object_store import T, newer, object_key
from koordsched.cluster.port import Gone, NotFound, Ref, Unreadable
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.port import Cluster, ListPage
    from koordsched.slices import Slices

log = get_logger(__name__)


class Differing(NamedTuple):
    """An object of which watch and list have different states. Versions; "" where there is no such object."""

    key: str
    uid: str
    watched: str
    actual: str


class ListWalk(Generic[T]):
    """Reads a kind's list page by page, at any pace, and says of each page in what the informer's store differs from it.

    A token that has expired meanwhile is replaced by the one that the API server offers for the rest, or the walk begins anew. A state that
    cannot be decoded is in no page, so it looks as if it did not exist, until `is_still_different` asks for it.
    """

    def __init__(self, cluster: Cluster, informer: Informer[T]) -> None:
        self.informer = informer
        self._cluster = cluster
        self._token = ""
        self._unseen: set[str] | None = None  # keys that the store had when the walk began and that were not listed yet; None: not begun

    async def next_page(self, limit: int, slices: Slices) -> tuple[list[Differing], bool]:
        """Read a page and compare it; return what differs, and whether that was the last page. ClusterError."""
        page = await self._page(limit)
        if self._unseen is None:
            self._unseen = set(self.informer.store)
        found = await self._compared(page, self._unseen, slices)
        self._token = page.continue_token
        if self._token:
            return found, False
        gone, self._unseen = self._unseen, None
        store = self.informer.store
        for key in gone:
            if (obj := store.get(key)) is not None:
                found.append(Differing(key, obj.metadata.uid, obj.metadata.resource_version, ""))
        return found, True

    async def _page(self, limit: int) -> ListPage:
        if not self._token:
            self._unseen = set(self.informer.store)
        kind, selector = self.informer.kind, self.informer.field_selector
        try:
            return await self._cluster.list(kind, field_selector=selector, limit=limit, continue_token=self._token)
        except Gone as error:
            self._token = error.continue_token
            if not self._token:
                self._unseen = set(self.informer.store)
            return await self._cluster.list(kind, field_selector=selector, limit=limit, continue_token=self._token)

    async def _compared(self, page: ListPage, unseen: set[str], slices: Slices) -> list[Differing]:
        found: list[Differing] = []
        store = self.informer.store
        unseen.difference_update(page.unreadable)  # they exist, and stay as the watch knows them
        with slices:
            for listed in page.items:
                key, meta = object_key(listed), listed.metadata
                unseen.discard(key)
                watched = store.get(key)
                version = "" if watched is None else watched.metadata.resource_version
                if watched is None or watched.metadata.uid != meta.uid or self._is_stale(watched, listed):
                    found.append(Differing(key, meta.uid, version, meta.resource_version))
                await slices.pause()
        return found

    def unchanged(self, found: Sequence[Differing]) -> list[Differing]:
        """Return those of which the watch has reported nothing since."""
        return [each for each in found if self._watched(each.key) == each.watched]

    async def is_still_different(self, found: Differing) -> tuple[bool, T | None]:
        """Ask for an object by name; return whether the store differs from it, and how it is (None: it does not exist, or is not selected).

        One that cannot be read is left as the watch knows it. ClusterError.
        """
        informer = self.informer
        namespace, _, name = found.key.rpartition("/")
        try:
            obj: Any = await self._cluster.get(Ref(informer.kind, namespace, name))
        except NotFound:
            obj = None
        except Unreadable as error:
            kind = informer.kind.plural_group
            log.warning("an object cannot be read, and is not compared", kind=kind, object=found.key, err=error.message)
            return False, None
        if obj is not None and informer.field_selector:
            selected = parse_field_selector(informer.field_selector).matches(msgspec.to_builtins(obj))
            obj = obj if selected else None
        watched = informer.store.get(found.key)
        if watched is None or obj is None:
            return watched is not obj, obj
        return watched.metadata.uid != obj.metadata.uid or self._is_stale(watched, obj), obj

    def _is_stale(self, watched: T, listed: Any) -> bool:
        return is_stale(watched, self.informer.transformed(listed))

    def _watched(self, key: str) -> str:
        obj = self.informer.store.get(key)
        return "" if obj is None else obj.metadata.resource_version


def is_stale(watched: Object, listed: Object) -> bool:
    """Answer whether the watch has an older state, or another one of the same version."""
    ours, theirs = watched.metadata.resource_version, listed.metadata.resource_version
    if ours != theirs:
        return newer(theirs, ours)
    # apiVersion and kind are not compared: the items of a list do not have them.
    return any(getattr(watched, field) != getattr(listed, field) for field in type(watched).__struct_fields__ if field not in UNCOMPARED)


UNCOMPARED = frozenset({"api_version", "kind", "raw"})
