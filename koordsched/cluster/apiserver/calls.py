"""What each verb of the port is on the wire: where objects are (URL paths), method, query, body, and how it is treated on the way.

No waiting and no I/O: a verb becomes a `Call`, `transport` sends it. Events and status patches are of LOW priority; watches, binds and
leases have connections of their own. Only the leading scheduler may bind, change or delete; reading, reporting it by events and asking
the API server who a client is (creations, all of them) do not wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from koordsched.api.kinds import EVENT, LEASE, POD, Kind
from koordsched.cluster.apiserver.limiter import Priority
from koordsched.cluster.port import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.kinds import Kind
    from koordsched.cluster.apiserver.settings import ConnectionSettings
    from koordsched.cluster.port import Binding, Patch, Ref


JSON = "application/json"
KNOWN_COLLECTIONS = 1024
"""Paths of a kind in a namespace that are remembered."""


class Pool(Enum):
    """Requests that share connections: a storm of one sort must not starve another."""

    WATCH = "watch"
    BIND = "bind"
    LEASE = "lease"
    OTHER = "other"


class Label(NamedTuple):
    """What a request is counted under: its verb (those of the port, and "patch status") and the kind's plural."""

    verb: str
    plural: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `seconds` limits its whole time, `silence` the time between two pieces of the answer; None: no limit."""

    label: Label
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = ""  # of the body
    pool: Pool = Pool.OTHER
    priority: Priority = Priority.HIGH
    seconds: float | None = None
    silence: float | None = None
    needs_answer: bool = True  # False: the status says it all
    decides: bool = False  # it changes what only the leading scheduler may change


_PLAIN = re.compile(r"[a-z0-9.-]*")  # what nearly all names are made of: quoting them is 20 times dearer than looking


@cache
def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


@cache
def all_path(kind: Kind) -> str:
    """Return the path of the kind's objects in all namespaces."""
    return f"{_root(kind)}/{kind.plural}"


@lru_cache(maxsize=KNOWN_COLLECTIONS)
def collection_path(kind: Kind, namespace: str) -> str:
    """Return the path under which an object of the namespace is created."""
    if not kind.namespaced:
        return all_path(kind)
    return f"{_root(kind)}/namespaces/{_quoted(namespace)}/{kind.plural}"


