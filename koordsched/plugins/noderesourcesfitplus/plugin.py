"""NodeResourcesFitPlus: Score by how full a node would be, each resource by the strategy and the weight that the arguments give it.

Of the configured resources those count that the pod requests; without any every node gets 100. Nothing is normalised, no pod refused.
Reference: plugins/noderesourcefitplus of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.allocation import MixedResources, mixed_allocated
from koordsched._core.change import NodeChange
from koordsched.api.quantity import MAX_INT64, milli_value, value
from koordsched.api.resources import DEFAULT_MEMORY, DEFAULT_MILLI_CPU
from koordsched.config.args import MOST_ALLOCATED
from koordsched.framework.interface import PreScorePlugin, ScoreNodesPlugin

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import Pod, Quantity, ResourceList
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import NodeResourcesFitPlusArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.status import Status

PRE_SCORE_STATE = "PreScoreNodeResourcesFitPlus"  # the MixedResources

DEFAULTS = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}


class NodeResourcesFitPlus(PreScorePlugin, ScoreNodesPlugin):
    """A profile that enables it at score alone scores as one that enables it at preScore too: the framework runs PreScore for both."""

    name = "NodeResourcesFitPlus"
    reads = NodeChange.USAGE | NodeChange.CAPACITY

    def __init__(self, args: NodeResourcesFitPlusArgs, handle: Handle) -> None:
        self._columns = handle.columns
        self._resources = args.resources

    def sign(self, pod: PodInfo) -> Hashable:
        spec = pod.pod.spec
        if len(spec.containers) == 1 and not spec.init_containers and not spec.overhead and spec.resources is None:
            return pod.resources  # from which all amounts follow
        return pod.resources, tuple(self._amounts(pod).items())

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        amounts = self._amounts(pod)
        specs = [self._resources[name] for name in amounts]
        scored = MixedResources(
            [self._columns.resource_id(name) for name in amounts],
            list(amounts.values()),
            [spec.weight for spec in specs],
            [spec.type == MOST_ALLOCATED for spec in specs],
        )
        state.write(PRE_SCORE_STATE, scored)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return mixed_allocated(nodes.table, state.read(PRE_SCORE_STATE), nodes.rows)

    def _amounts(self, pod: PodInfo) -> dict[str, int]:
        """Return what the pod adds of each configured resource that it requests."""
        requests = pod.resources.requests
        return {name: added_amount(pod.pod, name) for name in self._resources if requests.get(name, 0) > 0}


def added_amount(pod: Pod, name: str) -> int:
    """Return what the pod adds to a node for scoring (cpu in milli): the sum of its containers or its largest init container, if that is
    more, and the overhead.

    Other than NodeResourcesFit the reference rounds each container up by itself, does not count sidecars beside the containers, and does
    not look at pod-level requests. It panics for a pod with overhead (frameworkext.md §6).
    """
    spec = pod.spec
    running = sum([_container_amount(container.resources.requests, name) for container in spec.containers])
    starting = max([_container_amount(container.resources.requests, name) for container in spec.init_containers], default=0)
    overhead = _rounded(name, spec.overhead[name]) if name in spec.overhead else 0
    return min(max(running, starting) + overhead, MAX_INT64)


def _container_amount(requests: ResourceList, name: str) -> int:
    """Return what a container counts with: an explicit 0 is 0, but one that does not mention cpu or memory gets a default."""
    quantity = requests.get(name)
    return DEFAULTS.get(name, 0) if quantity is None else _rounded(name, quantity)


def _rounded(name: str, quantity: Quantity) -> int:
    return milli_value(quantity) if name == "cpu" else value(quantity)
