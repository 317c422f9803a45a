"""What a pod asks of NUMA nodes, worked out once for all pods that ask for the same (nodenumaresource.md §4, PreFilter)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched._core.numa import NumaRequest
from koordsched._core.numa_facts import NumaTerms
from koordsched.api.koordinator.qos import QOS_CLASS
from koordsched.framework.status import Status, unresolvable
from koordsched.plugins.nodenumaresource.designation import designation, designation_signature
from koordsched.plugins.nodenumaresource.resolution import PodDemand, resolve, signature

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.koordinator.pods import PodNumaStatus
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns

MAX_KEPT = 4096  # distinct demands: pods that all differ must not fill the memory
MAX_RESOURCES = 48  # that one NumaRequest can name
NOTHING_SAID = (None, None)


class Prepared(msgspec.Struct, frozen=True):
    """A pod's demand. Shared by pods that ask for the same."""

    demand: PodDemand
    request: NumaRequest
    modest: bool  # the pod asks for nothing itself, so that only nodes with a policy of their own concern it
    designated: PodNumaStatus | None = None


def key_of(pod: PodInfo) -> Hashable:
    """Return all that the plugin reads of the pod. Asked for every pod there is, few of which say anything about CPUs."""
    meta = pod.pod.metadata
    if not meta.annotations and QOS_CLASS not in meta.labels:
        return pod.resources
    said = (signature(pod), designation_signature(meta.annotations))
    return pod.resources if said == NOTHING_SAID else (pod.resources, *said)


class Preparing:
    """Works out demands for one profile."""

    def __init__(self, default_bind_policy: str, columns: Columns) -> None:
        self._default_bind_policy = default_bind_policy
        self._columns = columns
        self._known: dict[Hashable, Prepared | Status | None] = {}
        columns.call_when_renewed(self._known.clear)

    def prepare(self, pod: PodInfo) -> Prepared | Status | None:
        """Return the pod's demand, the refusal of the pod as a whole, or None for a pod that requests nothing."""
        if len(pod.resources.requests) > MAX_RESOURCES:
            return self._work_out(pod)  # a refusal, which is not kept: it would keep all the names
        key = key_of(pod)
        if key not in self._known:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[key] = self._work_out(pod)
        return self._known[key]

    def _work_out(self, pod: PodInfo) -> Prepared | Status | None:
        demand = resolve(pod, self._default_bind_policy)
        if isinstance(demand, Status):
            return demand
        requests = pod.resources.requests
        if not requests:
            return None
        if len(requests) > MAX_RESOURCES:
            return unresolvable(
                f"the pod requests {len(requests)} resources, of which at most {MAX_RESOURCES} can be taken from NUMA nodes"
            )
        designated = designation(pod.pod.metadata.annotations)
        if isinstance(designated, Status):
            return designated
        terms = NumaTerms(demand.policy, demand.required, demand.numa_policy, demand.numa_exclusive)
        known = self._columns.resources  # what no node offers is in no NUMA node either
        amounts = {known[name]: amount for name, amount in requests.items() if amount > 0 and name in known}
        modest = not demand.binds and not demand.numa_policy and designated is None
        return Prepared(demand, NumaRequest(amounts, self._columns.resource_names, terms), modest, designated)
