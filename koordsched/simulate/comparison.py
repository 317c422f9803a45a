"""`simulate --compare`: the same input under two configurations, and what differs (docs/simulate.md "Two configurations")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.simulate.result import Output, Result, json_text

if TYPE_CHECKING:
    from koordsched.simulate.simulation import SimulationOutcome

SHIPPED = "the shipped configuration"


class PodOutcome(Output, omit_defaults=True):
    """What became of a pod: the node that it was given, or why it is pending."""

    node: str = ""
    reason: str = ""


class PodDifference(Output):
    """A pod that is on another node, or placed under one configuration only."""

    pod: str
    base: PodOutcome
    other: PodOutcome


class PlacementCounts(Output):
    """How many pods are on the same node under both configurations, on two nodes, placed by one of them only, or by neither."""

    same_node: int
    other_node: int
    only_base: int
    only_other: int
    neither: int


class Run(msgspec.Struct, frozen=True):
    """A configuration, as the user called it, and what became of the input under it."""

    config: str
    outcome: SimulationOutcome


class RunComparison(msgspec.Struct, frozen=True):
    """Two runs of one input, and the pods whose placements differ, by name."""

    base: Run
    other: Run
    counts: PlacementCounts
    differences: list[PodDifference]

    def json(self) -> bytes:
        """Write the comparison, indented, with a newline at its end."""
        runs = {
            key: {"config": run.config, "summary": run.outcome.result.summary.body()}
            for key, run in (("base", self.base), ("other", self.other))
        }
        return json_text({**runs, "placements": self.counts, "differences": self.differences})


def compare(base: Run, other: Run) -> RunComparison:
    """Compare what became of each pod. Both runs are of the same input, hence of the same pods."""
    before, after = outcomes(base.outcome.result), outcomes(other.outcome.result)
    differences = [
        PodDifference(pod=pod, base=outcome, other=after[pod]) for pod, outcome in before.items() if outcome.node != after[pod].node
    ]
    on_both = sum(bool(each.base.node and each.other.node) for each in differences)
    only_base = sum(not each.other.node for each in differences)
    same = sum(bool(outcome.node) and outcome.node == after[pod].node for pod, outcome in before.items())
    counts = PlacementCounts(
        same_node=same,
        other_node=on_both,
        only_base=only_base,
        only_other=len(differences) - on_both - only_base,
        neither=len(before) - same - len(differences),
    )
    return RunComparison(base, other, counts, differences)


def outcomes(result: Result) -> dict[str, PodOutcome]:
    """Return what became of each pod, by its key, sorted: the two lists of a result do not say which pod came first."""
    found = {placed.pod: PodOutcome(node=placed.node) for placed in result.placements}
    found |= {waiting.pod: PodOutcome(reason=waiting.reason) for waiting in result.pending}
    return dict(sorted(found.items()))
