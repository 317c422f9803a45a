"""What a user of the engine decides: which pods may be victims of which, who may preempt, and the texts of refusals.

DefaultPreemption uses the rules as they are. A quota's preemption takes victims of the preemptor's quota only, and as many that the quota
has room for the pod (elasticquota.md §10); a reservation's and a job's leave alone what says that it must not be preempted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.status import Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo

NEVER = "Never"
POLICY_NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
PREFIX = "preemption: "
"""What stands before an answer of PostFilter."""
TERMINATING = unschedulable("not eligible due to a terminating pod on the nominated node.")
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
OVER_LIMIT = unresolvable("Evicting pods there would not bring the pod's group below its limit")

ALL = ""
"""The group of all pods, where a rule knows no groups."""
NOTHING: Mapping[str, int] = {}


class VictimRule:
    """Which pods may be evicted for which: those of lower priority in the group that the preemptor may evict from.

    This one puts all pods into one group. Engines whose rules have equal keys share one index of victims, whose pods the rule that came
    first has sorted into groups: a rule's answers follow from the pod, the key and the version. To be asked about a pod as it is now;
    an index asks again when the pod changes, and about all pods when the version differs.
    """

    key: Hashable = "lower priority"
    grouped = False
    """Whether `group` has to be asked: not for a rule with one group for all."""

    def group(self, victim: PodInfo) -> Hashable | None:
        """Return the group that the pod belongs to as a victim; None: no pod may evict it."""
        return ALL

    def group_for(self, preemptor: PodInfo) -> Hashable | None:
        """Return the group that the pod may evict from; None: it may not evict any pod."""
        return ALL

    def version(self) -> Hashable:
        """Return what `group` depends on besides the pod. O(1)."""
        return None

    def members(self, preemptor: PodInfo) -> Iterable[str]:
        """Return the uids of the pods in the group that the pod may evict from, wherever they run; only for groups with a limit."""
        return ()

    def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
        """Return the amounts, by resource, that victims have to release together so that a limit of their group has room for these pods.

        Only amounts above 0; empty when no limit keeps them out. Which node the victims are on makes no difference to the limit.
        """
        return NOTHING


LOWER_PRIORITY = VictimRule()


def policy_allows(preemptor: PodInfo) -> Status | None:
    """Refuse a pod whose preemptionPolicy is Never."""
    return POLICY_NEVER if preemptor.pod.spec.preemption_policy == NEVER else None


class PreemptionRules(msgspec.Struct, frozen=True, kw_only=True):
    """One use of the engine.

    plugin: the name under which pods that wait on Permit are rejected as victims. eligible: refuses pods that may not preempt as they are;
    asked at every event about every shape that waits. lists_all_nodes: whether a refusal counts, beside the nodes where evictions might
    help, those where they cannot. in_vain: as the reference evicts for a limit (elasticquota.md DEV-4): only pods of
    one node, and also where they do not release enough. message: what the victim's condition says after "<scheduler name>: ".
    """

    plugin: str
    victims: VictimRule = LOWER_PRIORITY
    eligible: Callable[[PodInfo], Status | None] = policy_allows
    terminating: Status = TERMINATING
    no_victims: Status = NO_VICTIMS
    over_limit: Status = OVER_LIMIT
    lists_all_nodes: bool = True
    in_vain: bool = False
    message: Callable[[PodInfo], str] = lambda _preemptor: "preempting to accommodate a higher priority pod"
    prefix: str = PREFIX
