"""NUMA kernels equal their plain model, refuse nothing that an exhaustive search could place, and what they split can be bound.

KOORDSCHED_NUMA_EXAMPLES is the number of examples of each property (default 150).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from support.models import numa as model
from support.models.numa import CPU, Host, Pod, View
from support.numa_columns import NAMES, Chance, Columns, request_of, scoring_of

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpu_allocator import NodeCpus
from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched._core.hints import NumaView
from koordsched._core.numa import NumaRequest
from koordsched._core.numa_facts import (
    CpuCounts,
    Hint,
    Machine,
    NumaNode,
    NumaPolicies,
    NumaUsage,
    Restored,
    TopologyState,
    ZoneUsage,
)
from koordsched._core.numa_filter import NumaReason, filter_numa, reason_of, resources_of
from koordsched._core.numa_merge import merge_hints
from koordsched._core.numa_score import score_numa
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaExclusive, NumaTopologyPolicy

tried = settings(
    max_examples=int(os.environ.get("KOORDSCHED_NUMA_EXAMPLES", "150")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

seeds = st.integers(0, 1 << 32)  # an example is drawn from a seed: ten times as fast as piece by piece, and small enough to read as it is


def refusal(columns: Columns, request: NumaRequest, code: int) -> model.Refusal:
    reason = reason_of(code)
    return model.Refusal(reason, resources_of(request, code), columns.table.summary_of(code) if reason is NumaReason.UNALIGNED else "")


@tried
@given(seeds)
def test_filter_refuses_what_the_model_refuses_for_the_same_reason(seed: int) -> None:
    cluster, pod, scoring = Chance(seed).case(hosts=3)
    columns, request = Columns(cluster), request_of(pod)
    codes = filter_numa(columns.table, request, columns.rows)
    for host, code in zip(cluster, codes.tolist(), strict=True):
        expected = View(host, pod).refusal(scoring)
        event(expected.reason.name)
        assert refusal(columns, request, code) == expected


@tried
@given(seeds)
def test_scores_are_those_of_the_model(seed: int) -> None:
    cluster, pod, scoring = Chance(seed).case(hosts=3)
    columns, request = Columns(cluster), request_of(pod)
    passing = columns.rows[filter_numa(columns.table, request, columns.rows) == 0]
    scores = score_numa(columns.table, request, scoring_of(scoring), passing)
    assert scores.tolist() == [View(cluster[row], pod).score(scoring) for row in passing.tolist()]


@tried
@given(seeds)
def test_hints_affinity_and_distribution_are_those_of_the_model(seed: int) -> None:
    (host,), pod, scoring = Chance(seed).case()
    assume(host.facts.zones)
    view, twin = NumaView(Columns([host]).table, request_of(pod), 60, scoring_of(scoring)), View(host, pod)
    assume(not twin.bind or pod.cpu % twin.unit == 0)  # else Filter refuses it
    assert (view.bind, view.required, view.cpus, view.machine) == (twin.bind, bool(twin.demanded), pod.cpu // 1000, twin.machine)
    assert view.hints() == twin.hints(scoring)
    if twin.policy != NumaTopologyPolicy.NONE:
        assert view.affinity() == twin.affinity(scoring)
        assert view.affinity() == merge_hints([view.hints()], view.machine)
    for zones in model.subsets(host.facts.zones):
        found, (expected, why) = view.distribute(model.mask_of(zones)), twin.trial(zones)
        assert (found.amounts, found.short, found.lacks_cpus) == (expected, why.resources, why.reason is NumaReason.NOT_ENOUGH_CPUS)


@tried
@given(seeds)
def test_what_is_given_back_counts_as_if_it_had_never_been_taken(seed: int) -> None:
    chance = Chance(seed)
    (host,), pod, scoring = chance.case()
    reusable = {numa: chance.amounts() for numa in host.facts.zones}
    cpus = NumaUsage(chance.counts(), {numa: ZoneUsage({}, chance.counts()) for numa in host.facts.zones})
    assume(host.facts.ratio <= 1)  # else what is bound is amplified before anything is given back
    after = NumaUsage(
        cpus.cpus,
        {
            numa: ZoneUsage(
                {r: max(0, used - reusable[numa].get(r, 0)) for r, used in host.zone(numa).allocated.items()},
                cpus.zones[numa].cpus,
                host.zone(numa).status,
            )
            for numa in host.facts.zones
        },
    )
    twin = View(Host(host.facts, after, {}, {}), pod)
    assume(not twin.bind or pod.cpu % twin.unit == 0)
    view = NumaView(Columns([host]).table, request_of(pod), 60, scoring_of(scoring), Restored(reusable, cpus))
    assert view.hints() == twin.hints(scoring)


masks_of_hints = st.lists(
    st.builds(Hint, st.integers(1, 15), st.integers(0, 3), st.booleans()), max_size=6, unique_by=lambda hint: hint.mask
)
providers = st.lists(
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.one_of(st.none(), masks_of_hints), max_size=2), min_size=1, max_size=2
)


@tried
@given(providers, st.sampled_from(list(NumaTopologyPolicy)[1:]), st.sampled_from(NumaExclusive), st.tuples(*3 * [st.integers(1, 15)]))
def test_merged_hints_are_the_best_of_all_combinations(
    hints: list[dict[str, list[Hint] | None]], policy: NumaTopologyPolicy, exclusive: NumaExclusive, sets: tuple[int, int, int]
) -> None:
    zones, shared, single = sets
    machine = Machine(policy, exclusive, zones, shared & zones, single & ~shared & zones)
    assert merge_hints(hints, machine) == model.merge(hints, machine)


@tried
@given(seeds)
def test_no_request_is_refused_that_some_set_of_zones_could_serve(seed: int) -> None:
    (host,), pod, scoring = Chance(seed).case(most_zones=8)
    view = View(host, pod)
    assume(host.facts.zones and view.known and view.policy != NumaTopologyPolicy.NONE)
    columns = Columns([host])
    code = int(filter_numa(columns.table, request_of(pod), columns.rows)[0])
    assume(
        reason_of(code)
        in {NumaReason.PASS, NumaReason.INSUFFICIENT, NumaReason.NOT_ENOUGH_CPUS, NumaReason.UNSATISFIED, NumaReason.UNALIGNED}
    )
    feasible = [zones for zones in model.subsets(host.facts.zones) if view.trial(zones)[1] is model.PASS]
    if view.policy != NumaTopologyPolicy.BEST_EFFORT:
        feasible = [zones for zones in feasible if all(view.available(numa, r) for numa in zones for r in view.known)]
        feasible = [zones for zones in feasible if not model.violates(model.mask_of(zones), view.machine)]
    if view.policy == NumaTopologyPolicy.SINGLE_NUMA_NODE:
        feasible = [zones for zones in feasible if len(zones) == 1]
    assert (code == 0) == bool(feasible)
    chosen = NumaView(columns.table, request_of(pod), 60, scoring_of(scoring)).affinity().mask
    if feasible and view.policy == NumaTopologyPolicy.RESTRICTED:
        narrowest = [zones for zones in feasible if len(zones) == len(feasible[0])]
        best = max(narrowest, key=lambda zones: (view.mask_score(zones, scoring), -model.mask_of(zones)))
        assert chosen == model.mask_of(best)


class Bound:
    """A machine whose zones are what its CPUs say, with some of them reserved and some bound by pods that say nothing of their zones."""

    def __init__(self, cpus: NodeCpus, topology: CpuTopology, reserved: int) -> None:
        self.cpus, self.topology, self.reserved = cpus, topology, reserved
        self.free = cpus.free(reserved)
        self.full, self.first = topology.full_cores(self.free), topology.first_of_cores(self.free)

    def counts(self, within: int) -> CpuCounts:
        return CpuCounts(*((cpus & within).bit_count() for cpus in (self.cpus.bound, self.free, self.full, self.first)))


@tried
@given(seeds)
def test_what_is_split_over_zones_can_be_bound_there(seed: int) -> None:
    chance = Chance(seed)
    sockets, nodes, cores, threads = chance.randint(1, 2), chance.randint(1, 4), chance.randint(1, 5), chance.randint(1, 2)
    total = sockets * nodes * cores * threads
    places = [CpuPlace(i, i // threads, i // (nodes * cores * threads), i // (cores * threads)) for i in range(total)]
    topology = CpuTopology(place for place in places if chance.often() or place.id == 0)  # some threads are offline
    cpus = NodeCpus(topology)
    cpus.add(chance.getrandbits(total) & chance.getrandbits(total), 0)
    machine = Bound(cpus, topology, chance.getrandbits(total) & chance.getrandbits(total) & chance.getrandbits(total))
    policy, bind, required = chance.choice(list(NumaTopologyPolicy)[1:]), chance.choice(list(CpuBindPolicy)[1:]), chance.random() < 0.5
    zones = {numa: {CPU: chance.randint(0, 1100 * cores * threads)} for numa in range(sockets * nodes)}
    facts = NumaNode(TopologyState.VALID, topology.cpus_per_core, zones, numa_policy=policy)
    usage = NumaUsage(machine.counts(topology.all), {numa: ZoneUsage({}, machine.counts(topology.cpus_of_node(numa))) for numa in zones})
    wanted = chance.randint(1, max(1, total // 2))
    pod = Pod({CPU: 1000 * wanted}, NumaPolicies(bind, bind if required else CpuBindPolicy.NONE, policy, NumaExclusive.PREFERRED), NAMES)
    columns = Columns([Host(facts, usage, {CPU: 1000 * total})])
    code = int(filter_numa(columns.table, request_of(pod), columns.rows)[0])
    event(reason_of(code).name)
    if code:
        return
    view = NumaView(columns.table, request_of(pod), 60, scoring_of(chance.scoring()))
    mask = view.affinity().mask
    shares = None if mask is None else {numa: split[CPU] for numa, split in view.distribute(mask).amounts.items()}
    strategy = chance.choice(list(AllocateStrategy))
    taken = cpus.allocate(CpuRequest(wanted, bind, required=required, strategy=strategy), machine.reserved, 0, (), shares)
    assert taken.bit_count() == wanted
    assert taken & ~machine.free == 0
    for numa, share in (shares or {}).items():
        assert 1000 * (taken & topology.cpus_of_node(numa)).bit_count() == share
