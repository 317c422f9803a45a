"""DefaultBinder: Bind asks the cluster to bind the pod.

Reference: plugins/defaultbinder/default_binder.go of Kubernetes v1.35. Beyond it, an answer that leaves open whether the pod is bound is
settled by reading the pod: otherwise a binding whose answer got lost would be undone here and stand in the cluster (framework.md §11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.cluster.port import Binding, ClusterError, Conflict, OutcomeUnknown, Ref
from koordsched.framework.interface import BindPlugin
from koordsched.framework.status import Status, error

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        meta = pod.pod.metadata
        binding = Binding(namespace=meta.namespace, name=meta.name, uid=meta.uid, node=node_name)
        try:
            await self._cluster.bind(binding)
        except (Conflict, OutcomeUnknown) as refusal:
            return None if await self._is_bound(binding) else error(refusal.message)
        except ClusterError as refusal:
            return error(refusal.message)
        return None

    async def _is_bound(self, binding: Binding) -> bool:
        """Answer whether the very pod is bound to the very node; not knowing counts as no."""
        try:
            found = await self._cluster.get(Ref(POD, binding.namespace, binding.name))
        except ClusterError:
            return False
        return isinstance(found, Pod) and found.metadata.uid == binding.uid and found.spec.node_name == binding.node
