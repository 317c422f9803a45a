"""A cluster without NodeResourceTopologies is normal weather: nothing is lost but CPUs, and they come with the definition.

So it is when the definition is removed, and with it all topologies, while the process runs: it goes on without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.definitions import COLLECTION, await_gone, definitions, install
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.cpu_recount import QOS_CLASS, TOPOLOGIES, recount_cpus
from support.live import PODS, Launch, create_node, create_pod, found_equal, message, until

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
PROFILES = [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}]
PROBED_WITHIN = 60.0  # an informer asks every 30 s for a kind that is not served


MISSING = "the cluster does not serve this kind; taken as empty"
SERVED = "the cluster serves this kind now"


def remove(rest: Rest, manifests: Iterable[dict[str, Any]]) -> None:
    """Delete the definitions, and with them all objects of their kinds."""
    for manifest in manifests:
        rest.delete(f"{COLLECTION}/{manifest['metadata']['name']}")
        await_gone(rest, manifest)


def bound(rest: Rest, name: str) -> bool:
    return bool(rest.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def create_pod_with_cpus(rest: Rest, name: str) -> None:
    """Create a pod that is to get two CPUs of its own."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {QOS_CLASS: "LSR"}}, "spec": spec})


def test_topologies_may_be_removed_with_their_definition_and_come_back_while_the_process_runs(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    manifests = list(definitions())
    topology = topology_manifest("n1", CpuLayout.parse("1x1x4x2"))
    create_node(rest, "n1", "8")
    rest.create(TOPOLOGIES, topology)
    try:
        with service_account(rest, MANIFESTS) as token:
            running = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), config={"profiles": PROFILES}).start()
            running.await_readiness()
            create_pod_with_cpus(rest, "before")
            until(lambda: bound(rest, "before"))
            assert MISSING not in running.process.output()

            remove(rest, manifests)
            until(lambda: MISSING in running.process.output())
            create_pod(rest, "plain", "1")
            create_pod_with_cpus(rest, "meanwhile")
            until(lambda: bound(rest, "plain"))
            until(lambda: "invalid CPU Topology" in message(rest, "meanwhile"))
            assert running.served.ready()

            install(rest, manifests)
            rest.create(TOPOLOGIES, topology)
            until(lambda: bound(rest, "meanwhile"), PROBED_WITHIN)
            assert recount_cpus(rest).not_as_requested() == [], "neither from the CPUs of the pod that was there before"
            until(lambda: found_equal(running.debug("/debug/compare")))
            outcome = running.stop()
    finally:
        install(rest, manifests)
    assert outcome.of("error") == []
    of_topologies = [
        line["msg"] for line in outcome.lines if line["msg"] in {MISSING, SERVED} and line["kind"].startswith("noderesourcetop")
    ]
    assert of_topologies == [MISSING, SERVED]


def test_topologies_may_be_defined_later(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    manifests = list(definitions())
    remove(rest, manifests)
    try:
        create_node(rest, "n1", "4")
        create_pod(rest, "plain", "1")
        create_pod(rest, "own", "2")
        rest.patch(f"{PODS}/own", {"metadata": {"labels": {QOS_CLASS: "LSR"}}})
        with service_account(rest, MANIFESTS) as token:
            running = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), config={"profiles": PROFILES}).start()
            running.await_readiness()
            until(lambda: bound(rest, "plain"))
            until(lambda: "invalid CPU Topology" in message(rest, "own"))
            install(rest, manifests)
            rest.create(TOPOLOGIES, topology_manifest("n1", CpuLayout.parse("1x1x2x2")))
            until(lambda: bound(rest, "own"), PROBED_WITHIN)
            assert recount_cpus(rest).not_as_requested() == []
            outcome = running.stop()
    finally:
        install(rest, manifests)
    assert outcome.of("error") == []
    found = Counter(line["msg"] for line in outcome.lines if line["msg"] in {MISSING, SERVED})
    assert found == {MISSING: 2, SERVED: 2}, "NodeResourceTopologies and ScheduleExplanations"
    assert "forbidden: User" not in outcome.text
