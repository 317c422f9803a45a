"""The exact CPUs and amounts that a pod gets on the one node that was chosen for it (nodenumaresource.md §6, §8, §11, §14).

Decides; `allocations.NumaState` keeps what is decided, and the annotations say it to everybody else.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpu_allocator import CpuShortage
from koordsched._core.hints import NumaView
from koordsched._core.numa_policy import CpuBindPolicy
from koordsched.api.koordinator.pods import (
    BIND_POLICY_TEXTS,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    request_format,
    resource_spec_text,
    resource_status_text,
)
from koordsched.framework.status import Status, unresolvable, unschedulable
from koordsched.plugins.nodenumaresource.reasons import (
    INVALID_TOPOLOGY,
    MISSING_ZONES,
    NO_TOPOLOGY_TO_RESERVE,
    NO_ZONES,
    SHORT_OF_CPUS,
    insufficient,
)
from koordsched.plugins.nodenumaresource.resolution import EffectivePolicy, binds_on, effective_policy, merged_policy, written_back
from koordsched.plugins.nodenumaresource.usage import Allocation

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.koordinator.pods import Amounts, PodNumaStatus, ResourceSpec
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.quantity_text import QuantityFormat
    from koordsched.cache.columns import Columns
    from koordsched.framework.cycle_state import Annotations
    from koordsched.plugins.nodenumaresource.allocations import NumaState
    from koordsched.plugins.nodenumaresource.arguments import Settings
    from koordsched.plugins.nodenumaresource.preparing import Prepared
    from koordsched.plugins.nodenumaresource.usage import NodeNuma

    Affinity = Callable[[NumaView], "int | Status | None"]
    """Chooses the NUMA nodes (a mask of ids) for a pod on a node with a NUMA policy; None: no particular ones."""

MILLI = 1000


class Terms:
    """How a pod stands to one node: whether it gets CPUs of its own (`binds`) and whether a NUMA policy holds (`aligned`)."""

    def __init__(
        self, node: NodeNuma, make_view: Callable[[int], NumaView], effective: EffectivePolicy, *, binds: bool, aligned: bool
    ) -> None:
        self.node = node
        self.binds = binds
        self.aligned = aligned
        self.effective = effective
        self._make_view = make_view

    @cached_property
    def view(self) -> NumaView:
        """Return what the node's NUMA nodes have for the pod; made when it is asked for, since most pods need none."""
        return self._make_view(self.node.index)


class Given(NamedTuple):
    """What a pod gets."""

    cpus: int
    amounts: Amounts


