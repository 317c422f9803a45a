"""What a running scheduler answers about pods of small clusters: the same questions as `support.explained` asks of files."""

from __future__ import annotations

import json
from typing import Any

from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.serve.endpoints import Endpoints
from koordsched.server.http import HttpRequest
from koordsched.simulate.simulation import Simulation
from support.explained import workload_of

Json = dict[str, Any]


def asked(objects: list[Json], *requests: HttpRequest) -> list[tuple[int, Any]]:
    """Return status and body of each answer once all pods of these objects had their attempt. Nothing may be written for them."""
    options = EmbeddedOptions(config=default_config(), flags=Flags(enable_network_topology_manager=True), lasting=True)

    async def script(embedded: EmbeddedCluster) -> list[tuple[int, Any]]:
        await Simulation(workload_of(objects), embedded, None).play(30.0)
        embedded.scheduler.answers.most_seconds = 60.0  # what a busy machine takes longer for is tried all the same
        endpoints, found = Endpoints(embedded.scheduler), []
        for request in requests:
            version = embedded.cluster.resource_version
            answer = await endpoints.answer(request)
            assert embedded.cluster.resource_version == version
            found.append((answer.status, json.loads(answer.body)))
        return found

    return run_embedded(options, script)


def changes_of(objects: list[Json], name: str = "web") -> Json:
    """Return what a running scheduler says of a pod and of what would let it run."""
    status, body = asked(objects, HttpRequest.of("GET", f"/apis/v1/explain/default/{name}/changes"))[0]
    assert status == 200
    found: Json = body
    return found


def dry_run(objects: list[Json], pod: Json) -> tuple[int, Any]:
    """Return what a running scheduler says of a pod that is not there."""
    return asked(objects, HttpRequest.of("POST", "/apis/v1/explain", body=json.dumps(pod).encode()))[0]
