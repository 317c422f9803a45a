"""What the plugin writes: the objects of the built-in quotas (elasticquota.md §4), and the numbers of all quotas on their objects (§12).

Numbers are compared with what the object says, zeros ignored, and what differs is written in one patch: at most one per second and quota,
none when nothing changed. An annotation of the scheduler's that another writer has changed is written anew (DEV-9).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.api.koordinator.quota_definitions import (
    ALLOCATED,
    ALLOW_LENT,
    ALWAYS_THERE,
    CHILD_REQUEST,
    DEFAULT_QUOTA,
    FALSE,
    FIXED_REQUEST,
    FIXED_USED,
    GUARANTEED,
    IS_PARENT,
    PARENT,
    REQUEST,
    ROOT_QUOTA,
    RUNTIME,
    SYSTEM_QUOTA,
    TRUE,
    amount_text,
    annotated_amounts,
    list_text,
    readable_amounts,
    runtime_text,
)
from koordsched.cluster.port import AlreadyExists, ClusterError, NotFound, Patch, Ref
from koordsched.framework.controllers import WorkQueue
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.api.koordinator.quotas import ElasticQuota
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import Quota, QuotaManager
    from koordsched.plugins.elasticquota.state import QuotaState

log = get_logger(__name__)

RETRY_SECONDS = 5.0
WRITTEN = {
    REQUEST: "request",
    CHILD_REQUEST: "child_request",
    FIXED_REQUEST: "fixed_request",
    FIXED_USED: "fixed_used",
}
"""The kernel's column of each annotation that is written, beside the runtime."""
WRITTEN_IF_GUARANTEED = {GUARANTEED: "guaranteed", ALLOCATED: "allocated"}


class BuiltInQuotas:
    """Creates the objects of the root, the system and the default quota where they are missing. A cluster without the CRD is left alone."""

    def __init__(self, handle: Handle, state: QuotaState) -> None:
        self._cluster = handle.cluster
        self._state = state
        self._objects: Mapping[str, ElasticQuota] = handle.informer(ELASTIC_QUOTA).store
        self._names: WorkQueue[str] = WorkQueue("built-in quotas")
        for name in (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA):  # in the reference's order
            self._names.add(name)
        handle.informer(ELASTIC_QUOTA).add_handler(self)

    async def run(self) -> None:
        await self._names.run(self._create)

    async def _create(self, name: str) -> float | None:
        """Create the object unless one of its name exists, in whatever namespace."""
        quota = self._state.quotas[name]
        if quota.obj is not None:
            return None
        metadata = {"name": name, "namespace": self._state.args.quota_group_namespace}
        body: dict[str, Any] = {"apiVersion": ELASTIC_QUOTA.api_version, "kind": ELASTIC_QUOTA.kind, "metadata": metadata}
        if name == ROOT_QUOTA:
            body["metadata"]["labels"] = {IS_PARENT: TRUE, ALLOW_LENT: FALSE, PARENT: ""}
        else:
            args = self._state.args
            body["spec"] = {"max": dict(args.default_quota_group_max if name == DEFAULT_QUOTA else args.system_quota_group_max)}
        try:
            await self._cluster.create(ELASTIC_QUOTA, body)
        except AlreadyExists:
            return None
        except NotFound:
            return RETRY_SECONDS * 6  # no CRD, or no namespace
        except ClusterError as refused:
            log.warning("a built-in quota could not be created", quota=name, status=refused.status, err=refused.message)
            return RETRY_SECONDS
        return None

    def on_add(self, obj: ElasticQuota, arrival: Arrival) -> None:
        """Do nothing: the state takes it in."""

    def on_update(self, old: ElasticQuota, new: ElasticQuota) -> None:
        """Do nothing: the state takes it in."""

    def on_delete(self, obj: ElasticQuota, final_state: FinalState) -> None:
        if obj.metadata.name in ALWAYS_THERE:
            self._names.add(obj.metadata.name)


