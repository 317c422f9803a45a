"""DeviceShare: the GPUs, RDMA interfaces, FPGAs and other accelerators that a pod gets, whole or in part.

Filter, Score and the allocation on the chosen node run one allocator (`_core.device_*`) over what `state` keeps of every node, so Reserve
takes what Filter has found. A node that no Device describes passes, and nothing is allocated there: the kubelet's device plugins decide.
Reference: plugins/deviceshare of Koordinator v1.8.0 (deviceshare.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from koordsched._core.device_allocation import allocate, score_node
from koordsched._core.device_facts import DEVICE_RESOURCE_NAMES, DEVICE_TYPE_NAMES
from koordsched._core.device_filter import filter_devices, score_devices
from koordsched._core.device_hints import DeviceHints
from koordsched._core.device_removals import DeviceRemovals
from koordsched._core.device_reserved import ReservedDevices, allocate_left
from koordsched._core.device_score import DeviceScoring
from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_annotations import (
    DEVICE_ALLOCATED,
    AllocatedDevice,
    AllocatedVirtualFunction,
    device_allocations_text,
)
from koordsched.api.koordinator.reservation_links import is_ignoring_reservations
from koordsched.api.koordinator.reserve_pods import RESIZE_ALLOCATABLE
from koordsched.cluster.port import ClusterError, Forbidden, NotFound, Ref
from koordsched.config.args import MOST_ALLOCATED
from koordsched.config.extension_points import FILTER
from koordsched.framework.cycle_state import annotate
from koordsched.framework.interface import (
    RESIZE_GATE,
    FilterNodesPlugin,
    Normalize,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservationFilterPlugin,
    ReservePlugin,
    ResizePodPlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.reservation_filters import tried_reservation
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.framework.status import SKIP, PluginError, Status, error, unschedulable
from koordsched.framework.topologymanager import NumaHintProvider
from koordsched.log import get_logger, verbosity
from koordsched.plugins.deviceshare.adaptation import GATE, DevicePluginAdapter, written_before
from koordsched.plugins.deviceshare.allocated import PodDevices
from koordsched.plugins.deviceshare.check import device_state
from koordsched.plugins.deviceshare.endpoint import describe
from koordsched.plugins.deviceshare.gauges import register_gauges
from koordsched.plugins.deviceshare.node_devices import RESOURCES, held_of
from koordsched.plugins.deviceshare.numa_hints import designated_hints, hints_of_row
from koordsched.plugins.deviceshare.planning import follow_planning
from koordsched.plugins.deviceshare.pod_demand import DeviceDemand, DeviceDemandCompiler, asks_for_devices, sign
from koordsched.plugins.deviceshare.queueing_hints import DeviceQueueingHints
from koordsched.plugins.deviceshare.reasons import UNSEEN_DEVICE, explain
from koordsched.plugins.deviceshare.reserved import (
    demands_reservation,
    held_amounts,
    missing_of,
    of_reservation,
    resize_text,
    way_to_include,
)
from koordsched.plugins.deviceshare.templates import shared_templates

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from koordsched._core.device_facts import Allocated
    from koordsched._core.device_request import DeviceAdjustment
    from koordsched._core.device_reserved import LeftDevices
    from koordsched._core.numa_facts import Hint
    from koordsched._core.pod_index import PodIndex
    from koordsched._core.removal_filter import RemovalFilter
    from koordsched.api.kinds import Kind
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.config.koordinator_args import DeviceShareArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Flags, Scores
    from koordsched.framework.topologymanager import Aligned, NumaAffinity
    from koordsched.queue.events import EventHint

log = get_logger(__name__)

PRE_FILTER_STATE = "PreFilterDeviceShare"  # the DeviceDemand of pods like this one
RESERVE_STATE = "ReserveDeviceShare"  # the PodDevices that this pod was allocated
NOT_FOUND = 404
RESERVE_VERBOSITY = 4
"""From this -v on, each allocation is logged with all that its node has."""


class DeviceShare(
    PreFilterPlugin,
    FilterNodesPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ReservePlugin,
    ResizePodPlugin,
    ReservationFilterPlugin,
    PreBindPlugin,
    NumaHintProvider,
    RoutesPlugin,
):
    name = "DeviceShare"
    takes_time = False
    pre_binds_reservations = True
    normalize = Normalize.DEFAULT
    follows_pods = True
    late_kinds: Sequence[Kind] = (DEVICE,)

    def __init__(self, args: DeviceShareArgs, handle: Handle) -> None:
        self._cache = handle.cache
        self._cluster = handle.cluster
        self._state = device_state(handle)
        self._table = self._state.table
        self.reads = self._state.change
        templates = args.gpu_shared_resource_templates_config
        found = shared_templates(handle, templates.config_map_namespace, templates.config_map_name) if templates.matched_resources else None
        self._compiler = DeviceDemandCompiler(args, self._table, found)
        strategy = args.scoring_strategy
        weights = {RESOURCES[spec.name]: spec.weight for spec in strategy.resources if spec.name in RESOURCES}
        self._scoring = DeviceScoring(weights, most=strategy.type == MOST_ALLOCATED)
        self._aligns = not args.disable_device_numa_topology_alignment
        self._resizes = handle.gates[RESIZE_GATE]
        self._adapter = DevicePluginAdapter(handle) if handle.gates[GATE] else None
        follow_planning(handle)
        register_gauges(handle, self._table)

    def sign(self, pod: PodInfo) -> Hashable:
        return sign(pod)

    def has_version(self, pod: PodInfo) -> bool:
        return self._compiler.may_need_template(pod)

    def version(self, pod: PodInfo) -> Hashable:
        return self._compiler.templates_version

    def needs_late_kinds(self, pod: PodInfo) -> bool:
        return asks_for_devices(pod)

    def reads_rows_alone(self, pod: PodInfo) -> bool:
        return True

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        demand = self._compiler.compile(pod)
        if demand is None:
            return SKIP
        if isinstance(demand, Status):
            return demand
        state.write(PRE_FILTER_STATE, demand)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        aligned = self.topology_manager.aligned(self, state, pod, nodes)
        demand: DeviceDemand = state.read(PRE_FILTER_STATE)
        codes = self._filter(demand, nodes, aligned)
        if self._cache.credits.shown is not None and self._state.given and demand.adjustment is None and demands_reservation(pod):
            self._name_reservations(nodes, codes)
        return codes

    def _name_reservations(self, nodes: Nodes, codes: Codes) -> None:
        """Let codes say that reservations lack devices, where those of a pod that demands one hold some: a view hides these."""
        shown = self._cache.credits.shown
        assert shown is not None
        rows = [row for uid in shown.placeholders if self._state.is_reserved(uid) and (row := self._cache.row_of(uid)) is not None]
        for i in np.flatnonzero(np.isin(nodes.rows, np.array(rows, np.int32)) & (codes != 0)).tolist():
            codes[i] = of_reservation(int(codes[i]))

    def _filter(self, demand: DeviceDemand, nodes: Nodes, aligned: Aligned | None = None) -> Codes:
        designated = demand.adjustment is not None
        return filter_devices(self._table, demand.request, nodes.rows, demand.adjustment, reserve=designated, aligned=aligned)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return explain(code, self._table)

    def affected_by_removals(self, state: CycleState, pod: PodInfo, nodes: Nodes, codes: Codes) -> Flags | None:
        return self._state.holding(nodes.rows)

    def removal_filter(self, state: CycleState, pod: PodInfo, victims: PodIndex) -> RemovalFilter | None:
        demand = self._demand(state, pod)
        if demand is None or demand.adjustment is not None:
            return None
        manager, holdings = self.topology_manager, self._state.holdings(victims)
        return DeviceRemovals(holdings, demand.request, manager.alignment(self, state, pod), is_followed=manager.is_followed(self, pod))

    def _demand(self, state: CycleState, pod: PodInfo) -> DeviceDemand | None:
        """Return the pod's demand, None without devices. It is compiled here where the profile does not run the plugin's PreFilter."""
        found: DeviceDemand | None = state.read(PRE_FILTER_STATE)
        if found is not None or not asks_for_devices(pod):
            return found
        demand = self._compiler.compile(pod)
        if isinstance(demand, Status):
            raise PluginError(demand.with_plugin(self.name), FILTER.label)
        return demand

    def _passes(self, pod: PodInfo, node_name: str) -> bool:
        """Answer whether the plugin's Filter passes the pod on one node now."""
        node, demand = self._cache.node(node_name), self._compiler.compile(pod)
        if node is None or isinstance(demand, Status):
            return False
        return demand is None or not self._filter(demand, self._cache.select(np.array([node.row], np.int32)))[0]

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if asks_for_devices(pod) else SKIP

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        demand = self._demand(state, pod)
        if demand is None:
            return None
        masks = self.topology_manager.masks(self, state, pod, nodes)
        return score_devices(self._table, demand.request, self._scoring, nodes.rows, masks)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Allocate the pod's devices, within its NUMA affinity."""
        demand = self._demand(state, pod)
        if demand is None:
            return None
        node = self._cache.node(node_name)
        if node is None:
            return error(f'node "{node_name}" not found')
        placeholder = self._cache.credits.drawn_from(pod.uid)
        adopted = list(self._cache.credits.drawers(pod.uid)) if pod.reservation is not None else []
        if adopted:
            code = self._give_around(state, pod, demand, node, adopted)
        elif placeholder is not None:
            code = self._give_reserved(state, pod, demand, node, placeholder)
        elif is_ignoring_reservations(pod.pod.metadata.labels):
            with self._state.without_reservations(node_name):
                code = self._give(state, pod, demand, node, demand.adjustment)
        else:
            code = self._give(state, pod, demand, node, demand.adjustment)
        return explain(code, self._table, node_name) if code else None

    def _give_reserved(self, state: CycleState, pod: PodInfo, demand: DeviceDemand, node: NodeInfo, placeholder: str) -> int:
        """Allocate with what the pod's reservation has left; without it if that fails, unless the pod demands it."""
        self._state.lend(placeholder)
        try:
            found = self._find_reserved(state, demand, node, placeholder)
        finally:
            self._state.share(placeholder)
        if isinstance(found, int):
            return of_reservation(found) if demands_reservation(pod) else self._give(state, pod, demand, node, None)
        return self._keep(state, pod, demand, node, found)

    def _find_reserved(self, state: CycleState, demand: DeviceDemand, node: NodeInfo, placeholder: str) -> int | Sequence[Allocated]:
        """Return devices that the reservation, which lends, lets the pod have, the best way first; or why there are none."""
        left = self._state.compiled(placeholder)
        if left is None or demand.adjustment is not None:
            return self._find(state, demand, node, demand.adjustment)
        return allocate_left(self._table, demand.request, node.row, left, self._scoring_on(node.row), mask=self._mask(state, node))

    def _mask(self, state: CycleState, node: NodeInfo) -> int | None:
        """Return the NUMA nodes that the pod's devices are to come from, None: any."""
        affinity = self.topology_manager.affinity(state, node.name) if self._aligns else None
        return None if affinity is None else affinity.mask

    def _give_around(self, state: CycleState, pod: PodInfo, demand: DeviceDemand, node: NodeInfo, adopted: Sequence[str]) -> int:
        """Allocate the devices of a Reservation with all that the pods hold which it takes over: they keep them, it holds the rest."""
        held = [devices for uid in adopted if (devices := self._state.lend(uid)) is not None]
        try:
            code = self._give(state, pod, demand, node, demand.adjustment or way_to_include(held))
            found = self._state.held_by(pod.uid)
            if not code and found is not None:
                code = missing_of(found, held)
                if code:
                    self._state.release(pod.uid)
                self._state.lend_all(pod.uid)
            return of_reservation(code) if code else 0
        finally:
            for uid in (*adopted, pod.uid):
                self._state.share(uid)

    def _give(self, state: CycleState, pod: PodInfo, demand: DeviceDemand, node: NodeInfo, adjustment: DeviceAdjustment | None) -> int:
        """Allocate the pod's devices on the node, and keep them for it; return why that is not possible, or 0."""
        found = self._find(state, demand, node, adjustment)
        return found if isinstance(found, int) else self._keep(state, pod, demand, node, found)

    def _find(
        self, state: CycleState, demand: DeviceDemand, node: NodeInfo, adjustment: DeviceAdjustment | None
    ) -> int | Sequence[Allocated]:
        """Return the devices that the pod is to get on the node, within its NUMA affinity, or why there are none."""
        return allocate(
            self._table,
            demand.request,
            node.row,
            self._scoring_on(node.row),
            adjustment=adjustment,
            mask=self._mask(state, node),
            reserve=True,
        )

    def _keep(self, state: CycleState, pod: PodInfo, demand: DeviceDemand, node: NodeInfo, found: Sequence[Allocated]) -> int:
        if found:
            allocations = _allocations(found)
            reserved = PodDevices(pod.uid, pod.key, allocations, held_of(found))
            state.write(RESERVE_STATE, reserved)
            self._state.reserve(node.name, reserved)
            if verbosity() >= RESERVE_VERBOSITY:
                self._log_allocation(pod, node.name, demand, allocations)
        return 0

    def _scoring_on(self, _row: int) -> DeviceScoring:
        """Return the scoring by which Reserve chooses devices on a node, where the pod is assumed already."""
        return self._scoring

    def _log_allocation(self, pod: PodInfo, node_name: str, demand: DeviceDemand, allocations: DeviceAllocations) -> None:
        designated = None if demand.designated is None else device_allocations_text(demand.designated)
        summary = describe(self._state.entries[node_name])
        log.info("devices allocated", pod=pod.key, node=node_name, summary=summary, designated=designated, allocation=allocations)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if state.read(RESERVE_STATE) is not None:
            self._state.release(pod.uid)

    def resize_pod(self, state: CycleState, pod: PodInfo, node_name: str) -> Mapping[str, int] | None:
        """Let a Reservation hold the amounts of the devices that it was given."""
        reserved: PodDevices | None = state.read(RESERVE_STATE)
        return None if reserved is None or pod.reservation is None else held_amounts(reserved.allocations)

    # Which reservations suit a pod

    def allocates_for(self, pod: PodInfo) -> bool:
        return asks_for_devices(pod)

    def is_held_by(self, reservation: str) -> bool:
        return self._state.is_reserved(reservation)

    def lending(self, reservation: str | None, others: Sequence[str]) -> AbstractContextManager[None]:
        return self._state.lending(reservation, others)

    def filter_reservation(self, state: CycleState, pod: PodInfo, node_name: str, reservation: str | None) -> Status | None:
        demand, node = self._demand(state, pod), self._cache.node(node_name)
        if demand is None or node is None:
            return None
        if reservation is None:
            found = self._find(state, demand, node, demand.adjustment)
        else:
            found = self._find_reserved(state, demand, node, reservation)
        if not isinstance(found, int):
            return None
        return explain(of_reservation(found) if reservation is not None and demands_reservation(pod) else found, self._table)

    def reserved_source(self, state: CycleState, pod: PodInfo) -> ReservedDevices | None:
        demand, known = self._demand(state, pod), self._state
        if demand is None or demand.adjustment is not None:
            return None
        demanded = demands_reservation(pod)
        return ReservedDevices(
            self._table, demand.request, known.given, known.compiled_left, known.compile_left, demanded=demanded, aligned=self._aligns
        )

    def explain_reserved(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return explain(code, self._table)

    def score_reservation(self, state: CycleState, pod: PodInfo, node_name: str, reservation: str) -> int:
        """Score the devices that the pod may have of it by their use; a reservation that holds none scores nothing."""
        demand, node, left = self._demand(state, pod), self._cache.node(node_name), self._state.compiled(reservation)
        if demand is None or node is None or left is None:
            return 0
        return score_node(
            self._table,
            demand.request,
            self._scoring_on(node.row),
            node.row,
            adjustment=left.alone() if left.restricted else None,
            mask=self._mask(state, node),
        )

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if state.read(RESERVE_STATE) is not None or self._may_be_unseen(pod, node_name):
            return None
        annotations = pod.pod.metadata.annotations
        return None if annotations and DEVICE_ALLOCATED in annotations else SKIP

    def _may_be_unseen(self, pod: PodInfo, node_name: str) -> bool:
        """Answer whether the pod is going to a node without a Device for want of an event of the watch: elsewhere there are Devices."""
        return bool(self._state.devices) and asks_for_devices(pod) and self._state.device_ids(node_name) is None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Write what the pod was allocated; without an allocation, remove what a failed attempt has written, as it would count."""
        reserved: PodDevices | None = state.read(RESERVE_STATE)
        if reserved is None:
            if DEVICE_ALLOCATED in pod.pod.metadata.annotations:
                annotations, labels = written_before(pod.pod)
                annotate(state, {**annotations, DEVICE_ALLOCATED: None}, labels)
            return await self._unseen(node_name) if self._may_be_unseen(pod, node_name) else None
        ids = self._state.device_ids(node_name)
        if ids is None:
            return error(f'device.scheduling.koordinator.sh "{node_name}" not found')
        allocations = {
            device_type: [replace(device, id=ids.get((device_type, device.minor), "")) for device in devices]
            for device_type, devices in reserved.allocations.items()
        }
        text = device_allocations_text(allocations)
        self._state.written(replace(reserved, allocations=allocations, text=text))
        annotate(state, {DEVICE_ALLOCATED: text})
        if self._resizes and pod.reservation is not None:
            annotate(state, {RESIZE_ALLOCATABLE: resize_text(allocations)})
        return None if self._adapter is None else await self._adapter.adapt(state, pod, node_name, allocations)

    async def _unseen(self, node_name: str) -> Status | None:
        """Refuse a node with a Device that the watch has not shown yet: without an allocation, the pod would use what others are given."""
        try:
            await self._cluster.get(Ref(DEVICE, "", node_name))
        except (NotFound, Forbidden):
            return None
        except ClusterError as refused:
            return error(refused.message)
        return unschedulable(UNSEEN_DEVICE)

    # Hints for the topology manager

    def lend(self, uid: str) -> None:
        self._state.lend(uid)

    def share(self, uid: str) -> None:
        self._state.share(uid)

    def wants(self, pod: PodInfo) -> bool:
        return self._aligns and asks_for_devices(pod)

    def hint_source(self, state: CycleState, pod: PodInfo) -> DeviceHints | None:
        demand = self._demand(state, pod)
        if demand is None or demand.designated is not None:
            return None
        way = self._required_way(state, pod) if self._state.given else None
        return demand.hints if way is None else DeviceHints(self._table, demand.request, way)

    def _required_way(self, state: CycleState, pod: PodInfo) -> DeviceAdjustment | None:
        """Return the only way in which the pod may be given devices if it is given a reservation that is Restricted, which lends."""
        reservation = tried_reservation(state)
        if reservation is None:
            reservation = self._cache.credits.drawn_from(pod.uid)
        left: LeftDevices | None = self._state.compiled(reservation) if reservation else None
        return left.alone() if left is not None and left.restricted else None

    def explain_hint(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return explain(code, self._table)

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        demand, entry = self._demand(state, pod), self._state.entries.get(node.name)
        if demand is None or entry is None or not self._table.has_entry(entry.index):
            return {}
        source = self.hint_source(state, pod)
        if source is None:
            return designated_hints(demand.designated or {}, entry.device)
        return hints_of_row(source, self._table, node.row)

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        demand = self._demand(state, pod)
        if demand is None:
            return None
        designated = demand.adjustment is not None
        adjustment = demand.adjustment or self._required_way(state, pod)
        found = allocate(self._table, demand.request, node.row, adjustment=adjustment, mask=affinity.mask, reserve=designated)
        return explain(found, self._table) if isinstance(found, int) else None

    # Events, HTTP

    def events_to_register(self) -> Sequence[EventHint]:
        return DeviceQueueingHints(self._passes, self._compiler.may_need_template).events()

    def routes(self) -> Sequence[Route]:
        return (Route("nodeDeviceSummaries", self._show_all), Route("nodeDeviceSummaries/:name", self._show))

    def _show_all(self, _named: Mapping[str, str]) -> Answer:
        return Answer({name: describe(entry) for name, entry in sorted(self._state.entries.items()) if self._table.has_entry(entry.index)})

    def _show(self, named: Mapping[str, str]) -> Answer:
        name = named["name"]
        entry = self._state.entries.get(name)
        if entry is None or not self._table.has_entry(entry.index):
            return refusal(NOT_FOUND, f"cannot find node {name}")
        return Answer(describe(entry))


def _allocations(found: Sequence[Allocated]) -> DeviceAllocations:
    allocations: dict[str, list[AllocatedDevice]] = {}
    for one in found:
        resources = {DEVICE_RESOURCE_NAMES[resource]: amount for resource, amount in one.amounts.items()}
        vfs = () if one.vf is None else (AllocatedVirtualFunction(one.vf[1], one.vf[0]),)
        allocations.setdefault(DEVICE_TYPE_NAMES[one.type], []).append(AllocatedDevice(one.minor, resources, "", vfs, one.template))
    return allocations
