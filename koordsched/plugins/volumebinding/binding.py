"""PreBind: write what was decided, then wait until the cluster's volume controller and provisioners have bound the claims.

Every write names the version that the decision was made on, so of two schedulers that want one volume only one gets it. There is no
rollback: a claim that was prebound, or given a node, is taken as it then is by the next attempt.
Reference: BindPodVolumes in plugins/volumebinding/binder.go of Kubernetes v1.35, which looks every second; here changes wake it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from koordsched.api.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, claim_reference, is_bound, is_for
from koordsched.cluster.port import ClusterError, Patch, Ref
from koordsched.framework.volumes import claim_not_found, volume_not_found
from koordsched.plugins.volumebinding.places import volume_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Node, PersistentVolume
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.cluster.port import Cluster
    from koordsched.plugins.volumebinding.plan import Choice
    from koordsched.plugins.volumebinding.shared import Shared

LOOK_AGAIN_SECONDS = 5.0
"""How often it is seen whether the pod and its node are still there: their changes wake nobody."""

TIMED_OUT = "context deadline exceeded"


class BindingError(Exception):
    """The claims could not be bound; the text is for the pod's author."""


class VolumeBinder:
    """Binds the claims of one pod at a time; any number at once."""

    def __init__(self, cluster: Cluster, clock: Clock, shared: Shared, timeout: float) -> None:
        self._cluster = cluster
        self._clock = clock
        self._shared = shared
        self._timeout = timeout

    async def bind(self, choices: Iterable[Choice], pod: PodInfo, node: str) -> None:
        """Write and wait. BindingError."""
        job = _Job(self._shared, pod, node)
        try:
            for choice in choices:
                if choice.volume is None:
                    job.provisioned[choice.delayed.key] = await self._select_node(choice, node)
                else:
                    job.volumes[choice.delayed.key] = await self._prebind(choice)
        except ClusterError as error:
            raise BindingError(error.message) from error
        try:
            await self._wait(job)
        except BindingError as error:
            raise BindingError(f"binding volumes: {error}") from error

    async def _prebind(self, choice: Choice) -> Object:
        """Make the volume the claim's, unless it is already. ClusterError."""
        assert choice.volume is not None
        name, claim = choice.volume.metadata.name, choice.delayed.claim
        volume = self._shared.world.objects.volumes.get(name)
        if volume is None:
            raise BindingError(volume_not_found(name))
        ref = volume.spec.claim_ref
        if ref is not None and not is_for(volume, claim):
            raise BindingError(f'persistentvolume "{name}" was bound to another claim meanwhile: {ref.namespace}/{ref.name}')
        if ref is not None and ref.uid:
            return volume
        body = {"metadata": _prebound_metadata(volume), "spec": {"claimRef": claim_reference(claim)}}
        return await self._cluster.patch(Ref(PERSISTENT_VOLUME, "", name), Patch(body))

    async def _select_node(self, choice: Choice, node: str) -> Object:
        """Ask for a volume on the node, unless that was done. ClusterError."""
        claim = self._shared.world.objects.claims.get(choice.delayed.key)
        if claim is None or claim.metadata.uid != choice.delayed.claim.metadata.uid:
            raise BindingError(claim_not_found(choice.delayed.claim.metadata.name))
        if claim.metadata.annotations.get(SELECTED_NODE) == node:
            return claim
        metadata = claim.metadata
        body = {"metadata": {"resourceVersion": metadata.resource_version, "annotations": {SELECTED_NODE: node}}}
        return await self._cluster.patch(Ref(PERSISTENT_VOLUME_CLAIM, metadata.namespace, metadata.name), Patch(body))

    async def _wait(self, job: _Job) -> None:
        event = asyncio.Event()
        claims = [*job.volumes, *job.provisioned]
        self._shared.wait_for(claims, event)
        deadline = self._clock.now() + self._timeout
        try:
            while not job.done():
                left = deadline - self._clock.now()
                if left <= 0:
                    raise BindingError(TIMED_OUT)
                event.clear()
                await _wait_at_most(event, min(left, LOOK_AGAIN_SECONDS))
        finally:
            self._shared.stop_waiting(claims, event)


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _prebound_metadata(volume: PersistentVolume) -> dict[str, Any]:
    """A volume that its owner gave to the claim is not marked as bound by the controller, lest it is given back when the claim goes."""
    version = {"resourceVersion": volume.metadata.resource_version}
    return version if volume.spec.claim_ref is not None else {**version, "annotations": {BOUND_BY_CONTROLLER: "yes"}}


class _Job:
    """The claims that a pod waits for, with the objects as they were written. Volumes and claims are looked at as the cluster has them."""

    def __init__(self, shared: Shared, pod: PodInfo, node: str) -> None:
        self.volumes: dict[str, Object] = {}  # by claim: its prebound volume
        self.provisioned: dict[str, Object] = {}  # by claim: the claim
        self._shared = shared
        self._pod = pod
        self._node = node

    def done(self) -> bool:
        """Answer whether all claims are bound. BindingError: they never will be, or not for this node."""
        node = self._place()
        bound = [self._prebound_is_bound(key, written, node) for key, written in self.volumes.items()]
        bound += [self._provisioned_is_bound(key, written, node) for key, written in self.provisioned.items()]
        return all(bound)

    def _place(self) -> Node:
        found = self._shared.cache.node(self._node)
        if found is None or found.node is None:
            raise BindingError(f'failed to get node "{self._node}": node "{self._node}" not found')
        pod = self._shared.pods.get(self._pod.key)
        if pod is None or pod.metadata.uid != self._pod.uid:
            raise BindingError(f'pod does not exist any more: pod "{self._pod.pod.metadata.name}" not found')
        return found.node

    def _prebound_is_bound(self, key: str, written: Object, node: Node) -> bool:
        name = written.metadata.name
        volume = self._shared.world.objects.volumes.get(name)
        claim = self._shared.world.objects.claims.get(key)
        if volume is None or claim is None:
            missing = f'v1.PersistentVolume "{name}"' if volume is None else f'v1.PersistentVolumeClaim "{key}"'
            raise BindingError(f"failed to check binding: could not find {missing}")
        if _older(volume, written):
            return False
        _check_reach(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(claim)

    def _provisioned_is_bound(self, key: str, written: Object, node: Node) -> bool:
        claim = self._shared.world.objects.claims.get(key)
        if claim is None:
            raise BindingError(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
        if _older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{claim.metadata.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self._node:
            raise BindingError(f'provisioning failed for PVC "{claim.metadata.name}"')
        if claim.spec.volume_name:
            volume = self._shared.world.objects.volumes.get(claim.spec.volume_name)
            if volume is None:
                return False  # heard of a little later
            _check_reach(volume, node)
        return is_bound(claim)


def _older(seen: Object, written: Object) -> bool:
    """Answer whether what was seen last is from before our own write."""
    before, after = seen.metadata.resource_version, written.metadata.resource_version
    return before.isdecimal() and after.isdecimal() and int(before) < int(after)


def _check_reach(volume: PersistentVolume, node: Node) -> None:
    place = volume_place(volume)
    if place is not None and not any(all(condition.holds_for(node) for condition in term) for term in place.terms):
        name = volume.metadata.name
        raise BindingError(f'pv "{name}" node affinity doesn\'t match node "{node.metadata.name}": no matching NodeSelectorTerms')
