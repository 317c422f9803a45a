"""kill -9 while quotas fill up: no quota ever uses more than its max, and what is shown of it after the restart is what a recount finds.

Beside it, what quotas ask of the API server: patches of their status, and nothing for a plain pod.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from side_by_side.exposition import REQUESTS, counter, request_key
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.kills import KILLS, killing
from support.live import PODS, Launch, Running, create_node, create_pod, reason, until
from support.recount import requested

PREFIX = "quota.scheduling.koordinator.sh/"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
SIZE = 1 + KILLS // 10  # so that something is left to bind at the last kill
NODES = 10 * SIZE
CHILDREN = 8  # of each parent
MOST, PODS_OF_A_QUOTA = 4 * SIZE, 6 * SIZE  # CPUs; pods of one CPU
PARENTS = {name: most * SIZE for name, most in (("p0", 40), ("p1", 24), ("p2", 40), ("p3", 24), ("p4", 40))}
"""The max of each: 24 CPUs are 3 for each child, of 40 each has its own max."""
BINDABLE = sum(min(most, CHILDREN * MOST) for most in PARENTS.values())
PLUGIN = {"enabled": [{"name": "ElasticQuota"}]}
PROFILE = {
    "plugins": {"preFilter": PLUGIN, "reserve": PLUGIN},
    "pluginConfig": [{"name": "ElasticQuota", "args": {"quotaGroupNamespace": "default"}}],
}
IDLE_SECONDS = 2.5


def create_quota(rest: Rest, name: str, most: int, **labels: str) -> None:
    keyed = {PREFIX + key.replace("_", "-"): text for key, text in labels.items()}
    metadata = {"name": name, "labels": keyed}
    body = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": metadata,
        "spec": {"max": {"cpu": str(most)}},
    }
    rest.create(QUOTAS, body)


def create_pod_of(rest: Rest, quota: str, number: int) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    metadata = {"name": f"{quota}-{number}", "labels": {PREFIX + "name": quota}}
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def child(parent: str, number: int) -> str:
    return f"{parent}-c{number}"


def limits() -> dict[str, int]:
    """Return the max of every quota, in CPUs."""
    return PARENTS | {child(parent, number): MOST for parent in PARENTS for number in range(CHILDREN)}


def fill(rest: Rest) -> None:
    for number in range(NODES):
        create_node(rest, f"n-{number}", "64")
    for parent, most in PARENTS.items():
        create_quota(rest, parent, most, is_parent="true")
        for number in range(CHILDREN):
            create_quota(rest, child(parent, number), MOST, parent=parent)
    for number in range(PODS_OF_A_QUOTA):  # of all quotas in turn
        for parent in PARENTS:
            for each in range(CHILDREN):
                create_pod_of(rest, child(parent, each), number)


def used(rest: Rest) -> Counter[str]:
    """Count the CPUs of bound pods by quota, from nothing but labels and requests."""
    found: Counter[str] = Counter()
    for pod in rest.get(PODS)["items"]:
        quota = pod["metadata"].get("labels", {}).get(PREFIX + "name")
        if quota and pod["spec"].get("nodeName"):
            cpus = requested(pod)["cpu"] // 1000
            found[quota] += cpus
            found[quota.partition("-")[0]] += cpus
    return found


def assert_within_max(rest: Rest) -> None:
    most = limits()
    assert {name: cpus for name, cpus in used(rest).items() if cpus > most[name]} == {}


def written(rest: Rest) -> dict[str, int]:
    """Return what the quotas' status says."""
    quotas: list[dict[str, Any]] = rest.get(QUOTAS)["items"]
    return {quota["metadata"]["name"]: int(quota.get("status", {}).get("used", {}).get("cpu", "0")) for quota in quotas}


def shown(running: Running) -> dict[str, int]:
    """Return what the scheduler says."""
    status, text = running.served.get("/apis/v1/plugins/ElasticQuota/quotas")
    assert status == 200, text
    return {name: int(quota["used"].get("cpu", "0")) for name, quota in json.loads(text).items()}


def of_tests(found: dict[str, int]) -> dict[str, int]:
    return {name: found.get(name, 0) for name in limits()}


def test_no_quota_exceeds_its_max_however_often_the_scheduler_is_killed(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    fill(rest)
    with killing(plane, tmp_path, PROFILE, qps=40, seed=11) as kills:
        kills.again_and_again(BINDABLE, lambda: assert_within_max(rest), a_few=6)
        running = kills.start_quick(BINDABLE)
        until(lambda: any(reason(rest, f"{child('p0', 0)}-{number}") for number in range(PODS_OF_A_QUOTA)))
        assert_within_max(rest)
        gone = [name for name, node in bound(rest).items() if node][:CHILDREN]
        for name in gone:
            rest.delete(f"{PODS}/{name}")
        until(lambda: sum(map(bool, bound(rest).values())) == BINDABLE)  # others have taken their place
        assert_within_max(rest)
        until(lambda: of_tests(written(rest)) == of_tests(used(rest)))
        assert of_tests(shown(running)) == of_tests(used(rest))
        kills.end(running)


def bound(rest: Rest) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in rest.get(PODS)["items"]}


def requests_since(rest: Rest, before: Counter[str]) -> Counter[str]:
    return counter(rest.get("/metrics"), REQUESTS, request_key) - before


def test_quotas_are_patched_once_a_second_and_plain_pods_cost_what_they_cost(plane: ControlPlane, tmp_path: Path) -> None:
    rest, none = plane.rest(), Counter[str]()
    create_node(rest, "n", "64")
    for name in ("a", "b"):
        create_quota(rest, name, 20)
    running = Launch(plane, tmp_path, plane.kubeconfig(), config={"profiles": [{"schedulerName": "default-scheduler", **PROFILE}]}).start()
    running.await_readiness()
    create_pod_of(rest, "a", 0)
    until(lambda: written(rest)["a"] == 1)
    time.sleep(IDLE_SECONDS)

    before, began = requests_since(rest, none), time.monotonic()
    for number in range(1, 11):
        create_pod_of(rest, "a", number)
    until(lambda: written(rest)["a"] == 11)
    took = time.monotonic() - began
    found = requests_since(rest, before)
    assert found["POST pods/binding"] == 10
    assert 1 <= found["PATCH elasticquotas"] <= 2 * (took + 2), "one a second of a and of the root; none of b, of which nothing changed"

    before = requests_since(rest, none)
    time.sleep(IDLE_SECONDS)
    assert requests_since(rest, before)["PATCH elasticquotas"] == 0, "nothing has changed"

    before = requests_since(rest, none)
    for number in range(10):
        create_pod(rest, f"plain-{number}", "1")
    until(lambda: all(node for name, node in bound(rest).items() if name.startswith("plain")))
    until(lambda: requests_since(rest, before)["POST events"] >= 10)
    found = requests_since(rest, before)
    asked = {key: count for key, count in found.items() if key.startswith(("POST", "PUT", "PATCH", "DELETE"))}
    asked.pop("PUT leases", 0)  # the API server renews one of its own every ten seconds
    of_the_default_quota_and_the_root = asked.pop("PATCH elasticquotas", 0)
    assert of_the_default_quota_and_the_root <= 2 * (time.monotonic() - began + 2)
    assert asked == {"POST pods": 10, "POST pods/binding": 10, "POST events": 10}
    assert running.stop().code == 0
