"""LoadAwareScheduling where scenarios cannot look: a cluster without NodeMetrics (frameworkext.md §10 line 40), and arguments that stop the
start (line 15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.controlplane.accounts import service_account
from support.controlplane.credentials import by_token
from support.controlplane.definitions import COLLECTION, await_gone, definitions, install
from support.controlplane.plane import ControlPlane
from support.live import PODS, Launch, create_node, create_pod, message, until
from support.served import TIMEOUT

from koordsched.clock import RealClock, rfc3339

MANIFESTS = Path(__file__).parents[2] / "config" / "rbac.yaml"
API = "slo.koordinator.sh/v1alpha1"
METRICS = f"/apis/{API}/nodemetrics"
PLUGIN = {"enabled": [{"name": "LoadAwareScheduling"}]}
PROFILE: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": {"filter": PLUGIN, "score": PLUGIN, "reserve": PLUGIN}}
PROBED_WITHIN = 60.0  # an informer asks every 30 s for a kind that is not served


def test_node_metrics_may_be_defined_later(plane: ControlPlane, tmp_path: Path) -> None:
    rest, manifests = plane.rest(), list(definitions())
    for manifest in manifests:
        rest.delete(f"{COLLECTION}/{manifest['metadata']['name']}")
        await_gone(rest, manifest)
    try:
        create_node(rest, "n1", "4")
        create_pod(rest, "before", "1")
        with service_account(rest, MANIFESTS) as token:
            running = Launch(plane, tmp_path, plane.kubeconfig(by_token(token)), config={"profiles": [PROFILE]}).start()
            running.await_readiness()
            until(lambda: rest.get(f"{PODS}/before")["spec"].get("nodeName"))
            install(rest, manifests)
            rest.create(METRICS, {"apiVersion": API, "kind": "NodeMetric", "metadata": {"name": "n1"}, "spec": {}})
            usage = {"nodeUsage": {"resources": {"cpu": "3", "memory": "1Gi"}}}
            rest.patch(f"{METRICS}/n1/status", {"status": {"updateTime": rfc3339(RealClock().now()), "nodeMetric": usage}})
            until(lambda: "nodeDelta" in running.debug("/apis/v1/plugins/LoadAwareScheduling/node/n1")[1], PROBED_WITHIN)
            create_pod(rest, "late", "100m")
            until(lambda: "1 node(s) cpu usage exceed threshold" in message(rest, "late"))
            outcome = running.stop()
    finally:
        install(rest, manifests)
    assert outcome.of("error") == []


def test_a_weight_without_a_scaling_factor_stops_the_start(plane: ControlPlane, tmp_path: Path) -> None:
    args = {"resourceWeights": {"cpu": 1, "memory": 1, "x/y": 1}}
    profile = {**PROFILE, "pluginConfig": [{"name": "LoadAwareScheduling", "args": args}]}
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": [profile]}).start()
    assert running.process.wait(TIMEOUT) == 1
    assert 'initializing plugin "LoadAwareScheduling"' in running.process.output()
    assert 'estimatedScalingFactors: Not found: "x/y"' in running.process.output()
