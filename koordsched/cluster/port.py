"""The port to a cluster: everything the scheduler ever asks of an API server.

Two adapters implement `Cluster`: `memory/` (embedded, virtual time) and `apiserver/`. The scheduler, the informers and the tests see only
this file. Writes are awaited one by one; the caller decides how many are in flight. An adapter raises the errors below and nothing else
for what an API server may answer, so that faults are handled in one way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from koordsched.api.kinds import Kind
from koordsched.api.meta import Object

DEFAULT_RETRY_SECONDS = 1.0
MAX_RETRY_AFTER_SECONDS = 120.0
"""What waits longer, because an answer or a proxy says so, would seem to have been given up: a watch, a condition, an eviction."""


class ClusterError(Exception):
    """A request that did not do what was asked; `status` is the HTTP code (0: no answer)."""

    status = 0
    reason = "Unknown"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotFound(ClusterError):
    status, reason = 404, "NotFound"


class Conflict(ClusterError):
    """The object changed or exists meanwhile (409): read it again and decide again."""

    status, reason = 409, "Conflict"


class AlreadyExists(Conflict):
    reason = "AlreadyExists"


class Gone(ClusterError):
    """The resource version is compacted (410): list again.

    `continue_token`: where a page of a list was asked for, and the API server can go on with newer states of what is left of it.
    """

    status, reason = 410, "Expired"

    def __init__(self, message: str, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token


class Invalid(ClusterError):
    """The object or the patch is refused for what is in it (400, 422): trying again cannot help."""

    status, reason = 422, "Invalid"


class Unauthorized(ClusterError):
    """The credentials are not accepted (401), not even after they were renewed."""

    status, reason = 401, "Unauthorized"


class Forbidden(ClusterError):
    status, reason = 403, "Forbidden"


class TooManyRequests(ClusterError):
    """Try again after `retry_after` seconds (429), at most MAX_RETRY_AFTER_SECONDS."""

    status, reason = 429, "TooManyRequests"

    def __init__(self, message: str, retry_after: float = DEFAULT_RETRY_SECONDS) -> None:
        super().__init__(message)
        self.retry_after = min(max(0.0, retry_after), MAX_RETRY_AFTER_SECONDS)  # 0 for what is no number


class ServerError(ClusterError):
    """5xx, or no answer (status 0): nothing is known to have been written; trying again is right."""

    status, reason = 500, "InternalError"

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


class Unreadable(ServerError):
    """The request succeeded, but the answer cannot be understood."""


class OutcomeUnknown(ClusterError):
    """The connection broke or timed out after the request was sent: it may have been carried out."""

    reason = "OutcomeUnknown"


class NotLeading(ClusterError):
    """The request was not sent: another scheduler may lead by now, and what is to be written is its decision."""

    reason = "NotLeading"


class WatchEventType(Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


# Where each event passes, members are taken from here: looking one up on its class costs a third of a microsecond in CPython 3.11.
ADDED: Final = WatchEventType.ADDED
MODIFIED: Final = WatchEventType.MODIFIED
DELETED: Final = WatchEventType.DELETED
BOOKMARK: Final = WatchEventType.BOOKMARK


class WatchEvent(msgspec.Struct, frozen=True):
    """One change. A BOOKMARK carries only metadata.resource_version. DELETED carries the last state."""

    type: WatchEventType
    object: Object


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list. `unreadable`: keys ("namespace/name" or "name") of objects that exist, but cannot be read as their kind."""

    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""
    unreadable: Sequence[str] = ()


class PatchType(Enum):
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Ref(msgspec.Struct, frozen=True):
    """Names one object. `namespace` is "" for cluster-scoped kinds."""

    kind: Kind
    namespace: str
    name: str


class Patch(msgspec.Struct, frozen=True):
    """What to change of an object. `subresource` is "" or "status"."""

    body: Mapping[str, Any]
    type: PatchType = PatchType.MERGE
    subresource: str = ""


class Binding(msgspec.Struct, frozen=True):
    """POST pods/NAME/binding. The uid makes a binding of a re-created pod fail with Conflict.

    annotations: that the pod has from then on, besides those that it has; the API server writes them together with the node.
    """

    namespace: str
    name: str
    uid: str
    node: str
    annotations: Mapping[str, str] = {}


class Cluster(Protocol):
    """A cluster as the scheduler sees it. All methods may raise `ClusterError`."""

    @property
    def max_silence(self) -> float:
        """Return after how many seconds a watch without any event, not even a bookmark, is to be taken for dead."""

    async def list(self, kind: Kind, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> ListPage:
        """Return one page of the kind's objects in all namespaces, and the resource version that a watch goes on from.

        NotFound: the cluster does not serve the kind (a missing CRD). Gone: the continue token expired.
        """

    def watch(self, kind: Kind, *, resource_version: str, field_selector: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        """Yield batches of what happened after resource_version, in order, until the server ends the watch (then simply watch again).

        An object that leaves the field selector is DELETED, one that enters it ADDED. Bookmarks are always asked for. Gone: list again.
        Raised errors come out of the iterator. Who stops reading early closes it (`contextlib.aclosing`), so that nothing stays open.
        """

    async def get(self, ref: Ref) -> Object: ...

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        """Create the object (its namespace and name in body.metadata). AlreadyExists, Invalid."""

    async def patch(self, ref: Ref, patch: Patch) -> Object: ...

    async def update(self, ref: Ref, body: Mapping[str, Any]) -> Object:
        """Replace the object, all but its status, by the body. Conflict: metadata.resourceVersion or uid of the body is another."""

    async def delete(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None: ...

    async def evict(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Delete the pod if its disruption budget allows it (pods/eviction of policy/v1); the pod then says so in a condition.

        TooManyRequests: the budget, which the message names, does not allow it now. ServerError: the pod has several budgets. NotFound: the
        pod is gone. Conflict: another uid. Preemption does not ask this: it spares budgets where it can, and deletes where it cannot.
        """

    async def bind(self, binding: Binding) -> None:
        """Bind the pod. Conflict: bound already or another uid. NotFound: the pod is gone. OutcomeUnknown: ask with get."""
