"""The null binder writes what ours writes: on one node, pods get the same devices from both, if not in the same order."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from side_by_side.competitors import profiles_for
from side_by_side.gpus import DEVICES_PATH, GPU, JOINT
from side_by_side.null_binder import WRITTEN
from side_by_side.workload import Workload, nodes, pending_pods, prerequisites
from support.fakes import embedded

from koordsched.api.core import Pod
from koordsched.api.kinds import DEVICE, NODE, POD
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED
from koordsched.config import load_config_object

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


async def written_by_ours(load: Workload) -> Counter[str]:
    """Return what our scheduler allocates to the workload's pods."""
    config = load_config_object({**HEADER, **profiles_for(load.theme)})
    async with embedded(asyncio.get_running_loop(), config) as world:
        for kind, items in ((NODE, nodes(load)), (DEVICE, prerequisites(load)), (POD, pending_pods(load))):
            for item in items:
                if kind is not DEVICE or item.path == DEVICES_PATH:
                    await world.cluster.create(kind, in_default(item.body) if kind is POD else item.body)
        await world.start()
        await asyncio.sleep(10)
        pods = [pod for pod in (await world.cluster.list(POD)).items if isinstance(pod, Pod)]
    assert {pod.spec.node_name for pod in pods} == {"node-0"}
    return Counter(pod.metadata.annotations[DEVICE_ALLOCATED] for pod in pods)


def in_default(body: Mapping[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "namespace": "default"}}


@pytest.mark.parametrize(("theme", "pods"), [(GPU, 16), (JOINT, 4)])
async def test_the_null_binder_writes_what_ours_writes(theme: str, pods: int) -> None:
    annotations = WRITTEN[theme].annotations
    assert annotations is not None
    expected = Counter(annotations("node-0", turn)[DEVICE_ALLOCATED] for turn in range(pods))
    assert await written_by_ours(Workload(theme=theme, nodes=1, pods=pods)) == expected
