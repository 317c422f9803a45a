"""The mistakes of a NodeResourceTopology on a running scheduler: an event of the Node in the cluster, a metric, and everything goes on."""

from __future__ import annotations

from typing import Any

from support.fakes import SCHEDULER, config_with, node_manifest, pod_manifest

from koordsched.api.kinds import EVENT, NODE, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.cluster.port import Ref
from koordsched.config.flags import parse_flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded

POINTS = ("preFilter", "filter", "reserve", "preBind")
METRIC = 'koord_scheduler_malformed_objects_total{kind="NodeResourceTopology"} 1.0'
BAD = {"metadata": {"name": "n1", "annotations": {"node.koordinator.sh/cpu-topology": "{bad"}}, "topologyPolicies": [], "zones": []}


def played(script: Any) -> Any:
    """Run the script on a scheduler whose profile has NodeNUMAResource."""
    enabled = {point: {"enabled": [{"name": "NodeNUMAResource"}]} for point in POINTS}
    config = config_with({}, profiles=[{"schedulerName": SCHEDULER, "plugins": enabled}])
    return run_embedded(EmbeddedOptions(config=config, flags=parse_flags([])), script)


def events_of(world: EmbeddedCluster, kind: str) -> list[dict[str, Any]]:
    return [event for event in world.cluster.raws(EVENT) if event["regarding"]["kind"] == kind]


def test_an_event_on_the_node_reports_it_and_pods_go_on() -> None:
    async def script(world: EmbeddedCluster) -> tuple[list[dict[str, Any]], str, str]:
        await world.create(NODE, node_manifest("n1"))
        await world.create(NODE_RESOURCE_TOPOLOGY, BAD)
        await world.start()
        await world.create(POD, pod_manifest("p", "1"))
        await world.sleep(15)
        placed = world.cluster.raw(Ref(POD, "default", "p"))["spec"].get("nodeName", "")
        return events_of(world, "Node"), world.scheduler.metrics.text().decode(), placed

    (event,), metrics, placed = played(script)
    assert (event["type"], event["reason"], event["regarding"]["name"]) == ("Warning", "InvalidNUMATopology", "n1")
    assert event["note"].startswith("NodeResourceTopology: node.koordinator.sh/cpu-topology: JSON is malformed")
    assert event["reportingController"] == SCHEDULER
    assert METRIC in metrics
    assert placed == "n1"
