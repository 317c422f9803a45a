"""QuotaLimits: which limits of its quotas a pod comes under, and what they would say of it if they were larger or it asked for less.

Tried on the tree itself: the pod's record is replaced and max written for a moment, within which nothing awaits. All numbers are derived
from these when they are read, so what is written back leaves the tree as it was; at most it says of a quota that waits for growth that it
may have grown, which costs a probe.
"""

from __future__ import annotations

from contextlib import contextmanager
from heapq import nsmallest
from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import is_non_preemptible
from koordsched.api.quantity import NANO_PER_MILLI, NANO_PER_UNIT, format_of
from koordsched.api.resources import exact_requests
from koordsched.framework.limits import Limit, RaisedLimit
from koordsched.plugins.elasticquota.manager import BUILT_IN, CountedPod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.elasticquota.manager import Quota
    from koordsched.plugins.elasticquota.state import QuotaState

SHOWN_HOLDERS = 3
MOST_LOOKED_AT = 2_000
"""Pods of a quota and those below it among which the holders of most are looked for: a millisecond."""


class QuotaLimits:
    """Limits of the quotas of one cluster. with_overhead: whether a pod's overhead counts."""

    def __init__(self, state: QuotaState, *, with_overhead: bool) -> None:
        self._counting = state.counting
        self._with_overhead = with_overhead

    def limits_of(self, pod: PodInfo) -> list[Limit]:
        """Return the limits of the pod's quota and of those above it."""
        counted = self._counting.counted(pod)
        if counted is None:
            return []
        found = []
        for quota in counted.quota.manager.path(counted.quota):
            if quota.obj is None:
                continue
            used, written = quota.amounts("used"), quota.obj.spec.max
            for resource in sorted(counted.requests.keys() & quota.definition.max.keys()):
                unit, most = _unit(resource), quota.definition.max[resource]
                shown = format_of(written.get(resource, 0))
                holders = _holders(quota, resource)
                names = quota.obj.metadata.namespace, quota.name
                found.append(Limit(*names, resource, most // unit, -(-used.get(resource, 0) // unit), shown, holders))
        return found

    @contextmanager
    def counted_as(self, pod: PodInfo, raised: Sequence[RaisedLimit], gone: Sequence[PodInfo]) -> Iterator[None]:
        """Count the pod so, under larger limits and without pods that are gone, while the block runs."""
        pods, before = self._counting.pods, self._counting.counted(pod)
        if before is None:
            yield
            return
        quota, kernel = before.quota, before.quota.manager.up_to_date()
        requests = exact_requests(pod.pod, with_overhead=self._with_overhead)
        entry = quota.manager.entry(quota, requests, fixed=is_non_preemptible(pod.pod))
        is_counted = pod.uid in pods and not before.entry.assigned
        left = [known for each in gone if (known := pods.get(each.uid)) is not None and known.entry.assigned]
        concerned = [(each, found) for each in raised if (found := quota.manager.quotas.get(each.quota)) is not None]
        try:
            for known in left:
                known.quota.manager.kernel.remove(known.entry)
            if is_counted:
                kernel.remove(before.entry)
            pods[pod.uid] = CountedPod(pod.pod, pod.uid, quota, requests, entry)
            kernel.add(entry)
            for quota_ in {found.name: found for _, found in concerned}.values():
                _write(quota_, [each for each, found in concerned if found is quota_])
            yield
        finally:
            for _, found in concerned:
                _write(found, ())
            kernel.remove(entry)
            if is_counted:
                kernel.add(before.entry)
                pods[pod.uid] = before
            else:
                del pods[pod.uid]
            for known in left:
                known.quota.manager.kernel.add(known.entry)
                known.quota.manager.kernel.assign(known.entry)


def _write(quota: Quota, raised: Sequence[RaisedLimit]) -> None:
    """Write what the quota's object says, but for limits that are raised."""
    most, least = dict(quota.definition.max), dict(quota.definition.min)
    for each in raised:
        added = each.added * _unit(each.resource)
        most[each.resource] = most.get(each.resource, 0) + added
        if each.with_min:
            least[each.resource] = least.get(each.resource, 0) + added
    weight = quota.definition.weight if quota.definition.weight != quota.definition.max else most
    kernel = quota.manager.kernel
    kernel.set_quota(quota.row, most=most, least=least, weight=weight, lends=quota.lends, built_in=quota.name in BUILT_IN)


def _holders(quota: Quota, resource: str) -> tuple[tuple[str, int], ...]:
    """Return the pods of a quota and of those below it that use most of a resource."""
    below, pods = [quota], list[CountedPod]()
    while below:
        each = below.pop()
        pods += each.pods.values()
        if len(pods) > MOST_LOOKED_AT:
            return ()
        below += quota.manager.written_children(each.name)
    holding = ((each.key, each.requests.get(resource, 0) // _unit(resource)) for each in pods if each.entry.assigned)
    return tuple(nsmallest(SHOWN_HOLDERS, ((key, amount) for key, amount in holding if amount), key=lambda one: (-one[1], one[0])))


def _unit(resource: str) -> int:
    return NANO_PER_MILLI if resource == "cpu" else NANO_PER_UNIT
