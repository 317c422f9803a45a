"""/metrics/resources: names, labels and units are kube-scheduler's (framework.md §12)."""

from __future__ import annotations

import asyncio
import re
from time import perf_counter
from typing import Any

from support.builders import pod
from support.fakes import embedded, node_manifest, pod_manifest

from koordsched.api.kinds import NODE, POD
from koordsched.serve.endpoints import METRICS
from koordsched.serve.pod_resources import resource_metrics
from koordsched.slices import Slices

WHOSE = re.compile(r'(namespace="default"|pod="p"|scheduler="default-scheduler"),')


def container(name: str, requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": requests, "limits": limits or {}}, **more}


async def shown(*pods: dict[str, Any]) -> list[str]:
    """Return the samples, sorted, without what all of them say."""
    async with embedded(asyncio.get_running_loop()) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        for manifest in pods:
            await world.create(POD, manifest)
        await world.settle()
        response = await world.http("/metrics/resources")
    assert (response.status, response.content_type) == (200, METRICS)
    lines = response.body.decode().splitlines()
    assert [line for line in lines if line.startswith("# TYPE")] == [
        "# TYPE kube_pod_resource_request gauge",
        "# TYPE kube_pod_resource_limit gauge",
    ]
    samples = (line for line in lines if not line.startswith("#"))
    return sorted(WHOSE.sub("", line) for line in samples)


async def test_a_pod_is_shown_with_its_node_priority_and_units() -> None:
    main = container(
        "c",
        {"cpu": "1500m", "memory": "1Ki", "example.com/gpu": "0"},
        {"cpu": "2", "memory": "2Ki", "example.com/gpu": "0"},
    )
    assert await shown(pod_manifest(containers=[main])) == [
        'kube_pod_resource_limit{node="n1",priority="0",resource="cpu",unit="cores"} 2.0',
        'kube_pod_resource_limit{node="n1",priority="0",resource="memory",unit="bytes"} 2048.0',
        'kube_pod_resource_request{node="n1",priority="0",resource="cpu",unit="cores"} 1.5',
        'kube_pod_resource_request{node="n1",priority="0",resource="memory",unit="bytes"} 1024.0',
    ]


async def test_other_units_and_a_pod_that_is_pending() -> None:
    requests = {"cpu": "100", "example.com/gpu": "1", "hugepages-2Mi": "2Mi", "ephemeral-storage": "2"}
    limits = {"example.com/gpu": "1", "hugepages-2Mi": "2Mi"}
    found = await shown(pod_manifest(containers=[container("c", requests, limits)]))
    assert [line for line in found if "request{" in line] == [
        'kube_pod_resource_request{node="",priority="0",resource="cpu",unit="cores"} 100.0',
        'kube_pod_resource_request{node="",priority="0",resource="ephemeral-storage",unit="bytes"} 2.0',
        'kube_pod_resource_request{node="",priority="0",resource="example.com/gpu",unit=""} 1.0',
        'kube_pod_resource_request{node="",priority="0",resource="hugepages-2Mi",unit="bytes"} 2.097152e+06',
    ]


async def test_init_containers_count_by_their_maximum_and_overhead_where_there_is_a_limit() -> None:
    manifest = pod_manifest(
        containers=[container("a", {"cpu": "1"}, {"cpu": "1"}), container("b", {"cpu": "1"}, {"cpu": "1"})],
        initContainers=[container("i", {"cpu": "3"}, {"cpu": "4"})],
        overhead={"cpu": "250m", "memory": "1Ki"},
        priority=0,
    )
    assert await shown(manifest) == [
        'kube_pod_resource_limit{node="n1",priority="0",resource="cpu",unit="cores"} 4.25',
        'kube_pod_resource_request{node="n1",priority="0",resource="cpu",unit="cores"} 3.25',
        'kube_pod_resource_request{node="n1",priority="0",resource="memory",unit="bytes"} 1024.0',
    ]


async def test_a_priority_that_is_not_set_is_empty_and_attachable_volumes_are_integers() -> None:
    body = (await resource_metrics([pod("p").request("attachable-volumes-x", "3").build()], Slices(perf_counter))).decode()
    assert 'priority="",resource="attachable-volumes-x",scheduler="default-scheduler",unit="integer"} 3.0\n' in body


async def test_a_pod_whose_resources_cannot_be_read_is_left_out() -> None:
    assert b"{" not in await resource_metrics([pod("p").request("cpu", "much").build()], Slices(perf_counter))


async def test_terminal_pods_are_left_out() -> None:
    assert await shown(pod_manifest(), {**pod_manifest("done"), "status": {"phase": "Succeeded"}}) == [
        'kube_pod_resource_request{node="n1",priority="0",resource="cpu",unit="cores"} 1.0'
    ]
