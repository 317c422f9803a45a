"""The numbers on an ElasticQuota's object are the scheduler's, also where another writer changed them while no watch was there."""

from __future__ import annotations

import asyncio
from typing import Any

from support.fakes import embedded, node_manifest, pod_manifest

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Gone, Patch, Ref
from koordsched.config import load_config_text

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: ElasticQuota}]}}
  pluginConfig: [{name: ElasticQuota, args: {quotaGroupNamespace: default}}]
"""
BLIND_SECONDS = 20.0
QUOTA = Ref(ELASTIC_QUOTA, "default", "a")


def member(name: str) -> dict[str, Any]:
    pod = pod_manifest(name)
    pod["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "a"}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return pod


async def test_what_another_writer_set_back_is_written_anew_though_a_list_shows_what_was_shown_before() -> None:
    async with embedded(asyncio.get_running_loop(), load_config_text(CONFIG)) as world:
        await world.create(NODE, node_manifest("n1", "9"))
        await world.create(ELASTIC_QUOTA, {"metadata": {"name": "a", "namespace": "default"}, "spec": {"max": {"cpu": "9"}}})
        await world.start()
        await world.create(POD, member("first"))
        await world.sleep(5.0)
        before = world.cluster.raw(QUOTA)
        world.cluster.faults.rules.append(Fault(verb="list", kind=ELASTIC_QUOTA, delay=BLIND_SECONDS, times=1))
        world.cluster.cut_watches(lambda: Gone("history was lost"))
        await world.create(POD, member("second"))
        await world.sleep(5.0)
        assert world.cluster.raw(QUOTA)["status"]["used"] == {"cpu": "2"}
        shown = {"metadata": {"annotations": before["metadata"]["annotations"]}, "status": before["status"]}
        await world.cluster.patch(QUOTA, Patch(shown))
        assert world.cluster.raw(QUOTA)["status"]["used"] == {"cpu": "1"}
        await world.sleep(BLIND_SECONDS)
        assert world.cluster.raw(QUOTA)["status"]["used"] == {"cpu": "2"}
