"""What ours does otherwise than the reference because the reference is wrong or gives up too early (docs/differences.md), or by chance.

A rule looks at a case that differs and says whether it is the one that it knows; what no rule knows is a defect.
"""

from __future__ import annotations

from koordsched.api.koordinator.node_reservation import NODE_RESERVATION
from support.differential.koordinator import deliberate_devices, deliberate_numa
from support.differential.koordinator.circumstances import Circumstances
from support.differential.koordinator.vocabulary import DEPRECATED_BATCH_CPU


def any_of_equal_victims(case: Circumstances) -> bool:
    """Say whether other pods of the same priority had to go: those that no kubelet has started come in any order."""
    said = [line for line in case.differences if not line.startswith("the reference evicted pods")]
    return not said and set(case.theirs.evicted) == set(case.ours.evicted)


def another_of_equal_nodes(case: Circumstances) -> bool:
    """Say whether the reference's Reserve refused the node that chance chose of equal ones."""
    return case.theirs.message.startswith("0/1 nodes are available: ") and len(case.ours.best) > 1


def batch_resources_lost(case: Circumstances) -> bool:
    """Say whether it is about nodes that offer batch resources under their older names and reserve something: the reference loses these."""
    losing = {
        body["metadata"]["name"]
        for body in case.objects
        if body["kind"] == "Node"
        and NODE_RESERVATION in body["metadata"].get("annotations", {})
        and DEPRECATED_BATCH_CPU in body["status"]["allocatable"]
    }
    theirs, ours = case.feasible()
    if theirs != ours:
        return theirs < ours and ours - theirs <= losing
    return all(any(f" on {node}: " in line for node in losing) for line in case.differences)


RULES = (*deliberate_devices.RULES, *deliberate_numa.RULES, any_of_equal_victims, another_of_equal_nodes, batch_resources_lost)


def deliberate(case: Circumstances) -> str:
    """Return the name of the rule that knows the case, "" if none does."""
    return next((rule.__name__ for rule in RULES if rule(case)), "")