def object_path(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object or of its subresource."""
    path = f"{collection_path(kind, namespace)}/{_quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


STREAM_SILENCE_SECONDS = 30.0
"""A streaming list that is silent for so long is given up, for a list in pages."""
SILENCE_MARGIN_SECONDS = 10.0
"""The informer is to give a silent watch up first, because it says so."""

_BIND = Label("bind", POD.plural)
_encoder = msgspec.json.Encoder()


def _encode(body: Any) -> bytes:
    """Write a body. Invalid: it holds half of a surrogate pair, which stands for a byte of a header or path that was no UTF-8."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError as error:
        raise Invalid(f"the request holds a text that is no UTF-8: {error}") from None


class Calls:
    """Makes requests with the time limits of the settings."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings

    def list_page(self, kind: Kind, *, field_selector: str, limit: int, continue_token: str) -> Call:
        """Ask for a page of the newest state: without a resourceVersion a list is consistent."""
        return Call(
            label=Label("list", kind.plural),
            method="GET",
            path=all_path(kind),
            query=_given(("fieldSelector", field_selector), ("limit", str(limit or "")), ("continue", continue_token)),
            seconds=self._settings.list_timeout,
        )

    def streaming_list(self, kind: Kind, *, field_selector: str) -> Call:
        """Ask for everything of the newest state as the beginning of a watch."""
        seconds = self._settings.list_timeout
        return Call(
            label=Label("list", kind.plural),
            method="GET",
            path=all_path(kind),
            query={
                "watch": "true",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(round(seconds)),
                **_given(("fieldSelector", field_selector)),
            },
            seconds=seconds,
            silence=STREAM_SILENCE_SECONDS,
        )

    def watch(self, kind: Kind, seconds: float, *, resource_version: str, field_selector: str) -> Call:
        return Call(
            label=Label("watch", kind.plural),
            method="GET",
            path=all_path(kind),
            query={
                "watch": "true",
                "resourceVersion": resource_version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(round(seconds)),
                **_given(("fieldSelector", field_selector)),
            },
            pool=Pool.WATCH,
            silence=self._settings.max_silence + SILENCE_MARGIN_SECONDS,
        )

    def get(self, ref: Ref) -> Call:
        return Call(
            label=Label("get", ref.kind.plural),
            method="GET",
            path=object_path(ref.kind, ref.namespace, ref.name),
            pool=_pool(ref.kind),
            seconds=self._settings.request_timeout,
        )

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Call:
        """Create in the body's namespace; apiVersion and kind need not be in it. Invalid: it names no namespace."""
        namespace = (body.get("metadata") or {}).get("namespace") or ""
        if kind.namespaced and not namespace:
            raise Invalid(f"{kind.plural_group}: metadata.namespace: Required value: must be given")
        return Call(
            label=Label("create", kind.plural),
            method="POST",
            path=collection_path(kind, namespace),
            body=_encode({"apiVersion": kind.api_version, "kind": kind.kind, **body}),
            content_type=JSON,
            pool=_pool(kind),
            priority=Priority.LOW if kind is EVENT else Priority.HIGH,
            seconds=self._settings.request_timeout,
        )

    def patch(self, ref: Ref, patch: Patch) -> Call:
        return Call(
            label=Label(f"patch {patch.subresource}".rstrip(), ref.kind.plural),
            method="PATCH",
            path=object_path(ref.kind, ref.namespace, ref.name, patch.subresource),
            body=_encode(patch.body),
            content_type=patch.type.value,
            pool=_pool(ref.kind),
            priority=Priority.LOW if patch.subresource or ref.kind is EVENT else Priority.HIGH,
            seconds=self._settings.request_timeout,
            decides=ref.kind is not EVENT,
        )

    def update(self, ref: Ref, body: Mapping[str, Any]) -> Call:
        """Replace the object, all but its status; what the ref says need not be in the body."""
        named = {"name": ref.name, "namespace": ref.namespace} if ref.kind.namespaced else {"name": ref.name}
        metadata = {**named, **(body.get("metadata") or {})}
        return Call(
            label=Label("update", ref.kind.plural),
            method="PUT",
            path=object_path(ref.kind, ref.namespace, ref.name),
            body=_encode({"apiVersion": ref.kind.api_version, "kind": ref.kind.kind, **body, "metadata": metadata}),
            content_type=JSON,
            pool=_pool(ref.kind),
            seconds=self._settings.request_timeout,
            decides=True,
        )

    def delete(self, ref: Ref, *, uid: str, grace_period_seconds: int | None) -> Call:
        return Call(
            label=Label("delete", ref.kind.plural),
            method="DELETE",
            path=object_path(ref.kind, ref.namespace, ref.name),
            body=_encode(_delete_options(uid, grace_period_seconds)),
            content_type=JSON,
            seconds=self._settings.request_timeout,
            needs_answer=False,
            decides=True,
        )

    def evict(self, ref: Ref, *, uid: str, grace_period_seconds: int | None) -> Call:
        """Evict by name and, if one is given, uid; the answer is a Status that is not read."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "deleteOptions": _delete_options(uid, grace_period_seconds),
        }
        return Call(
            label=Label("evict", ref.kind.plural),
            method="POST",
            path=object_path(ref.kind, ref.namespace, ref.name, "eviction"),
            body=_encode(body),
            content_type=JSON,
            seconds=self._settings.request_timeout,
            needs_answer=False,
            decides=True,
        )

    def bind(self, binding: Binding) -> Call:
        """Bind by name and uid; the answer is a Status that is not read."""
        metadata: dict[str, Any] = {"name": binding.name, "namespace": binding.namespace, "uid": binding.uid}
        if binding.annotations:
            metadata["annotations"] = binding.annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        return Call(
            label=_BIND,
            method="POST",
            path=object_path(POD, binding.namespace, binding.name, "binding"),
            body=_encode(body),
            content_type=JSON,
            pool=Pool.BIND,
            seconds=self._settings.request_timeout,
            needs_answer=False,
            decides=True,
        )


def _delete_options(uid: str, grace_period_seconds: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    return options


def _given(*query: tuple[str, str]) -> dict[str, str]:
    return {name: value for name, value in query if value}


def _pool(kind: Kind) -> Pool:
    return Pool.LEASE if kind is LEASE else Pool.OTHER
