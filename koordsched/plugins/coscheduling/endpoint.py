"""What `/apis/v1/plugins/Coscheduling/gangs` and `.../gang/<namespace>/<name>` answer (coscheduling.md §10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.clock import rfc3339
from koordsched.framework.routes import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.plugins.coscheduling.gangs import Gang, GangGroup

FROM_POD_GROUP, FROM_ANNOTATIONS = "GangFromPodGroupCrd", "GangFromPodAnnotation"


class GangView:
    """Gangs as the reference's JSON shows them."""

    def __init__(self, default_policy: str, wait: Callable[[Gang], int]) -> None:
        """wait: returns how long members of a gang wait on Permit, in nanoseconds."""
        self._default_policy = default_policy
        self._wait = wait

    def one(self, gang: Gang) -> Answer:
        return Answer(self._described(gang))

    def all(self, gangs: Iterable[Gang]) -> Answer:
        return Answer({gang.id: self._described(gang) for gang in gangs})

    def _described(self, gang: Gang) -> dict[str, Any]:
        spec, group = gang.spec, gang.group
        return {
            "name": gang.id,
            "waitTime": self._wait(gang),
            "createTime": rfc3339(gang.created),
            "mode": "" if spec is None else "Strict" if spec.strict else "NonStrict",
            "gangMatchPolicy": "" if spec is None else spec.match_policy or self._default_policy,
            "minRequiredNumber": 0 if spec is None else spec.min_available,
            "totalChildrenNum": 0 if spec is None else spec.total,
            "gangGroup": list(group.ids),
            "children": _set(gang.members),
            "pendingChildren": _set(gang.members.keys() - gang.waiting - gang.bound),
            "waitingForBindChildren": _set(gang.waiting),
            "boundChildren": _set(gang.bound),
            "onceResourceSatisfied": group.satisfied,
            "gangGroupInfo": self._group(group),
            "gangFrom": FROM_POD_GROUP if gang.of_pod_group else FROM_ANNOTATIONS,
            "hasGangInit": spec is not None,
        }

    def _group(self, group: GangGroup) -> dict[str, Any]:
        return {
            "Initialized": True,
            "GangGroupId": group.id,
            "GangGroup": list(group.ids),
            "OnceResourceSatisfied": group.satisfied,
            "WaitingGangIDs": _set(group.ids if group.waiting_on_permit else ()),
            "RepresentativePodKey": group.representative,
            "BindingMemberPods": _set(group.binding),
        }


def _set(keys: Iterable[str]) -> dict[str, dict[str, str]]:
    return {key: {} for key in sorted(keys)}