class Allocator:
    """Allocates for one profile's pods. Keeps nothing."""

    def __init__(self, numa: NumaState, settings: Settings, columns: Columns) -> None:
        self._numa = numa
        self._settings = settings
        self._columns = columns

    def terms(self, prepared: Prepared, node_name: str) -> Terms | Status:
        """Return what holds between the pod and the node."""
        node, demand = self._numa.node(node_name), prepared.demand
        policy = merged_policy(demand, node.numa_policy(pod_level=self._numa.pod_level))
        if isinstance(policy, Status):
            return policy
        binds = binds_on(demand, node.bind_policy)
        if isinstance(binds, Status):
            return binds
        make_view = partial(self.view, prepared)
        return Terms(node, make_view, effective_policy(demand, node.bind_policy), binds=binds, aligned=bool(policy))

    def view(self, prepared: Prepared, index: int) -> NumaView:
        """Return what the NUMA nodes of the node with this index have for the pod."""
        return NumaView(self._numa.table, prepared.request, index, self._settings.scoring)

    def allocate(self, prepared: Prepared, terms: Terms, choose: Affinity) -> Given | Status | None:
        """Return what the pod gets of the node; None: nothing in particular."""
        if prepared.designated is not None:
            return self._designated(prepared.designated, prepared, terms)
        if not (terms.binds or terms.aligned):
            return None
        if terms.binds and terms.node.cpus is None:
            return NO_TOPOLOGY_TO_RESERVE
        mask: int | Status | None = None
        if terms.aligned:
            mask = choose(terms.view) if terms.node.zones else MISSING_ZONES
        return mask if isinstance(mask, Status) else self.from_zones(prepared, terms, mask)

    def from_zones(self, prepared: Prepared, terms: Terms, mask: int | None) -> Given | Status:
        """Return what the pod gets of these NUMA nodes; None: of any, and no amounts are recorded."""
        amounts = {} if mask is None else self._split(terms, mask)
        if isinstance(amounts, Status):
            return amounts
        if not terms.binds:
            return Given(0, amounts)
        cpus = self._take(prepared, terms, amounts)
        return cpus if isinstance(cpus, Status) else Given(cpus, amounts)

    def _split(self, terms: Terms, mask: int) -> Amounts | Status:
        if not terms.node.zones:
            return NO_ZONES
        split = terms.view.distribute(mask)
        if split.short:
            return insufficient(split.short)
        if split.lacks_cpus:
            return SHORT_OF_CPUS
        names = self._columns.resource_names
        return {zone: {names[resource]: amount for resource, amount in amounts.items()} for zone, amounts in split.amounts.items()}

    def _take(self, prepared: Prepared, terms: Terms, amounts: Amounts) -> int | Status:
        node, demand, effective = terms.node, prepared.demand, terms.effective
        if node.cpus is None:
            return NO_TOPOLOGY_TO_RESERVE
        request = CpuRequest(
            demand.num_cpus,
            effective.policy,
            required=effective.required,
            exclusive=demand.exclusive,
            strategy=node.strategy(self._settings.strategy, evenly=self._settings.evenly),
        )
        by_zone = {zone: resources.get("cpu", 0) for zone, resources in amounts.items()} if amounts else None
        try:
            return node.cpus.allocate(request, node.reserved, numa_amounts=by_zone)
        except CpuShortage as shortage:
            return unschedulable(str(shortage))

    # Designated allocations

    def _designated(self, wanted: PodNumaStatus, prepared: Prepared, terms: Terms) -> Given | Status:
        """Return what is demanded if the node can give exactly that (D13: CPUs must be free, NUMA nodes have room)."""
        if terms.binds and terms.node.cpus is None:
            return unresolvable(INVALID_TOPOLOGY)
        if any(zone not in terms.node.zones for zone in wanted.amounts):
            return NO_ZONES
        mask = sum(1 << zone for zone in wanted.amounts) or None
        if not wanted.cpus:
            given = self.from_zones(prepared, terms, mask)
            return SHORT_OF_CPUS if isinstance(given, Given) and given.cpus else given
        amounts = {} if mask is None else self._split(terms, mask)
        if isinstance(amounts, Status):
            return amounts
        refusal = self._not_as_designated(wanted.cpus, prepared, terms, amounts)
        return Given(wanted.cpus, amounts) if refusal is None else refusal

    def _not_as_designated(self, cpus: int, prepared: Prepared, terms: Terms, amounts: Amounts) -> Status | None:
        node, topology = terms.node, terms.node.topology
        if not terms.binds or node.cpus is None or topology is None:
            return SHORT_OF_CPUS
        if cpus & ~node.cpus.free(node.reserved) or cpus.bit_count() != prepared.demand.num_cpus:
            return SHORT_OF_CPUS
        if any((cpus & topology.cpus_of_node(zone)).bit_count() != of.get("cpu", 0) // MILLI for zone, of in amounts.items()):
            return SHORT_OF_CPUS
        if not terms.effective.required:
            return None
        whole = terms.effective.policy is CpuBindPolicy.FULL_PCPUS
        fitting = topology.full_cores(cpus) if whole else topology.first_of_cores(cpus)
        text = f"insufficient CPUs to satisfy required cpu bind policy {BIND_POLICY_TEXTS[terms.effective.policy]}"
        return None if fitting == cpus else unschedulable(text)

    # What is kept of it

    def record(self, pod: PodInfo, prepared: Prepared, given: Given) -> Allocation:
        """Return the allocation as it is to be accounted: as it would be read back from the annotations."""
        return Allocation.of(pod, given.cpus, prepared.demand.spec.exclusive, given.amounts)


def annotations_for(pod: PodInfo, prepared: Prepared, terms: Terms, given: Given) -> Annotations:
    """Return what is written to the pod (§11). To be asked before what is given is accounted."""
    formats = _formats(pod, terms.node, given.amounts)
    written: Annotations = {RESOURCE_STATUS: resource_status_text(given.cpus, given.amounts, formats)}
    spec = _spec_text(prepared.demand.spec, terms.effective) if terms.binds else None
    if spec is not None:
        written[RESOURCE_SPEC] = spec
    return written


@lru_cache(maxsize=256)
def _spec_text(spec: ResourceSpec, effective: EffectivePolicy) -> str | None:
    """Return the resource-spec with what it left open filled in; None when it left nothing open."""
    filled = written_back(spec, effective)
    return None if filled is None else resource_spec_text(filled)


def _formats(pod: PodInfo, node: NodeNuma, amounts: Amounts) -> Callable[[int, str], QuantityFormat]:
    """Return how amounts are written: as the pod wrote its request, or as the zone wrote its amount where the pod empties it."""
    zones = {} if node.options is None else node.options.zones

    def written(zone: int, resource: str) -> QuantityFormat:
        left = node.zones.get(zone, {}).get(resource, 0) - node.allocated.get(zone, {}).get(resource, 0)
        if resource != "cpu" and zone in zones and amounts[zone][resource] == left:
            return zones[zone].formats[resource]
        return request_format(pod.pod, resource)

    return written
