"""NUMA nodes as nodenumaresource.md §5, §8, §9, §10 and §13 say it, in plain Python: every set of zones is tried, every combination merged.

With the repairs D1, D2, D8, D9 and D21, and two of our own where the reference refuses what it could give: bound CPUs are only split in
whole units, and if they do not fit in order of what is available, in order of what is usable. Resource ids: 1 is cpu (milli).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import NamedTuple

from koordsched._core.numa_facts import (
    CpuCounts,
    Hint,
    Machine,
    Merged,
    NumaNode,
    NumaPolicies,
    NumaStatus,
    NumaUsage,
    TopologyState,
    ZoneUsage,
)
from koordsched._core.numa_filter import NumaReason
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaExclusive, NumaTopologyPolicy

CPU = 1


@dataclass
class Scoring:
    weights: Mapping[int, int]
    numa_weights: Mapping[int, int]
    node_strategy: AllocateStrategy
    numa_strategy: AllocateStrategy
    only_requested: Sequence[int] = ()


@dataclass
class Pod:
    amounts: Mapping[int, int]
    terms: NumaPolicies
    names: Sequence[str]

    @property
    def cpu(self) -> int:
        return self.amounts.get(CPU, 0)

    @property
    def exclusive(self) -> int:
        if self.terms.exclusive == NumaExclusive.NONE and self.terms.numa_policy != NumaTopologyPolicy.NONE:
            return NumaExclusive.REQUIRED
        return self.terms.exclusive


@dataclass
class Host:
    """A node: what is known of it, what pods have of it, and what the node table says."""

    facts: NumaNode
    usage: NumaUsage
    allocatable: Mapping[int, int] = field(default_factory=dict)
    requested: Mapping[int, int] = field(default_factory=dict)

    def zone(self, numa: int) -> ZoneUsage:
        return self.usage.zones.get(numa, ZoneUsage())


class Refusal(NamedTuple):
    reason: NumaReason
    resources: tuple[str, ...] = ()
    summary: str = ""


PASS = Refusal(NumaReason.PASS)


def amplify(milli: int, ratio: float) -> int:
    return math.ceil(float(milli) * ratio) if ratio > 1 else milli


def subsets(members: Iterable[int]) -> list[tuple[int, ...]]:
    """Return all non-empty subsets, smaller ones first, then in lexicographic order."""
    members = sorted(members)
    return [subset for size in range(1, len(members) + 1) for subset in combinations(members, size)]


def mask_of(members: Iterable[int]) -> int:
    return sum(1 << member for member in set(members))


class View:
    """One pod looking at one node."""

    def __init__(self, host: Host, pod: Pod) -> None:
        self.host, self.pod, facts = host, pod, host.facts
        self.policy = pod.terms.numa_policy or facts.numa_policy
        self.bind = bool(pod.terms.bind_policy or (pod.cpu and facts.bind_policy))
        self.demanded = pod.terms.required_bind_policy or facts.bind_policy
        self.bind_policy = self.demanded or pod.terms.bind_policy
        whole_cores = self.demanded == CpuBindPolicy.FULL_PCPUS
        self.unit = 1000 * facts.cpus_per_core if whole_cores else 1000
        self.known = {resource for zone in facts.zones.values() for resource in zone} & set(pod.amounts)
        self.scored = {**pod.amounts, CPU: amplify(pod.cpu, facts.ratio) if self.bind else pod.cpu}

    def usable(self, counts: CpuCounts) -> int:
        if not self.demanded:
            return counts.free
        return counts.full if self.demanded == CpuBindPolicy.FULL_PCPUS else counts.first

    # Amounts

    def allocated(self, numa: int, resource: int) -> int:
        zone = self.host.zone(numa)
        bound = 1000 * zone.cpus.bound if resource == CPU and any(zone.allocated.values()) else 0
        return zone.allocated.get(resource, 0) - bound + amplify(bound, self.host.facts.ratio)

    def available(self, numa: int, resource: int) -> int:
        total = self.host.facts.zones[numa].get(resource, 0)
        left = max(0, total - self.allocated(numa, resource))
        return min(left, 1000 * self.usable(self.host.zone(numa).cpus)) if resource == CPU and self.demanded else left

    def room(self, numa: int, resource: int) -> int:
        left = self.available(numa, resource)
        if resource == CPU and self.bind:
            return min(left, 1000 * self.usable(self.host.zone(numa).cpus)) // self.unit * self.unit
        return left

    def split(self, zones: Sequence[int], resource: int, by_room: bool = False) -> tuple[dict[int, int], int]:
        """Return the share of each zone and what is left over."""
        key = self.room if by_room else self.available
        unit = self.unit if resource == CPU and self.bind else 1
        rest, shares = self.pod.amounts[resource], {}
        for i, numa in enumerate(sorted(zones, key=lambda numa: (key(numa, resource), numa))):
            ways = len(zones) - i
            shares[numa] = min(rest if ways == 1 else rest // unit // ways * unit, self.room(numa, resource))
            rest -= shares[numa]
        if rest and resource == CPU and self.bind and not by_room:
            return self.split(zones, resource, by_room=True)
        return shares, rest

    def trial(self, zones: Sequence[int]) -> tuple[dict[int, dict[int, int]], Refusal]:
        """Allocate from the zones: what each gives, or why not."""
        amounts: dict[int, dict[int, int]] = {}
        short, lacks_cpus = [], False
        for resource in sorted(self.known):
            shares, rest = self.split(zones, resource)
            for numa in (numa for numa in zones if shares[numa]):
                amounts.setdefault(numa, {})[resource] = shares[numa]
            enough = sum(self.available(numa, resource) for numa in zones) >= self.pod.amounts[resource]
            if rest and resource == CPU and self.bind and enough:
                lacks_cpus = True
            elif rest:
                short.append(self.pod.names[resource])
        if short:
            return {}, Refusal(NumaReason.INSUFFICIENT, tuple(sorted(short)))
        if self.bind and CPU not in self.known and (self.known or self.usable(self.host.usage.cpus) < self.pod.cpu // 1000):
            lacks_cpus = True
        return ({}, Refusal(NumaReason.NOT_ENOUGH_CPUS)) if lacks_cpus else (dict(sorted(amounts.items())), PASS)

    # Hints

    @property
    def machine(self) -> Machine:
        zones = self.host.facts.zones
        shared = mask_of(numa for numa in zones if self.host.zone(numa).status is NumaStatus.SHARED)
        single = mask_of(numa for numa in zones if self.host.zone(numa).status is NumaStatus.SINGLE)
        return Machine(self.policy, self.pod.exclusive, mask_of(zones), shared, single)

    def hints(self, scoring: Scoring) -> dict[str, list[Hint]]:
        feasible = [zones for zones in subsets(self.host.facts.zones) if self.trial(zones)[1] is PASS]
        hints = {}
        for resource in sorted(self.known):
            served = [zones for zones in feasible if all(self.available(numa, resource) for numa in zones)]
            narrowest = min((len(zones) for zones in served), default=0)
            hints[self.pod.names[resource]] = [
                Hint(
                    mask_of(zones),
                    self.mask_score(zones, scoring),
                    len(zones) == narrowest or self.policy == NumaTopologyPolicy.RESTRICTED,
                )
                for zones in served
            ]
        return hints

    def mask_score(self, zones: Sequence[int], scoring: Scoring) -> int:
        facts = self.host.facts.zones
        named = {resource for zone in facts.values() for resource in zone}
        total = {r: sum(facts[numa].get(r, 0) for numa in zones) for r in scoring.numa_weights if r in named}
        taken = {r: total[r] - sum(self.available(numa, r) for numa in zones) for r in total}
        by_zones = replace(scoring, weights=scoring.numa_weights, node_strategy=scoring.numa_strategy)
        return self.weigh(total, taken, by_zones)

    def weigh(self, capacity: Mapping[int, int], taken: Mapping[int, int], scoring: Scoring) -> int:
        score = weights = 0
        for resource, weight in scoring.weights.items():
            cap = capacity.get(resource, 0)
            asked = self.scored.get(resource, 0)
            if cap == 0 or (resource in scoring.only_requested and not asked):
                continue
            want = taken.get(resource, 0) + asked
            if scoring.node_strategy is AllocateStrategy.MOST:
                score += weight * (min(want, cap) * 100 // cap)
            else:
                score += weight * (0 if want > cap else (cap - want) * 100 // cap)
            weights += weight
        return score // weights if weights else 0

    def affinity(self, scoring: Scoring) -> Merged:
        return merge([self.hints(scoring)], self.machine)

    # Filter and Score

    def refusal(self, scoring: Scoring) -> Refusal:
        early = self._clash() or self._amplified_shortage() or self._binding_clash()
        if early is not None:
            return Refusal(early)
        if self.policy == NumaTopologyPolicy.NONE:
            return PASS
        if not self.host.facts.zones:
            return Refusal(NumaReason.MISSING_ZONES)
        every = sorted(self.host.facts.zones)
        if self.policy == NumaTopologyPolicy.BEST_EFFORT:
            return self.trial(every)[1]
        merged = self.affinity(scoring)
        if not merged.admitted:
            return Refusal(NumaReason.UNSATISFIED if merged.unsatisfied else NumaReason.UNALIGNED, merged.unsatisfied, merged.summary)
        chosen = every if merged.mask is None else [numa for numa in every if merged.mask >> numa & 1]
        return self.trial(chosen)[1]

    def _clash(self) -> NumaReason | None:
        if self.host.facts.numa_policy not in {NumaTopologyPolicy.NONE, self.policy}:
            return NumaReason.POLICY_MISMATCH
        return NumaReason.NOT_INTEGER if self.bind and self.pod.cpu % 1000 else None

    def _amplified_shortage(self) -> NumaReason | None:
        ratio = self.host.facts.checked_ratio
        if not self.pod.cpu or 0 <= ratio <= 1:
            return None
        if ratio < 0:
            return NumaReason.INVALID_RATIO
        if self.host.facts.topology is TopologyState.INVALID:
            return NumaReason.INVALID_TOPOLOGY
        bound, used = 1000 * self.host.usage.cpus.bound, self.host.requested.get(CPU, 0)
        if bound and used >= bound:
            used += amplify(bound, ratio) - bound
        wanted = amplify(self.pod.cpu, ratio) if self.bind else self.pod.cpu
        return NumaReason.AMPLIFIED_CPU if wanted > self.host.allocatable.get(CPU, 0) - used else None

    def _binding_clash(self) -> NumaReason | None:
        facts, required, cpus = self.host.facts, self.pod.terms.required_bind_policy, self.pod.cpu // 1000
        if not self.bind:
            return None
        if facts.topology is not TopologyState.VALID:
            return NumaReason.INVALID_TOPOLOGY
        if required and facts.bind_policy and required is not facts.bind_policy:
            return NumaReason.BIND_CONFLICT
        if self.demanded == CpuBindPolicy.FULL_PCPUS and cpus % facts.cpus_per_core:
            return NumaReason.NOT_WHOLE_CORES
        short = self.policy == NumaTopologyPolicy.NONE and self.usable(self.host.usage.cpus) < cpus
        return NumaReason.NOT_ENOUGH_CPUS if short else None

    def score(self, scoring: Scoring, joint: int | None = None) -> int:
        """Return the node's score. joint: the affinity (0: none) that was found together with another plugin's hints."""
        facts = self.host.facts
        if self._clash() or (self.bind and facts.topology is not TopologyState.VALID):
            return 0
        capacity, taken = dict(self.host.allocatable), dict(self.host.requested)
        bound = 1000 * self.host.usage.cpus.bound
        if self.policy == NumaTopologyPolicy.NONE:
            taken[CPU] = taken.get(CPU, 0) + (amplify(bound, facts.ratio) - bound if self.pod.cpu else 0)
            return self.weigh(capacity, taken, scoring)
        if self.policy != NumaTopologyPolicy.BEST_EFFORT:
            if joint is None and (not facts.zones or self.refusal(scoring) is not PASS):
                return 0
            mask = self.affinity(scoring).mask or 0 if joint is None else joint
            used = self.trial([numa for numa in facts.zones if mask >> numa & 1])[0] if mask else {}
            if used:
                named = {resource for zone in facts.zones.values() for resource in zone}
                capacity = {r: sum(facts.zones[numa].get(r, 0) for numa in used) for r in named}
                taken = {r: sum(self.allocated(numa, r) for numa in used) for r in named}
        if self.bind:
            taken[CPU] = amplify(bound, facts.ratio)
        return self.weigh(capacity, taken, scoring)


# Merging


def merge(providers: Sequence[Mapping[str, Sequence[Hint] | None]], machine: Machine) -> Merged:
    """Merge by looking at every combination of one hint a list."""
    lists: list[list[tuple[Hint, bool]]] = []  # hints, and whether they are satisfied
    unsatisfied, summary = [], []
    for provider in providers:
        if not provider:
            lists.append([(Hint(None, 0, True), True)])
        for name, hints in provider.items():
            if hints is None:
                lists.append([(Hint(None, 0, True), True)])
            elif not hints:
                lists.append([(Hint(None, 0, False), False)])
                unsatisfied.append(name)
            else:
                lists.append([(hint, True) for hint in hints if not (hint.mask or 0) & ~machine.zones])
                summary.append(summary_of(name, hints))
    if machine.policy == NumaTopologyPolicy.BEST_EFFORT:
        best, satisfied, _ = _best_combination(lists, machine)
        return Merged(best if satisfied else machine.zones, admitted=True)
    if unsatisfied:
        return Merged(None, admitted=False, unsatisfied=tuple(sorted(unsatisfied)))
    single = machine.policy == NumaTopologyPolicy.SINGLE_NUMA_NODE
    if single:
        lists = [[(h, ok) for h, ok in hints if h.preferred and (h.mask is None or h.mask.bit_count() == 1)] for hints in lists]
    best, _, preferred = _best_combination(lists, machine)
    if not preferred:
        return Merged(None, admitted=False, summary=("," if single else " & ").join(sorted(summary)))
    return Merged(None if single and best == machine.zones else best, admitted=True)


def _best_combination(lists: Sequence[Sequence[tuple[Hint, bool]]], machine: Machine) -> tuple[int, bool, bool]:
    """Return the best mask, whether it satisfies, and whether it is preferred."""
    found = [((True, machine.zones.bit_count(), 0, machine.zones, False), machine.zones)]
    for combination in product(*lists):
        masks = [hint.mask for hint, _ in combination if hint.mask is not None]
        mask = machine.zones
        for other in masks:
            mask &= other
        if not mask:
            continue
        satisfied = all(ok for _, ok in combination) and all(other.bit_count() == mask.bit_count() for other in masks)
        preferred = all(hint.preferred for hint, _ in combination) and len(set(masks)) < 2
        preferred = preferred and not violates(mask, machine)
        score = sum(hint.score for hint, _ in combination if hint.mask == mask)
        found.append(((not preferred, mask.bit_count(), -score, mask, not satisfied), mask))
    (refused, _, _, _, dissatisfied), best = min(found)
    return best, not dissatisfied, not refused


def violates(mask: int, machine: Machine) -> bool:
    if machine.exclusive != NumaExclusive.REQUIRED:
        return False
    return bool(mask & (machine.shared if mask.bit_count() == 1 else machine.single))


def mask_text(mask: int) -> str:
    width = max((shift + 2 for shift in range(2, 64, 2) if mask > 1 << shift), default=2)
    return f"{mask:b}".zfill(width)


def summary_of(name: str, hints: Sequence[Hint]) -> str:
    prefer = " ".join(mask_text(hint.mask) for hint in hints if hint.preferred and hint.mask is not None)
    among = " ".join(mask_text(hint.mask) for hint in hints if hint.mask is not None)
    return f"{name} prefer [{prefer}] among [{among}]"
