"""/apis/v1/nodes/NAME and /apis/v1/explain: Koordinator's fields, amounts worked out by hand (frameworkext.md §9)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from support.fakes import config_with, embedded, node_manifest, pod_manifest

from koordsched.api.kinds import NODE, POD
from koordsched.serve.endpoints import Endpoints, ProcessContext, Response
from koordsched.server.http import HttpRequest

RESERVATION = "node.koordinator.sh/reservation"


def reserving(annotation: str) -> dict[str, Any]:
    manifest = node_manifest("n1", "16")
    manifest["metadata"]["annotations"] = {RESERVATION: annotation}
    return manifest


async def asked(path: str, *objects: tuple[Any, dict[str, Any]]) -> tuple[int, Any]:
    """Start with these objects, and return status and body of a GET."""
    async with embedded(asyncio.get_running_loop()) as world:
        for kind, manifest in objects:
            await world.create(kind, manifest)
        await world.start()
        await world.settle()
        response = await world.http(path)
        return response.status, msgspec.json.decode(response.body)


async def test_a_node_is_shown_with_what_its_pods_ask_for() -> None:
    node = node_manifest("n1", "16")
    node["status"]["allocatable"] |= {"memory": "8Gi", "pods": "110", "x.com/gpu": "4"}
    node["status"]["images"] = [{"names": ["app:1"], "sizeBytes": 300}]
    pod = pod_manifest("a", "2", nodeName="n1")
    pod["spec"]["containers"][0]["resources"]["requests"]["x.com/gpu"] = "1"
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    term = {"labelSelector": {}, "topologyKey": "zone"}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    plain = pod_manifest("b", "1", nodeName="n1")
    status, body = await asked("/apis/v1/nodes/n1", (NODE, node), (POD, pod), (POD, plain))
    assert status == 200
    assert list(body) == [
        *("node", "pods", "podsWithAffinity", "podsWithRequiredAntiAffinity", "usedPorts", "requested", "nonZeroRequested"),
        *("remaining", "allocatable", "imageStates", "pvcRefCounts"),
    ]
    assert [each["Pod"]["metadata"]["name"] for each in body["pods"]] == ["a", "b"]
    assert [each["Pod"]["metadata"]["name"] for each in body["podsWithRequiredAntiAffinity"]] == ["a"]
    assert body["podsWithAffinity"] == body["podsWithRequiredAntiAffinity"]
    assert body["usedPorts"] == {"0.0.0.0": [{"Protocol": "TCP", "Port": 8080}]}
    none = {"EphemeralStorage": 0, "AllowedPodNumber": 0}
    assert body["requested"] == {"MilliCPU": 3000, "Memory": 0, **none, "ScalarResources": {"x.com/gpu": 1}}
    # 200 MiB for each container that asks for no memory
    assert body["nonZeroRequested"] == {"MilliCPU": 3000, "Memory": 2 * 200 * 2**20, **none, "ScalarResources": None}
    full = {"EphemeralStorage": 0, "AllowedPodNumber": 110}
    assert body["allocatable"] == {"MilliCPU": 16000, "Memory": 8 * 2**30, **full, "ScalarResources": {"x.com/gpu": 4}}
    assert body["remaining"] == {"MilliCPU": 13000, "Memory": 8 * 2**30, **full, "ScalarResources": {"x.com/gpu": 3}}
    assert body["imageStates"] == {"app:1": {"Size": 300, "NumNodes": 1}}
    assert body["pvcRefCounts"] == {"default/data": 1}


async def test_more_than_there_is_remains_negative() -> None:
    status, body = await asked("/apis/v1/nodes/n1", (NODE, node_manifest("n1", "1")), (POD, pod_manifest("a", "3", nodeName="n1")))
    assert (status, body["remaining"]["MilliCPU"]) == (200, -2000)


@pytest.mark.parametrize(
    ("annotation", "milli"),
    [
        ('{"resources":{"cpu":"1500m"}}', 14500),
        ('{"resources":{"cpu":"1500m"},"applyPolicy":"ReservedCPUsOnly"}', 16000),
        ('{"reservedCPUs":"0-1,8","resources":{"cpu":"1"}}', 13000),
        ("{", 16000),
    ],
)
async def test_allocatable_is_what_the_nodes_reservation_leaves(annotation: str, milli: int) -> None:
    """frameworkext.md §10, 26 and 27."""
    status, body = await asked("/apis/v1/nodes/n1", (NODE, reserving(annotation)))
    assert (status, body["allocatable"]["MilliCPU"]) == (200, milli)


async def test_resources_have_the_names_of_the_scheduler() -> None:
    """frameworkext.md §10, 25: older names of batch resources are renamed."""
    node = node_manifest("n1")
    node["status"]["allocatable"]["kubernetes.io/batch-memory"] = "2Gi"
    pod = pod_manifest("a")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"koordinator.sh/batch-memory": "1Gi"}
    status, body = await asked("/apis/v1/nodes/n1", (NODE, node), (POD, pod))
    assert (status, body["requested"]["ScalarResources"]) == (200, {"kubernetes.io/batch-memory": 2**30})
    requests = body["pods"][0]["Pod"]["spec"]["containers"][0]["resources"]["requests"]
    assert list(requests) == ["kubernetes.io/batch-memory"]


async def test_a_node_that_does_not_exist_is_not_found() -> None:
    """frameworkext.md §10, 31, the first half."""
    assert await asked("/apis/v1/nodes/nope") == (404, {"message": "cannot find node nope"})


class Standby:
    """Another process leads."""

    leading = False

    def health(self) -> str:
        return ""


@pytest.mark.parametrize("path", ["nodes/n1", "nodes/nope", "explain/default/p", "__services__"])
async def test_a_standby_answers_503(path: str) -> None:
    """frameworkext.md §10, 31, the second half."""
    async with embedded(asyncio.get_running_loop()) as world:
        standby: Any = Standby()
        endpoints = Endpoints(world.scheduler, ProcessContext(standby))
        response = await endpoints.answer(HttpRequest.of("GET", f"/apis/v1/{path}"))
        assert (response.status, msgspec.json.decode(response.body)) == (503, {"message": "the instance is not leader"})


async def test_the_services_name_the_schedulers_own_paths() -> None:
    status, body = await asked("/apis/v1/__services__")
    assert (status, list(body)) == (200, ["GET", "POST"])
    assert {"/apis/v1/__services__", "/apis/v1/explain/:namespace/:name", "/apis/v1/nodes/:nodeName"} <= set(body["GET"])
    assert body["GET"] == sorted(body["GET"])


async def test_other_methods_find_nothing() -> None:
    async with embedded(asyncio.get_running_loop(), config_with({})) as world:
        response: Response = await Endpoints(world.scheduler).answer(HttpRequest.of("POST", "/apis/v1/nodes/n1"))
        assert response.status == 404


async def test_why_a_pod_waits_is_explained() -> None:
    objects = ((NODE, node_manifest("n1", "1")), (NODE, node_manifest("n2", "1")), (POD, pod_manifest("big", "3")))
    status, body = await asked("/apis/v1/explain/default/big", *objects)
    assert (status, "schedulable" in body) == (200, False)
    (explained,) = body["detailedExplanation"]
    assert explained["scheduleExplanation"]["nodeFailedDetails"] == [
        {"failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu", "failedNodes": ["n1", "n2"]}
    ]
    assert body["failedMessage"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


async def test_where_a_pod_is_is_explained() -> None:
    status, body = await asked("/apis/v1/explain/default/p", (NODE, node_manifest("n1")), (POD, pod_manifest("p")))
    (explained,) = body["detailedExplanation"]
    (result,) = explained["scheduleExplanation"]["feasibleSchedulingResult"]
    assert (status, body["schedulable"], result["name"], result["nodeName"]) == (200, True, "p", "n1")


async def test_what_does_not_exist_is_not_found() -> None:
    assert await asked("/apis/v1/explain/default/p") == (404, {"message": "cannot find pod, gang or job default/p"})
