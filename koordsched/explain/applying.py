"""Makes changes on a copy of the cluster: what `suggestions` says should be different is different there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import LIGHTWEIGHT_MIN, MIN_AVAILABLE
from koordsched.cluster.port import NotFound, Patch, Ref
from koordsched.manifests.node_copies import DESCRIBED_BY, copied, without_cordon
from koordsched.scheduler.suggestions.group_changes import MembersAdded, MinimumLowered, QuotaRaised
from koordsched.scheduler.suggestions.node_changes import NodesAdded, NodesPatched, PodsRemoved
from koordsched.scheduler.suggestions.pod_changes import PodEdit, RequestChange, SpreadChange, amount_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.embedded.cluster import EmbeddedCluster
    from koordsched.scheduler.suggestions.changes import Change

Json = dict[str, Any]


class Draft(msgspec.Struct):
    """A copy of the cluster that is being changed. pods: the bodies of the pod and of the pending members of its gang, by key."""

    base: MemoryCluster
    embedded: EmbeddedCluster
    pod: str
    pods: dict[str, Json]
    same: Sequence[str]

    @property
    def cluster(self) -> MemoryCluster:
        return self.embedded.cluster

    def unchanged(self, ref: Ref) -> Json | None:
        """Return an object as it is without the changes, so that their order does not matter; None where there is none."""
        try:
            return self.base.raw(ref)
        except NotFound:
            return None


async def apply(change: Change, draft: Draft, level: int) -> None:
    """Make the change. ClusterError: the cluster refuses it."""
    match change:
        case RequestChange() | PodEdit() | SpreadChange():
            for key in draft.same:  # the members of its gang that have the same specification are changed together
                change.edit(draft.pods[key], level)
        case NodesPatched():
            for node in change.nodes:
                await draft.cluster.patch(Ref(NODE, "", node), Patch(_of_node(change, draft.cluster, node)))
        case NodesAdded():
            for i in range(level):
                for kind in DESCRIBED_BY:
                    found = draft.unchanged(Ref(kind, "", change.template))
                    if found is not None:
                        await draft.embedded.create(kind, copied(kind, found, change.name(i)))
        case PodsRemoved():
            for key, _node in change.pods:
                await _remove(draft.cluster, key)
        case MembersAdded():
            body = draft.pods[draft.pod]
            for i in range(level):
                name = f"{body['metadata']['name']}-added-{i + 1}"
                metadata = {**body["metadata"], "name": name}
                draft.pods[f"{metadata['namespace']}/{name}"] = {**msgspec.to_builtins(body), "metadata": metadata}
        case MinimumLowered():
            await _lower(change, draft, change.present - level)
        case QuotaRaised():
            await _raise(change, draft.cluster, level)
        case _:
            raise TypeError(f"a change of an unknown kind: {change!r}")


def _of_node(change: NodesPatched, cluster: MemoryCluster, node: str) -> Json:
    if change.label is not None:
        return {"metadata": {"labels": dict([change.label])}}
    return {"spec": {"unschedulable": None, "taints": without_cordon(cluster.raw(Ref(NODE, "", node))["spec"]) or None}}


async def _remove(cluster: MemoryCluster, key: str) -> None:
    namespace, _, name = key.partition("/")
    ref = Ref(POD, namespace, name)
    if cluster.raw(ref)["metadata"].get("finalizers"):
        await cluster.patch(ref, Patch({"metadata": {"finalizers": None}}))
    await cluster.delete(ref, grace_period_seconds=0)


async def _lower(change: MinimumLowered, draft: Draft, least: int) -> None:
    if change.pod_group:
        await draft.cluster.patch(Ref(POD_GROUP, change.namespace, change.pod_group), Patch({"spec": {"minMember": least}}))
    for body in draft.pods.values():
        for section, key in (("labels", LIGHTWEIGHT_MIN), ("annotations", MIN_AVAILABLE)):
            if key in (body["metadata"].get(section) or {}):
                body["metadata"][section][key] = str(least)


async def _raise(change: QuotaRaised, cluster: MemoryCluster, level: int) -> None:
    ref, added = Ref(ELASTIC_QUOTA, change.namespace, change.quota), level * change.step
    spec: Json = {"max": {change.resource: change.shown(change.present + added)}}
    if change.with_min:
        least = (cluster.raw(ref)["spec"].get("min") or {}).get(change.resource, 0)
        spec["min"] = {change.resource: change.shown(amount_of(change.resource, least) + added)}
    await cluster.patch(ref, Patch({"spec": spec}))
