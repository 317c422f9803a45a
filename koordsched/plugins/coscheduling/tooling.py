"""What `validate` knows of Coscheduling: what it cannot use of PodGroups and of the pods of gangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import is_in_pod_group, spec_of_member, spec_of_pod_group
from koordsched.framework.tooling import ObjectCheck, Tooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.gangs import PodGroup


def pod_group_problems(group: PodGroup) -> Sequence[str]:
    return spec_of_pod_group(group).problems


def member_problems(pod: Pod) -> Sequence[str]:
    """Return what is wrong with a pod's annotations about its gang, where they count."""
    spec = None if is_in_pod_group(pod.metadata) else spec_of_member(pod.metadata)
    return () if spec is None else spec.problems


TOOLING = Tooling(object_checks=(ObjectCheck(POD_GROUP, pod_group_problems), ObjectCheck(POD, member_problems)))
