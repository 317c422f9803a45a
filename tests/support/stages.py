"""A scheduler on the embedded cluster, as tests of it use one: how it begins, what became of pods, what it counted.

`stage` is a fixture of tests/unit/scheduler; it makes worlds whose scheduler has not been started.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster
from support.fakes import node_manifest, pod_manifest

Stage = Callable[..., AbstractAsyncContextManager[EmbeddedCluster]]


async def begin(world: EmbeddedCluster, *pods: dict[str, Any], nodes: str = "n1") -> None:
    """Create the nodes, start, create the pods (one if none is given) and let the scheduler do what it can at once."""
    for name in nodes.split():
        await world.create(NODE, node_manifest(name))
    await world.start()
    for manifest in pods or [pod_manifest()]:
        await world.create(POD, manifest)
    await world.settle()


def ref(name: str = "p") -> Ref:
    return Ref(POD, "default", name)


def bound_to(world: EmbeddedCluster, name: str = "p") -> str:
    """Return the pod's node, "" without one."""
    return str(world.cluster.raw(ref(name))["spec"].get("nodeName", ""))


def nodes_of_pods(world: EmbeddedCluster) -> dict[str, str]:
    """Return each pod's node by the pod's name, "" without one."""
    return {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in world.cluster.raws(POD)}


def condition(world: EmbeddedCluster, name: str = "p") -> tuple[str, str]:
    """Return reason and message of PodScheduled=False; empty when it is not there."""
    conditions = world.cluster.raw(ref(name))["status"].get("conditions", [])
    found: dict[str, str] = next((each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"), {})
    return found.get("reason", ""), found.get("message", "")


def metric(world: EmbeddedCluster, line: str) -> float:
    """Return the value of a sample, 0 when it is not there. line: its name with its labels, as the text format has them."""
    found = [text for text in world.scheduler.metrics.text().decode().splitlines() if text.startswith(f"{line} ")]
    return float(found[0].rsplit(" ", 1)[1]) if found else 0.0
