"""PreBind: write the decisions, then wait until the cluster's volume controller and provisioners have bound the claims.

Every write names the version that the decision was made on, so of two schedulers that want one volume only one gets it. There is no
rollback: the next attempt starts from a claim that is prebound, or has a selected node.
Reference: BindPodVolumes in plugins/volumebinding/binder.go of Kubernetes v1.35, which polls every second; here changes end the wait.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from koordsched.api.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, claim_reference, is_bound, is_for
from koordsched.cluster.port import ClusterError, Patch, Ref
from koordsched.framework.volumes import claim_not_found, volume_not_found
from koordsched.plugins.volumebinding.topology import volume_topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Node, PersistentVolume
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.cluster.port import Cluster
    from koordsched.plugins.volumebinding.filtering import BindingDecision
    from koordsched.plugins.volumebinding.state import VolumeState

RECHECK_SECONDS = 5.0
"""How often the pod and its node are looked up: their changes do not end the wait."""

TIMED_OUT = "context deadline exceeded"


class BindingError(Exception):
    """The claims could not be bound; the text is for the pod's author."""


class VolumeBinder:
    """Binds the claims of one pod at a time; any number at once."""

    def __init__(self, cluster: Cluster, clock: Clock, state: VolumeState, timeout: float) -> None:
        self._cluster = cluster
        self._clock = clock
        self._state = state
        self._timeout = timeout

    async def bind(self, decisions: Iterable[BindingDecision], pod: PodInfo, node: str) -> None:
        """Write and wait. BindingError."""
        pending = _PendingBinding(self._state, pod, node)
        try:
            for decision in decisions:
                if decision.volume is None:
                    pending.provisioned[decision.claim.key] = await self._select_node(decision, node)
                else:
                    pending.volumes[decision.claim.key] = await self._prebind(decision)
        except ClusterError as error:
            raise BindingError(error.message) from error
        try:
            await self._wait(pending)
        except BindingError as error:
            raise BindingError(f"binding volumes: {error}") from error

    async def _prebind(self, decision: BindingDecision) -> Object:
        """Prebind the volume to the claim, unless it is already. ClusterError."""
        assert decision.volume is not None
        name, claim = decision.volume.metadata.name, decision.claim.object
        volume = self._state.objects.volumes.get(name)
        if volume is None:
            raise BindingError(volume_not_found(name))
        ref = volume.spec.claim_ref
        if ref is not None and not is_for(volume, claim):
            raise BindingError(f'persistentvolume "{name}" was bound to another claim meanwhile: {ref.namespace}/{ref.name}')
        if ref is not None and ref.uid:
            return volume
        metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
        if ref is None:  # the controller releases what it has bound itself, but not a volume that its owner prebound
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {"metadata": metadata, "spec": {"claimRef": claim_reference(claim)}}
        return await self._cluster.patch(Ref(PERSISTENT_VOLUME, "", name), Patch(body))

    async def _select_node(self, decision: BindingDecision, node: str) -> Object:
        """Select the node for the claim to be provisioned on, unless that was done. ClusterError."""
        claim = self._state.objects.claims.get(decision.claim.key)
        if claim is None or claim.metadata.uid != decision.claim.object.metadata.uid:
            raise BindingError(claim_not_found(decision.claim.object.metadata.name))
        if claim.metadata.annotations.get(SELECTED_NODE) == node:
            return claim
        metadata = claim.metadata
        body = {"metadata": {"resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: node}}}
        return await self._cluster.patch(Ref(PERSISTENT_VOLUME_CLAIM, metadata.namespace, metadata.name), Patch(body))

    async def _wait(self, pending: _PendingBinding) -> None:
        event = asyncio.Event()
        claims = [*pending.volumes, *pending.provisioned]
        self._state.wait_for(claims, event)
        deadline = self._clock.now() + self._timeout
        try:
            while not pending.done():
                left = deadline - self._clock.now()
                if left <= 0:
                    raise BindingError(TIMED_OUT)
                event.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, RECHECK_SECONDS)):
                        await event.wait()
        finally:
            self._state.stop_waiting(claims, event)


class _PendingBinding:
    """The claims that a pod waits for, with the objects as they were written, compared with the informers' stores."""

    def __init__(self, state: VolumeState, pod: PodInfo, node: str) -> None:
        self.volumes: dict[str, Object] = {}  # by claim: its prebound volume
        self.provisioned: dict[str, Object] = {}  # by claim: the claim
        self._state = state
        self._pod = pod
        self._node = node

    def done(self) -> bool:
        """Answer whether all claims are bound. BindingError: they cannot be bound any more, or not for this node."""
        node = self._check_pod_and_node()
        bound = [self._prebound_is_bound(key, written, node) for key, written in self.volumes.items()]
        bound += [self._provisioned_is_bound(key, written, node) for key, written in self.provisioned.items()]
        return all(bound)

    def _check_pod_and_node(self) -> Node:
        """Return the node. BindingError: it, or the pod, is gone."""
        found = self._state.cache.node(self._node)
        if found is None or found.node is None:
            raise BindingError(f'failed to get node "{self._node}": node "{self._node}" not found')
        pod = self._state.pods.get(self._pod.key)
        if pod is None or pod.metadata.uid != self._pod.uid:
            raise BindingError(f'pod does not exist any more: pod "{self._pod.pod.metadata.name}" not found')
        return found.node

    def _prebound_is_bound(self, key: str, written: Object, node: Node) -> bool:
        name = written.metadata.name
        volume = self._state.objects.volumes.get(name)
        claim = self._state.objects.claims.get(key)
        if volume is None or claim is None:
            missing = f'v1.PersistentVolume "{name}"' if volume is None else f'v1.PersistentVolumeClaim "{key}"'
            raise BindingError(f"failed to check binding: could not find {missing}")
        if _older(volume, written):
            return False
        _check_topology(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(claim)

    def _provisioned_is_bound(self, key: str, written: Object, node: Node) -> bool:
        claim = self._state.objects.claims.get(key)
        if claim is None:
            raise BindingError(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
        if _older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{claim.metadata.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node:
            raise BindingError(f'provisioning failed for PVC "{claim.metadata.name}"')
        if claim.spec.volume_name:
            volume = self._state.objects.volumes.get(claim.spec.volume_name)
            if volume is None:
                return False  # its event comes a little later
            _check_topology(volume, node)
        return is_bound(claim)


def _older(seen: Object, written: Object) -> bool:
    """Answer whether the store's state is from before our own write."""
    before, after = seen.metadata.resource_version, written.metadata.resource_version
    return before.isdecimal() and after.isdecimal() and int(before) < int(after)


def _check_topology(volume: PersistentVolume, node: Node) -> None:
    topology = volume_topology(volume)
    if topology is not None and not any(all(condition.holds_for(node) for condition in term) for term in topology.terms):
        name = volume.metadata.name
        raise BindingError(f'pv "{name}" node affinity doesn\'t match node "{node.metadata.name}": no matching NodeSelectorTerms')
