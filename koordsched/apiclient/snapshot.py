"""What a live cluster has now: every object of the kinds that are asked for, as documents that manifests of a file would be.

Only GET requests are sent, and nothing has to be installed in the cluster. Lists are read page by page; they are of slightly different
moments, as those of `kubectl get` are. A page whose list is compacted meanwhile (410) begins that list anew, in one answer. What the
cluster does not serve, or what may not be read, counts as none and is said in `notes`, except nodes and pods: nothing can be decided
without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

import msgspec

from koordsched.api.kinds import NODE, POD, Kind
from koordsched.apiclient.client import Client, UnusableKubeconfig
from koordsched.apiclient.sending import Json, JsonRequests, send
from koordsched.cluster.port import ClusterError, Forbidden, Gone, NotFound
from koordsched.manifests.documents import InputDocument, InputError

PAGE_SIZE = 500
"""kubectl's: larger ones cost the API server less, but one of pods with 10 kB each is 5 MB already."""
LISTS_AT_ONCE = 4
USER_AGENT = "koord-scheduler-reader"
REQUIRED = (NODE, POD)
ROLE = "config/reader.yaml"

Report = Callable[[int], None]
"""Gets the number of objects that have been read."""


class AskedKind(msgspec.Struct, frozen=True):
    """A kind that is read, and which of its objects ("" all)."""

    kind: Kind
    field_selector: str = ""


class ClusterAccess(msgspec.Struct, frozen=True):
    """Where a cluster is. context: None for the kubeconfig's current one."""

    kubeconfig: str
    context: str | None = None
    namespaces: tuple[str, ...] = ()  # read one by one where a kind may not be read in all namespaces


class Snapshot(msgspec.Struct):
    """What was read. namespace: that of the kubeconfig's context, "" for none."""

    documents: list[InputDocument] = []
    notes: list[str] = []
    namespace: str = ""


def read_cluster(source: ClusterAccess, asked: Sequence[AskedKind], report: Report | None = None) -> Snapshot:
    """Read the cluster. InputError: it cannot be reached, or its nodes and pods may not be read."""
    return asyncio.run(_read(source, asked, report))


async def _read(source: ClusterAccess, asked: Sequence[AskedKind], report: Report | None) -> Snapshot:
    try:
        client = await Client.of_file(source.kubeconfig, USER_AGENT, source.context)
    except UnusableKubeconfig as mistake:
        raise InputError(str(mistake)) from None
    async with client:
        namespaces = source.namespaces or ((client.namespace,) if client.namespace else ())
        reader = Reader(client, namespaces, report)
        try:
            snapshot = await reader.read(asked)
        except ClusterError as error:
            raise InputError(f"{source.kubeconfig}: {error.message}") from None
        snapshot.namespace = client.namespace
        return snapshot


class Reader:
    """Reads kinds of one cluster."""

    def __init__(self, requests: JsonRequests, namespaces: Sequence[str] = (), report: Report | None = None) -> None:
        self._requests = requests
        self._namespaces = namespaces
        self._report = report
        self._turns = asyncio.Semaphore(LISTS_AT_ONCE)
        self._read = 0
        self._absent: list[Kind] = []
        self._forbidden: list[Kind] = []
        self._partly: list[Kind] = []

    async def read(self, asked: Sequence[AskedKind]) -> Snapshot:
        """Read what nothing can be said without, one after the other, then the other kinds, several at once. ClusterError."""
        lists = [await self._of_kind(each) for each in asked if each.kind in REQUIRED]
        lists += await asyncio.gather(*(self._of_kind(each) for each in asked if each.kind not in REQUIRED))
        documents = [document for of_kind in lists for document in of_kind]
        return Snapshot(documents, list(self._notes()))

    async def _of_kind(self, asked: AskedKind) -> list[InputDocument]:
        kind = asked.kind
        try:
            return [await self._list(asked)]
        except NotFound:
            if kind in REQUIRED:
                raise
            self._absent.append(kind)
        except Forbidden as refused:
            if kind.namespaced and self._namespaces and not asked.field_selector.startswith("metadata."):
                return await self._of_namespaces(asked, refused)
            if await self._is_absent(kind):
                self._absent.append(kind)
            else:
                self._refuse(kind, refused)
        return []

    async def _is_absent(self, kind: Kind) -> bool:
        """Ask discovery, as what is not served is forbidden, too, to whom no role allows it."""
        try:
            served = await send(self._requests, "GET", _root(kind))
        except ClusterError as error:
            return isinstance(error, NotFound)
        return all(resource.get("name") != kind.plural for resource in served.get("resources") or [])

    async def _of_namespaces(self, asked: AskedKind, refused: Forbidden) -> list[InputDocument]:
        """Read the namespaces that are named, as all of them may not be read."""
        found: list[InputDocument] = []
        for namespace in self._namespaces:
            try:
                found.append(await self._list(asked, namespace))
            except Forbidden:
                self._refuse(asked.kind, refused)
                return []
        self._partly.append(asked.kind)
        return found

    def _refuse(self, kind: Kind, refused: Forbidden) -> None:
        if kind in REQUIRED:
            raise Forbidden(f"{refused.message}; {ROLE} is a role that may read all that is needed") from None
        self._forbidden.append(kind)

    async def _list(self, asked: AskedKind, namespace: str = "") -> InputDocument:
        path = _path(asked.kind, namespace)
        async with self._turns:
            try:
                items = await self._pages(path, asked.field_selector, PAGE_SIZE)
            except Gone:
                items = await self._pages(path, asked.field_selector, 0)
        body = {"apiVersion": asked.kind.api_version, "kind": f"{asked.kind.kind}List", "items": items}
        return InputDocument(f"{self._requests.server}{path}", 0, body)

    async def _pages(self, path: str, field_selector: str, limit: int) -> list[Json]:
        items: list[Json] = []
        query = {"limit": str(limit)} if limit else {}
        if field_selector:
            query["fieldSelector"] = field_selector
        while True:
            page = await send(self._requests, "GET", f"{path}?{urlencode(query)}" if query else path)
            found = page.get("items") or []
            items += found
            self._read += len(found)
            if self._report is not None:
                self._report(self._read)
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            query["continue"] = token

    def _notes(self) -> list[str]:
        """Say what is missing of the cluster."""
        groups = (
            ("the cluster does not serve these kinds, taken as none", self._absent),
            ("these kinds may not be read, taken as none: what depends on them may be answered wrongly", self._forbidden),
            (f"these kinds may be read in namespace {', '.join(self._namespaces)} only, taken as none elsewhere", self._partly),
        )
        return [f"note: {what}: {', '.join(sorted(kind.plural_group for kind in kinds))}" for what, kinds in groups if kinds]


def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


def _path(kind: Kind, namespace: str) -> str:
    return f"{_root(kind)}/namespaces/{namespace}/{kind.plural}" if namespace else f"{_root(kind)}/{kind.plural}"
