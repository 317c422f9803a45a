"""The scoring strategy LeastFragmented: nodes and GPUs by how little a pod adds to the GPU share that recent requests could not use.

After Weng et al., "Beware of Fragmentation" (USENIX ATC 2023); what is measured: `_core.fragmentation`. The mix of requests is learned from
the pods that come, bound ones included, so that a restart learns it again. It changes in steps, and steps come after more and more pods:
after a step all nodes are scored anew, once for each shape that is used again; between two steps a pod costs what it costs with any other
strategy. Nothing is random.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched._core.fragmentation import MAX_REQUESTS, FragmentationScoring, RequestMix, mean_gpu_memory, score_fragmentation
from koordsched.api.kinds import POD
from koordsched.api.koordinator.device_requests import (
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    NPU_CORE,
    REQUESTED_RESOURCES,
    WHOLE,
    InvalidDeviceRequest,
    device_requests,
    gpu_demand,
)
from koordsched.api.quantity import QuantityError, QuantityFormat
from koordsched.api.resources import pod_resources
from koordsched.config.koordinator_args import LEAST_FRAGMENTED
from koordsched.framework.interface import Normalize
from koordsched.plugins.deviceshare.plugin import DeviceShare

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched._core.device_table import DeviceTable
    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.resources import PodResources
    from koordsched.cache.nodes import Nodes
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.config.koordinator_args import DeviceShareArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.status import Status

WINDOW = 8192
"""Pods that count: beyond so many all counts are halved, so that older pods count less and less."""
STEP_PART, LARGEST_STEP = 4, 512
"""A step is made when a quarter more pods have come than at the last one, at the latest after LARGEST_STEP more."""

AskedGpus = tuple[int, int, int, int, int]
"""CPU in milli-cores, memory in bytes, the number of GPUs, percent of each GPU, and of each GPU bytes where a pod asks for those alone."""


def mix_of(pods: Mapping[AskedGpus, int], table: DeviceTable) -> RequestMix:
    """Return the mix of the most frequent requests. pods: how many ask for the same. GPU memory counts as its share of the mean GPU's."""
    memory = mean_gpu_memory(table)
    requests: dict[tuple[int, int, int, int], int] = {}
    for (cpu, bytes_, count, share, gpu_memory), times in pods.items():
        part = -(-gpu_memory * WHOLE // memory) if memory else WHOLE
        request = (cpu, bytes_, count, share or min(max(part, 1), WHOLE))
        requests[request] = requests.get(request, 0) + times
    most = sorted(requests, key=lambda request: (-requests[request], request))[:MAX_REQUESTS]
    return RequestMix({request: requests[request] for request in most})


class RequestHistory:
    """What recent pods asked for, and the mix that is made of it. table: has the memory of GPUs."""

    def __init__(self, table: DeviceTable) -> None:
        self._table = table
        self._pods: dict[AskedGpus, int] = {}
        self._count = 0  # of them
        self._until_step = 1
        self.version = 0
        self.mix = RequestMix({})

    def add(self, asked: AskedGpus) -> None:
        self._pods[asked] = self._pods.get(asked, 0) + 1
        self._count += 1
        self._until_step -= 1
        if self._until_step <= 0:
            self._step()

    def _step(self) -> None:
        if self._count > WINDOW:
            self._pods = {asked: pods // 2 for asked, pods in self._pods.items() if pods > 1}
            self._count = sum(self._pods.values())
        self.mix = mix_of(self._pods, self._table)
        self.version += 1
        self._until_step = min(self._count // STEP_PART + 1, LARGEST_STEP)


class ArrivedPods:
    """A handler of the pod informer: notes what each pod asks for when it comes."""

    def __init__(self, history: RequestHistory) -> None:
        self._history = history

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        asked = asked_gpus(pod)
        if asked is not None:
            self._history.add(asked)

    def on_update(self, _old: Pod, _new: Pod) -> None:
        """Do nothing: what a pod asks for stays; a resize changes no device."""

    def on_delete(self, _pod: Pod, _final_state: FinalState) -> None:
        """Do nothing: a pod that has gone was asked for as well, and counts on."""


def asked_gpus(pod: Pod) -> AskedGpus | None:
    """Return what a pod asks for, None for one that asks for no GPU, or for what cannot be given."""
    try:
        resources = pod_resources(pod, counted_on_node=False)
    except QuantityError:
        return None  # the reason is given when it is scheduled
    return None if REQUESTED_RESOURCES.isdisjoint(resources.requests) else _asked_gpus(resources)


@lru_cache(maxsize=4096)
def _asked_gpus(resources: PodResources) -> AskedGpus | None:
    requests = resources.requests
    try:
        amounts = device_requests(requests, lambda _name: QuantityFormat.DECIMAL_SI).get(GPU)
    except InvalidDeviceRequest:
        return None  # likewise, in the format of the pod
    if amounts is None:
        return None
    gpu = gpu_demand(amounts)
    share = max(gpu.amounts.get(name, 0) for name in (GPU_CORE, GPU_MEMORY_RATIO, NPU_CORE))
    memory = 0 if share else gpu.amounts.get(GPU_MEMORY, 0)
    if not share and not memory:
        return None
    return requests.get("cpu", 0), requests.get("memory", 0), gpu.count, min(share, WHOLE), memory


class LeastFragmentedDeviceShare(DeviceShare):
    """DeviceShare with the strategy LeastFragmented. Pods without devices are scored too: they may take the CPU that a node's GPUs need."""

    normalize = Normalize.NONE
    late_kinds = ()

    def __init__(self, args: DeviceShareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.reads |= NodeChange.USAGE | NodeChange.CAPACITY
        self._history = handle.cache.shared.one(RequestHistory, lambda: _followed_history(handle, self._table))
        self._scoring: FragmentationScoring = FragmentationScoring(self._history.mix)

    def sign(self, pod: PodInfo) -> Hashable:
        return (super().sign(pod), pod.resources)

    def has_score_version(self, pod: PodInfo) -> bool:
        return True

    def score_version(self, pod: PodInfo) -> Hashable:
        return self._history.version

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        demand, requests = self._demand(state, pod), pod.resources.requests
        self._scoring.mix = self._history.mix
        return score_fragmentation(
            self._table,
            None if demand is None else demand.request,
            self._scoring,
            requests.get("cpu", 0),
            requests.get("memory", 0),
            nodes.rows,
        )

    def _scoring_on(self, row: int) -> FragmentationScoring:
        self._scoring.mix = self._history.mix
        self._scoring.aim(self._cache.table, row)
        return self._scoring


def _followed_history(handle: Handle, table: DeviceTable) -> RequestHistory:
    history = RequestHistory(table)
    handle.informer(POD).add_handler(ArrivedPods(history))
    return history


def device_share(args: DeviceShareArgs, handle: Handle) -> DeviceShare:
    """Make the plugin with the strategy that is configured."""
    return (LeastFragmentedDeviceShare if args.scoring_strategy.type == LEAST_FRAGMENTED else DeviceShare)(args, handle)
