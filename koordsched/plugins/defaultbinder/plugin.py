"""DefaultBinder: Bind asks the cluster to bind the pod, and to write its annotations with that.

Reference: plugins/defaultbinder/default_binder.go of Kubernetes v1.35, with client-go's repetitions of requests that a server was too busy
for. Beyond it, an answer that leaves open whether the pod is bound is settled by reading the pod, for as long as that takes: otherwise a
binding whose answer got lost would be undone here and stand in the cluster (framework.md §11). A binding may be sent again: it names the
pod's uid, and where the first one did reach the cluster the second one finds the pod bound to the very node.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.backoff import Backoff
from koordsched.cluster.port import Binding, ClusterError, Conflict, NotFound, OutcomeUnknown, Ref, ServerError, TooManyRequests
from koordsched.framework.cycle_state import annotations_of_binding
from koordsched.framework.interface import BindPlugin
from koordsched.framework.status import Status, error
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

TRIES = 10
FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0  # seconds between two requests


class BindingOutcome(Enum):
    """What the cluster says of a pod that was to be bound."""

    BOUND = "bound to the node it was to be bound to"
    PENDING = "not bound"
    OTHERWISE = "gone, or bound to another node"


class DefaultBinder(BindPlugin):
    name = "DefaultBinder"
    writes_annotations = True

    def __init__(self, handle: Handle) -> None:
        self._cluster = handle.cluster
        self._random = handle.random

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        meta = pod.pod.metadata
        annotations = annotations_of_binding(state)
        binding = Binding(namespace=meta.namespace, name=meta.name, uid=meta.uid, node=node_name, annotations=annotations)
        try:
            await self._cluster.bind(binding)
        except ClusterError as refusal:
            return await self._settle(binding, refusal)
        return None

    async def _settle(self, binding: Binding, refusal: ClusterError) -> Status | None:
        """Repeat a binding that failed until it is known what became of it, or trying again makes no sense."""
        try:
            backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY)
            for _ in range(TRIES - 1):
                if isinstance(refusal, Conflict | OutcomeUnknown):
                    found = await self._look(binding)
                    if found is BindingOutcome.BOUND:
                        return None
                    if found is BindingOutcome.OTHERWISE or isinstance(refusal, Conflict):
                        return error(refusal.message)
                elif not isinstance(refusal, TooManyRequests | ServerError):
                    return error(refusal.message)
                await asyncio.sleep(max(backoff.delay(), getattr(refusal, "retry_after", 0.0)))
                try:
                    await self._cluster.bind(binding)
                except ClusterError as again:
                    refusal = again
                else:
                    return None
            unsure = isinstance(refusal, Conflict | OutcomeUnknown)
            return None if unsure and await self._look(binding) is BindingOutcome.BOUND else error(refusal.message)
        finally:
            del refusal  # its traceback holds this frame, which would wait for the garbage collector, with a connection's buffers

    async def _look(self, binding: Binding) -> BindingOutcome:
        """Ask until the cluster answers whether this very pod is bound to this very node."""
        backoff = Backoff(self._random, first=FIRST_DELAY, cap=LONGEST_DELAY)
        while True:
            try:
                pod = await self._cluster.get(Ref(POD, binding.namespace, binding.name))
            except NotFound:
                return BindingOutcome.OTHERWISE
            except ClusterError as mistake:
                delay = backoff.delay()
                log.warning(
                    "it is not known whether a pod is bound; asking again", pod=f"{binding.namespace}/{binding.name}", err=mistake.message
                )
                await asyncio.sleep(max(delay, getattr(mistake, "retry_after", 0.0)))
                continue
            if not isinstance(pod, Pod) or pod.metadata.uid != binding.uid or pod.spec.node_name not in {"", binding.node}:
                return BindingOutcome.OTHERWISE
            if not pod.spec.node_name:
                return BindingOutcome.PENDING
            written = binding.annotations.items() <= pod.metadata.annotations.items()
            return BindingOutcome.BOUND if written else BindingOutcome.OTHERWISE  # another scheduler chose the same node
