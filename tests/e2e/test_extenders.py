"""Extenders on a real control plane: a small extender filters, prioritizes and binds, and pods hear what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.extender import ExtenderServer, Refusal
from support.live import NAME, PODS, create_node, create_pod, message, nodes_of_pods, until
from support.served import TIMEOUT, Ended, Served, command, ended, write_config

GPU = "example.com/gpu"


@contextmanager
def scheduling(plane: ControlPlane, folder: Path, **fields: Any) -> Iterator[tuple[Served, list[Ended]]]:
    """Run a scheduler with these fields in its configuration; how it ended is there after the block."""
    kubeconfig = plane.kubeconfig(by_token(plane.tokens[SCHEDULER])).write(folder / "kubeconfig")
    served, line = command("--config", write_config(folder, kubeconfig, **fields))
    process = plane.spawn(NAME, line)
    process.wait_until(served.ready, TIMEOUT)
    outcome: list[Ended] = []
    yield served, outcome
    outcome.append(ended(process.stop(TIMEOUT), process.log.read_text()))


def bind(plane: ControlPlane, args: dict[str, str]) -> None:
    """Do what an extender does that binds; several threads may at once."""
    rest = plane.rest()
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": args["PodName"], "uid": args["PodUID"]},
        "target": {"kind": "Node", "name": args["Node"]},
    }
    rest.create(f"{PODS}/{args['PodName']}/binding", body)
    rest.close()


def test_an_extender_filters_prioritizes_and_binds(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    for name in ("n1", "n2", "n3"):
        create_node(rest, name, "8")

    def keep(args: dict[str, Any]) -> dict[str, Any]:
        items = [node for node in args["Nodes"]["items"] if node["metadata"]["name"] != "n1"]
        return {"Nodes": {"items": items}, "FailedNodes": {"n1": "busy"}}

    def bound(args: dict[str, str]) -> dict[str, str]:
        bind(plane, args)
        return {}

    with ExtenderServer(filter=keep, prioritize=lambda _: [{"Host": "n3", "Score": 10}], bind=bound) as server:
        extender = {"urlPrefix": server.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5, "bindVerb": "bind"}
        with scheduling(plane, tmp_path, extenders=[extender]) as (served, outcome):
            for i in range(5):
                create_pod(rest, f"p{i}", "1")
            until(lambda: list(nodes_of_pods(rest).values()).count("n3") == 5)
            until(lambda: 'result="scheduled"} 5' in served.get("/metrics")[1])
        assert outcome[0].code == 0
        assert outcome[0].of("error") == []
        assert {args["Pod"]["metadata"]["name"] for args in server.calls("filter")} == {f"p{i}" for i in range(5)}
        whole = server.calls("filter")[0]["Nodes"]["items"][0]
        assert (whole["status"]["allocatable"]["cpu"], whole["metadata"]["uid"] != "") == ("8", True)
        assert len(server.calls("bind")) == 5
        assert server.connections <= 16


def test_a_pod_reports_what_an_extender_says_and_retried_when_anything_changes(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "8")
    answers: dict[str, Any] = {"now": {"NodeNames": [], "FailedNodes": {"n1": "busy"}}}
    with ExtenderServer(filter=lambda _: answers["now"]) as server:
        extender = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True}
        with scheduling(plane, tmp_path, extenders=[extender]):
            create_pod(rest, "p", "1")
            until(lambda: message(rest, "p").startswith("0/1 nodes are available: 1 busy."))
            answers["now"] = {"NodeNames": ["n1"]}
            rest.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"any": "thing"}}})
            until(lambda: nodes_of_pods(rest)["p"] == "n1")


def test_an_extender_that_is_down_holds_back_its_own_pods_only(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "8")
    answers: dict[str, Any] = {"now": Refusal(500, "out of order")}
    with ExtenderServer(filter=lambda _: answers["now"]) as server:
        managed = [{"name": GPU, "ignoredByScheduler": True}]
        extender = {"urlPrefix": server.url, "filterVerb": "filter", "nodeCacheCapable": True, "managedResources": managed}
        ignorable = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": True}
        with scheduling(plane, tmp_path, extenders=[ignorable, extender]):
            requests = {"cpu": "1", GPU: "1"}
            container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": {GPU: "1"}}}
            spec = {"schedulerName": "default-scheduler", "containers": [container]}
            rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu"}, "spec": spec})
            create_pod(rest, "plain", "1")
            until(lambda: nodes_of_pods(rest)["plain"] == "n1")
            said = f"failed filter with extender at URL {server.url}/filter, code 500: out of order"
            until(lambda: message(rest, "gpu") == said)
            answers["now"] = {"NodeNames": ["n1"]}
            until(lambda: nodes_of_pods(rest)["gpu"] == "n1")
