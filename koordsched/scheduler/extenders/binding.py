"""Binding by an extender in the place of Bind plugins (framework.md §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.cluster.port import ClusterError, Ref
from koordsched.framework.handle import ExtenderError
from koordsched.framework.status import Status, error
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.port import Cluster
    from koordsched.scheduler.extenders.chain import Chain

log = get_logger(__name__)


class Binder:
    """Has pods bound by the extender that binds."""

    def __init__(self, chain: Chain, cluster: Cluster) -> None:
        self._chain = chain
        self._cluster = cluster

    async def bind(self, pod: PodInfo, node: str) -> tuple[bool, Status | None]:
        """Return whether an extender took the pod upon itself, and what went wrong then."""
        try:
            return await self._chain.bind(pod.pod, node), None
        except ExtenderError as failure:
            # It may have bound the pod and failed to say so; what is bound must not be sold again.
            return True, None if await self._is_bound(pod, node) else error(str(failure))

    async def _is_bound(self, pod: PodInfo, node: str) -> bool:
        meta = pod.pod.metadata
        try:
            found = await self._cluster.get(Ref(POD, meta.namespace, meta.name))
        except ClusterError as failure:
            log.warning("it is not known whether an extender bound a pod", pod=pod.key, err=failure.message)
            return False
        return isinstance(found, Pod) and found.metadata.uid == meta.uid and found.spec.node_name == node
