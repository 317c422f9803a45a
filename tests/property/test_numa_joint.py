"""CPUs and another plugin's devices: kernels decide about all rows as `TopologyManager.check` does about each in Python.

The devices are tables of random masks; the zones those of `test_numa_hints`. What is compared is the whole answer: the affinity, or every
reason in its words. KOORDSCHED_NUMA_EXAMPLES is the number of examples of each property (default 300).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.builders import pod
from support.models.numa import Host, Pod, View
from support.numa_columns import Chance, Columns, request_of, scoring_of

from koordsched._core.hint_source import HintTable, NumaHintSource
from koordsched._core.hints import NumaView
from koordsched._core.numa_facts import Hint, HintAnswer, NumaStatus
from koordsched._core.numa_filter import NumaReason, filter_numa, reason_of, source_code_of
from koordsched._core.numa_joint import KeptAffinities, aligned_rows, joint_affinity, joint_masks
from koordsched._core.numa_score import score_numa
from koordsched.api.koordinator.policies import NumaTopologyPolicy
from koordsched.api.podinfo import PodInfo
from koordsched.cache import columns as names
from koordsched.cache.nodes import NodeInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Status, unresolvable, unschedulable
from koordsched.framework.topologymanager import NumaAffinity, NumaHintProvider, TopologyManager
from koordsched.plugins.nodenumaresource.reasons import SHORT_OF_CPUS, explain, insufficient

STRICT = (NumaTopologyPolicy.RESTRICTED, NumaTopologyPolicy.SINGLE_NUMA_NODE)
MERGED = {NumaReason.PASS, NumaReason.UNSATISFIED, NumaReason.UNALIGNED, NumaReason.NOT_ENOUGH_CPUS}
KINDS = ("gpu", "rdma", "fpga")
POD = pod("p").info()
seeds = st.integers(0, 1 << 32)
tried = settings(
    max_examples=int(os.environ.get("KOORDSCHED_NUMA_EXAMPLES", "300")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)


@dataclass(eq=False)
class Zones(NumaHintProvider):
    """What the zones of one node have, asked through its view."""

    view: NumaView
    name: str = "zones"

    def wants(self, pod: PodInfo) -> bool:
        return True

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        return self.view.hints()

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        if affinity.mask is None and self.view.hints():
            return None  # CPUs may be any of the node, which has at least those of its zone
        split = self.view.distribute(affinity.mask or 0)
        if split.short:
            return insufficient(split.short)
        return SHORT_OF_CPUS if split.lacks_cpus else None


@dataclass(eq=False)
class Devices(NumaHintProvider):
    """Devices of one node, as its row of a HintTable has them."""

    answer: HintAnswer
    name: str = "devices"

    def wants(self, pod: PodInfo) -> bool:
        return True

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        if self.answer.code:
            return refused_with(self.answer.code)
        narrowest = min((mask.bit_count() for mask, _ in self.answer.hints), default=0)
        hints = [Hint(mask, score, mask.bit_count() == narrowest) for mask, score in self.answer.hints]
        return {name: hints for name in KINDS if name in self.answer.named}

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        code = self.answer.refused.get(affinity.mask or 0, 0)
        return refused_with(code) if code else None


def refused_with(code: int) -> Status:
    texts = [f"devices refuse {code}", "and more"][: 1 + code % 2]
    return unresolvable(*texts) if code % 3 else unschedulable(*texts)


class JointCase:
    """Some hosts with devices, a pod, and what is decided about it."""

    def __init__(self, seed: int, most_zones: int = 4) -> None:
        chance = Chance(seed)
        self.hosts, self.pod, self.scoring = chance.case(hosts=4, most_zones=most_zones)
        if chance.often():  # most nodes have a policy that Filter aligns under
            policy = chance.choice(STRICT)
            self.hosts = [
                Host(host.facts._replace(numa_policy=policy), host.usage, host.allocatable, host.requested) for host in self.hosts
            ]
            self.pod = Pod(self.pod.amounts, self.pod.terms._replace(numa_policy=policy if chance.often() else 0), self.pod.names)
        self.answers = {row: answer_of(chance, host) for row, host in enumerate(self.hosts) if chance.often()}
        self.columns, self.request = Columns(self.hosts), request_of(self.pod)
        self.scorer = scoring_of(self.scoring)
        self.source: NumaHintSource = HintTable(KINDS, self.answers)

    @property
    def rows(self) -> np.ndarray:
        return self.columns.rows

    def codes(self, kept: KeptAffinities | None = None) -> list[int]:
        found: list[int] = filter_numa(self.columns.table, self.request, self.rows, self.source, self.scorer, kept).tolist()
        return found

    def masks(self, kept: KeptAffinities | None = None) -> list[int]:
        found = joint_masks(self.columns.table, self.request, self.scorer, self.rows, self.source, kept)
        return [0] * len(self.rows) if found is None else found.tolist()

    def checked(self, row: int) -> NumaAffinity | Status | None:
        """Return what the manager says in Python of a row under a strict policy, or None of any other."""
        view = NumaView(self.columns.table, self.request, self.columns.indexes[row], self.scorer)
        if view.machine.policy not in STRICT:
            return None
        manager = TopologyManager([Zones(view), Devices(self.answers.get(row, HintAnswer()))])
        return manager.check(CycleState(), POD, NodeInfo("n", 0, names.Columns()), view.machine)

    def status(self, code: int) -> Status:
        of_devices = source_code_of(code)
        if not of_devices:
            return explain(code, self.columns.table, self.request)
        refusal = refused_with(of_devices)
        return unschedulable(refusal.message) if reason_of(code) is NumaReason.HINTS_REFUSED else refusal


def answer_of(chance: Chance, host: Host) -> HintAnswer:
    """Draw what a host's devices are like: mostly some of its own NUMA nodes, now and then others; mostly without a contradiction."""
    if chance.random() < 0.1:
        return HintAnswer(code=chance.randint(1, 100))
    ids = sorted(host.facts.zones) or [0]
    if not chance.often():
        ids = sorted({*ids[:7], chance.randint(0, 7)})
    every = [sum(1 << numa for numa in chosen) for chosen in subsets(ids)]
    some = [mask for mask in every if chance.random() < 0.6] or [every[-1]]
    refused = {mask: chance.randint(1, 100) for mask in [0, *every] if chance.random() < (0.05 if chance.often() else 0.5)}
    if chance.random() < 0.2:
        return HintAnswer(refused=refused)
    named = frozenset(chance.sample(KINDS, chance.randint(1, 3)))
    return HintAnswer(named, [(mask, chance.choice([0, 0, 500])) for mask in some], refused=refused)