class QuotaStatusWriter:
    """Writes what quotas ask for, use and may use."""

    def __init__(self, handle: Handle, state: QuotaState) -> None:
        self._cluster = handle.cluster
        self._perf = handle.clock.perf
        self._state = state
        self._trees: WorkQueue[str] = WorkQueue("numbers of quotas")
        self._quotas: WorkQueue[str] = WorkQueue("status of quotas")
        self._observe = state.latencies.status_update.child().observe
        state.changes.follow(self._tree_changed)
        handle.informer(ELASTIC_QUOTA).add_handler(self)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._trees.run(self._find_changed))
            tasks.create_task(self._quotas.run(self._write))

    def _tree_changed(self, manager: QuotaManager) -> None:
        self._trees.add(manager.tree_id)

    async def _find_changed(self, tree_id: str) -> float | None:
        manager = self._state.managers.get(tree_id)
        if manager is not None:
            manager.is_noted = False
            started = self._perf()
            manager.up_to_date().refresh()
            self._state.latencies.observe("RefreshRuntime", self._perf() - started)
            for row in manager.up_to_date().take_changed():
                self._quotas.add(manager.quota_of(row).name)
        return None

    async def _write(self, name: str) -> float | None:
        quota = self._state.quotas.get(name)
        if quota is None or quota.obj is None:
            return None
        obj = quota.obj
        body = self.patch(quota, obj)
        if body is None:
            return None
        started = self._perf()
        try:
            await self._cluster.patch(Ref(ELASTIC_QUOTA, obj.metadata.namespace, name), Patch(body))
        except NotFound:
            return None
        finally:
            self._observe(self._perf() - started)
        return None

    def patch(self, quota: Quota, obj: ElasticQuota) -> dict[str, Any] | None:
        """Return what to change of the object; None: nothing."""
        columns = WRITTEN | WRITTEN_IF_GUARANTEED if quota.manager.kernel.guarantees else WRITTEN
        annotations: dict[str, str] = {}
        for key, column in columns.items():
            self._add(annotations, obj, key, quota.amounts(column))
        self._add(annotations, obj, RUNTIME, quota.runtimes())
        if self._state.hooks:
            annotations.update(self._state.hooks.annotations(quota, obj, annotations))
            annotations = {key: text for key, text in annotations.items() if obj.metadata.annotations.get(key) != text}
        body: dict[str, Any] = {}
        if annotations:
            body["metadata"] = {"annotations": annotations}
        used, shown_used = quota.amounts("used"), _status_used(obj)
        if shown_used is None or used != {name: amount for name, amount in shown_used.items() if amount}:
            shown = dict.fromkeys(shown_used or {}, 0) | used
            body["status"] = {"used": {name: amount_text(name, amount) for name, amount in shown.items()}}
        return body or None

    def _add(self, annotations: dict[str, str], obj: ElasticQuota, key: str, amounts: Amounts) -> None:
        """Add an annotation if the object's differs. A resource that it names and of which there is nothing now is written as 0."""
        problems: list[str] = []
        annotated = annotated_amounts(obj.metadata.annotations, key, problems)
        written = {name: amount for name, amount in amounts.items() if amount}
        if not problems and {name: amount for name, amount in (annotated or {}).items() if amount} == written:
            return
        shown = dict.fromkeys(annotated or {}, 0) | amounts
        annotations[key] = list_text(shown, runtime_text if key == RUNTIME else amount_text)

    # Handler of ElasticQuotas: another writer may have changed what is written here, be it back to what the watch showed before the last
    # write: where a list shows the end of both, nothing is new in it

    def on_add(self, obj: ElasticQuota, _arrival: Arrival) -> None:
        self._quotas.add(obj.metadata.name)

    def on_update(self, _old: ElasticQuota, new: ElasticQuota) -> None:
        self._quotas.add(new.metadata.name)

    def on_delete(self, obj: ElasticQuota, _final_state: FinalState) -> None:
        """Do nothing: what is gone needs no status."""


def _status_used(obj: ElasticQuota) -> Amounts | None:
    """Return what status.used says; None: it cannot be read."""
    shown = readable_amounts(obj.status.used)
    return shown if len(shown) == len(obj.status.used) else None
