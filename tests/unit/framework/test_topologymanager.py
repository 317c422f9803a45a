"""The topology manager: providers are asked, merged, tried and refused together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.builders import pod

from koordsched._core.numa_facts import Hint, Machine, Merged
from koordsched.api.koordinator.policies import NumaExclusive, NumaTopologyPolicy
from koordsched.api.podinfo import PodInfo
from koordsched.cache.columns import Columns
from koordsched.cache.nodes import NodeInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import Plugin
from koordsched.framework.status import Code, Status, unresolvable, unschedulable
from koordsched.framework.topologymanager import NumaAffinity, NumaHintProvider, TopologyManager, merged_status, share_topology_manager

FIRST, SECOND, EITHER = Hint(0b01, 1, True), Hint(0b10, 2, True), Hint(0b11, 0)
POD = pod("p").info()
NODE = NodeInfo("n", 0, Columns())
SINGLE = Machine(NumaTopologyPolicy.SINGLE_NUMA_NODE, NumaExclusive.NONE, 0b11)
BEST_EFFORT = SINGLE._replace(policy=NumaTopologyPolicy.BEST_EFFORT)


@dataclass(eq=False)
class Provider(NumaHintProvider):
    """Answers as the test sets it, and remembers what it was tried with."""

    name: str
    found: Mapping[str, Sequence[Hint] | None] | Status
    refusal: Status | None = None
    wanted: bool = True
    tried: list[NumaAffinity] = field(default_factory=list)

    def wants(self, pod: PodInfo) -> bool:
        return self.wanted

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        return self.found

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        self.tried.append(affinity)
        return self.refusal


def cpus(**others: object) -> Provider:
    provider = Provider("cpus", {"cpu": [FIRST, SECOND, EITHER]})
    for key, value in others.items():
        setattr(provider, key, value)
    return provider


def test_all_providers_are_tried_with_what_their_hints_merged_to() -> None:
    gpus = Provider("gpus", {"gpu": [FIRST, EITHER]})
    numa = cpus()
    assert TopologyManager([numa, gpus]).check(CycleState(), POD, NODE, SINGLE) == NumaAffinity(0b01)
    assert numa.tried == gpus.tried == [NumaAffinity(0b01)]


def test_who_does_not_want_the_pod_is_neither_asked_nor_tried() -> None:
    gpus = Provider("gpus", unresolvable("no GPUs here"), wanted=False)
    assert TopologyManager([cpus(), gpus]).check(CycleState(), POD, NODE, SINGLE) == NumaAffinity(0b10)
    assert gpus.tried == []


def test_others_are_those_that_want_the_pod() -> None:
    numa, gpus = cpus(), Provider("gpus", {}, wanted=False)
    manager = TopologyManager([numa, gpus])
    assert manager.others(numa, POD) == []
    assert manager.others(gpus, POD) == [numa]


def test_providers_that_fail_are_reasons_even_under_best_effort() -> None:
    manager = TopologyManager(
        [Provider("cpus", unresolvable("no zones")), Provider("gpus", unschedulable("no GPUs")), Provider("disks", {})]
    )
    assert manager.check(CycleState(), POD, NODE, BEST_EFFORT) == Status(Code.UNSCHEDULABLE, ("no zones", "no GPUs"))


def test_a_refused_trial_is_the_answer() -> None:
    refusal = unschedulable("not enough cpus available to satisfy request")
    assert TopologyManager([cpus(refusal=refusal)]).check(CycleState(), POD, NODE, SINGLE) == refusal


def test_hints_that_do_not_meet_are_refused_in_the_words_of_the_reference() -> None:
    manager = TopologyManager([cpus(found={"cpu": [FIRST]}), Provider("gpus", {"gpu": [SECOND]})])
    text = "Unaligned NUMA Hint cause cpu prefer [01] among [01],gpu prefer [10] among [10]"
    assert manager.check(CycleState(), POD, NODE, SINGLE) == unschedulable(text)


def test_every_unsatisfied_resource_is_a_reason() -> None:
    assert merged_status(Merged(None, admitted=False, unsatisfied=("cpu", "memory"))) == unschedulable(
        "Unsatisfied NUMA cpu", "Unsatisfied NUMA memory"
    )
    assert merged_status(Merged(0b1, admitted=True)) is None


def test_check_keeps_nothing_and_admit_keeps_for_its_cycle_alone() -> None:
    manager, state, other = TopologyManager([cpus()]), CycleState(), CycleState()
    manager.check(state, POD, NODE, SINGLE)
    assert manager.affinity(state, "n") is None
    assert manager.admit(state, POD, NODE, SINGLE) == NumaAffinity(0b10)
    assert (manager.affinity(state, "n"), manager.affinity(state, "m"), manager.affinity(other, "n")) == (NumaAffinity(0b10), None, None)


def test_what_is_kept_is_tried_again_but_not_computed_again() -> None:
    numa = cpus()
    manager, state = TopologyManager([numa]), CycleState()
    manager.admit(state, POD, NODE, SINGLE)
    numa.found = {"cpu": [FIRST]}
    assert manager.admit(state, POD, NODE, SINGLE) == NumaAffinity(0b10)
    numa.refusal = unschedulable("taken meanwhile")
    assert manager.admit(state, POD, NODE, SINGLE) == numa.refusal
    assert numa.tried == 3 * [NumaAffinity(0b10)]


def test_what_is_refused_is_not_kept() -> None:
    manager, state = TopologyManager([cpus(found={"cpu": []})]), CycleState()
    assert manager.admit(state, POD, NODE, SINGLE) == unschedulable("Unsatisfied NUMA cpu")
    assert manager.affinity(state, "n") is None


def test_keeping_in_a_copy_of_a_state_leaves_the_state_alone() -> None:
    manager, shared = TopologyManager([]), CycleState()
    manager.keep(shared, "m", NumaAffinity(0b1))
    mine = shared.clone()
    manager.keep(mine, "n", NumaAffinity(None))
    assert (manager.affinity(mine, "m"), manager.affinity(mine, "n")) == (NumaAffinity(0b1), NumaAffinity(None))
    assert manager.affinity(shared, "n") is None


def test_the_providers_of_a_profile_share_one_manager() -> None:
    class Other(Plugin):
        name = "Other"

    numa, gpus = cpus(), Provider("gpus", {})
    share_topology_manager([numa, Other(), gpus])
    assert numa.topology_manager is gpus.topology_manager
    assert numa.topology_manager.others(numa, POD) == [gpus]
