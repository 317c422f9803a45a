"""Pods that are placed together or not at all: one check a quota for all of them (elasticquota.md §8, coscheduling.md §11).

What they ask for together is asked as if it were one pod. Only where that is refused it is looked for the first one that has no room beside
those before it; its text is the one that it would get if they had been reserved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from koordsched._core.quota import ADMITTED, OVER_MIN, QuotaPod, QuotaRequest
from koordsched.plugins.elasticquota.reasons import over_own_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.framework.status import Status
    from koordsched.plugins.elasticquota.manager import CountedPod, Quota


def first_over_limit(pods: Sequence[CountedPod | None]) -> tuple[int, Status] | None:
    """Return the first pod for which its quota has no room beside the ones before it; None: all have room. None in pods: in no quota."""
    by_quota: dict[Quota, list[int]] = {}
    for index, counted in enumerate(pods):
        if counted is not None and not counted.entry.assigned:
            by_quota.setdefault(counted.quota, []).append(index)
    found: tuple[int, Status] | None = None
    for quota, indexes in by_quota.items():
        members = [counted for index in indexes if (counted := pods[index]) is not None]
        if _refusal(quota, members) == ADMITTED:
            continue
        place = _first_refused(quota, members)
        if found is None or indexes[place] < found[0]:
            refusal = _refusal(quota, members[: place + 1])
            before = [member for member in members[:place] if refusal != OVER_MIN or member.entry.fixed]
            found = indexes[place], over_own_limit(members[place], refusal, _sum(before))
    return found


def _first_refused(quota: Quota, members: Sequence[CountedPod]) -> int:
    """Return the place of the first of these pods that has no room; there is one."""
    return bisect_left(range(len(members)), True, key=lambda place: _refusal(quota, members[: place + 1]) != ADMITTED)


def _refusal(quota: Quota, members: Sequence[CountedPod]) -> int:
    """Return how the quota refuses these pods together, ADMITTED if it does not."""
    kernel = quota.manager.kernel
    refusal: int = kernel.admit(QuotaPod(quota.row, QuotaRequest(kernel, _sum(members)), fixed=False))
    fixed = [member for member in members if member.entry.fixed]
    if refusal or not fixed:
        return refusal
    return kernel.admit(QuotaPod(quota.row, QuotaRequest(kernel, _sum(fixed)), fixed=True))


def _sum(members: Sequence[CountedPod]) -> dict[str, int]:
    """Return what pods ask for together. Pods that are written alike share their requests."""
    counts = Counter(id(member.requests) for member in members)
    asked = {id(member.requests): member.requests for member in members}
    total: dict[str, int] = {}
    for key, number in counts.items():
        for name, amount in asked[key].items():
            total[name] = total.get(name, 0) + number * amount
    return total
