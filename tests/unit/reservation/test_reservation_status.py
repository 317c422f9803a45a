"""The status of a Reservation says who has what of it, also where the watch of Reservations shows late what was written."""

from __future__ import annotations

import asyncio
from typing import Any

from support.fakes import embedded, node_manifest, pod_manifest

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Ref
from koordsched.config import load_config_text
from koordsched.embedded.cluster import EmbeddedCluster

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Reservation}]}}}]
"""
BLIND_SECONDS = 20.0


def manifest(name: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
    spec = {"template": {"spec": {"containers": [container]}}, "owners": owners, "allocateOnce": False, "ttl": "0s"}
    return {"metadata": {"name": name}, "spec": spec}


def owner(name: str) -> dict[str, Any]:
    pod = pod_manifest(name)
    pod["metadata"]["labels"] = {"app": "x"}
    return pod


def owners(world: EmbeddedCluster, name: str) -> list[str]:
    return [each["name"] for each in world.cluster.raw(Ref(RESERVATION, "", name))["status"].get("currentOwners", [])]


async def test_an_owner_that_goes_before_the_watch_has_shown_it_in_the_status_does_not_stay_there() -> None:
    async with embedded(asyncio.get_running_loop(), load_config_text(CONFIG)) as world:
        await world.create(NODE, node_manifest("n1", "9"))
        await world.start()
        await world.create(RESERVATION, manifest("r"))
        await world.sleep(5.0)
        world.cluster.faults.rules.append(Fault(verb="watch", kind=RESERVATION, delay=BLIND_SECONDS, times=1))
        world.cluster.cut_watches()
        await world.create(POD, owner("a"))
        await world.sleep(5.0)
        assert owners(world, "r") == ["a"]
        await world.delete(Ref(POD, "default", "a"))
        await world.sleep(5.0)
        assert owners(world, "r") == ["a"], "what is written is compared with what the watch has shown"
        await world.sleep(BLIND_SECONDS)
        assert owners(world, "r") == []