def subsets(ids: Sequence[int]) -> list[tuple[int, ...]]:
    return [chosen for size in range(1, len(ids) + 1) for chosen in combinations(ids, size)]


def hold_that_kernels_decide_as_the_manager(case: JointCase) -> None:
    alone = filter_numa(case.columns.table, case.request, case.rows).tolist()
    codes, masks = case.codes(), case.masks()
    aligned = aligned_rows(case.columns.table, case.request, case.rows)
    for row, code in enumerate(codes):
        expected = case.checked(row)
        if reason_of(alone[row]) not in MERGED or expected is None:
            assert code == alone[row]  # it never comes to hints
            assert masks[row] == 0 or expected is not None
            continue
        assert aligned is not None
        assert aligned[row]
        event(reason_of(code).name)
        if isinstance(expected, Status):
            assert case.status(code) == expected
            assert masks[row] == 0
        else:
            assert (code, masks[row]) == (0, expected.mask or 0)
        assert joint_affinity(case.columns.table, case.request, case.scorer, row, case.source) == (code, masks[row])


@tried
@given(seeds)
def test_kernels_decide_as_the_topology_manager_does_in_python(seed: int) -> None:
    hold_that_kernels_decide_as_the_manager(JointCase(seed))


@settings(tried, max_examples=60)
@given(seeds)
def test_kernels_decide_so_on_machines_of_eight_numa_nodes(seed: int) -> None:
    hold_that_kernels_decide_as_the_manager(JointCase(seed, most_zones=8))


@tried
@given(seeds)
def test_scores_are_those_of_the_affinity_that_was_found(seed: int) -> None:
    case = JointCase(seed)
    codes, masks = case.codes(), case.masks()
    passing = np.array([row for row, code in enumerate(codes) if code == 0], np.int32)
    scores = score_numa(case.columns.table, case.request, case.scorer, passing, case.source)
    for row, score in zip(passing.tolist(), scores.tolist(), strict=True):
        view = View(case.hosts[row], case.pod)
        assert score == view.score(case.scoring, masks[row] if view.policy in STRICT else None)


@tried
@given(seeds)
def test_what_is_kept_of_filter_is_what_score_would_find(seed: int) -> None:
    case, kept = JointCase(seed), KeptAffinities()
    plain = case.codes(), case.masks()
    assert (case.codes(kept), case.masks(kept)) == plain
    passing = np.array([row for row, code in enumerate(plain[0]) if code == 0], np.int32)
    table, nodes = case.columns.table, case.columns.nodes
    found = [score_numa(table, case.request, case.scorer, passing, case.source, each).tolist() for each in (None, kept)]
    assert found[0] == found[1]
    # Rows that change are looked at anew, and so is everything for another pod.
    chance = Chance(seed + 1)
    case.answers = {row: answer_of(chance, host) for row, host in enumerate(case.hosts)}
    other: NumaHintSource = HintTable(KINDS, case.answers)
    assert isinstance(case.source, HintTable)
    case.source = other
    assert (case.masks(kept), case.codes(kept), case.masks(kept)) == (case.masks(), case.codes(), case.masks())
    for host, at in zip(case.hosts, case.columns.indexes, strict=True):
        usage = host.usage._replace(zones={numa: zone._replace(status=NumaStatus.IDLE) for numa, zone in host.usage.zones.items()})
        table.set_usage(at, usage)
    for row in range(len(case.hosts)):
        nodes.mark(row, 1)
    assert case.masks(kept) == case.masks()
