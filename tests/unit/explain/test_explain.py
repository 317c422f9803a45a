"""`explain`: what is said of a pod, and that every door says the same."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.explained import explained, node, pod, workload_of

from koordsched.api.kinds import EVENT, NODE, POD, SCHEDULE_EXPLANATION
from koordsched.cli import main
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.explain.command import ExplainOptions, run_explain
from koordsched.serve.endpoints import Endpoints
from koordsched.server.http import HttpRequest
from koordsched.simulate.simulation import Simulation

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
THREE_NODES = [
    node("n1"),
    node("n2", "16", "64Gi", taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
    node("n3", "8", "16Gi", unschedulable=True),
]
OLD = pod("old", {"cpu": "1500m", "memory": "1Gi"}, nodeName="n1")
WEB = pod("web", {"cpu": "3", "memory": "2Gi"})


def test_each_single_change_is_stated_at_its_smallest() -> None:
    found = explained([*THREE_NODES, OLD, WEB])
    assert [(each.text, each.fits, each.node) for each in found.changes] == [
        ("request 2500m of cpu instead of 3", 1, "n1"),
        ("tolerate the taint gpu=true:NoSchedule", 1, "n2"),
        ("uncordon node n3", 1, "n3"),
        ("add 1 node like n1", 1, "n1-added-1"),
        ("add 1 node like n3", 1, "n3-added-1"),
        ("move default/old away from node n1", 1, "n1"),
    ]


def test_nodes_are_counted_by_plugin_and_reason() -> None:
    found = explained([*THREE_NODES, OLD, WEB], changes=False)
    assert [(each.plugin, each.reason, each.count, list(each.nodes), each.eviction_might_help) for each in found.reasons] == [
        ("NodeResourcesFit", "Insufficient cpu", 1, ["n1"], True),
        ("NodeUnschedulable", "node(s) were unschedulable", 1, ["n3"], False),
        ("TaintToleration", "node(s) had untolerated taint(s)", 1, ["n2"], False),
    ]
    assert found.trials == 0


def test_two_changes_are_stated_where_no_single_one_suffices() -> None:
    found = explained([node("n1"), pod("web", {"cpu": "9"}, nodeSelector={"zone": "a"})])
    assert [each.text for each in found.changes] == [
        "request 4 of cpu instead of 9, and drop zone=a from nodeSelector",
        "request 4 of cpu instead of 9, and label node n1 with zone=a",
    ]


def test_two_items_of_one_list_are_dropped_together() -> None:
    zone, disk = ({"key": key, "operator": "Exists"} for key in ("zone", "disk"))
    terms = [{"matchExpressions": [zone, disk]}]
    of_nodes: Json = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    assert "drop the required node affinity zone Exists, and drop the required node affinity disk Exists" in pairs(affinity=of_nodes)
    near: list[Json] = [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "none"}}} for key in ("zone", "kubernetes.io/hostname")
    ]
    dropped = "drop the required podAffinity term on zone, and drop the required podAffinity term on kubernetes.io/hostname"
    assert pairs(affinity={"podAffinity": {REQUIRED: near}}) == [dropped]
    spread = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
        for key in ("zone", "disk")
    ]
    dropped = "drop the topology spread constraint on zone, and drop the topology spread constraint on disk"
    assert dropped in pairs(topologySpreadConstraints=spread)


def pairs(**spec: Any) -> list[str]:
    found = explained([node("n1"), pod("web", {"cpu": "1"}, labels={"app": "web"}, **spec)])
    assert all(len(each.changes) == 2 for each in found.changes)
    return [each.text for each in found.changes]


def test_a_gated_pod_is_explained() -> None:
    found = explained([node("n1"), pod("web", {"cpu": "1"}, schedulingGates=[{"name": "example.com/wait"}])])
    assert found.message == "Scheduling is blocked due to non-empty scheduling gates"
    assert [each.text for each in found.changes] == ["remove the scheduling gates example.com/wait"]


def test_a_gang_without_enough_members_is_explained() -> None:
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3},
    }
    found = explained([node("n1"), group, pod("web", {"cpu": "1"}, labels={"pod-group.scheduling.sigs.k8s.io": "g"})])
    assert [each.text for each in found.changes] == ["create 2 more members of gang g", "lower the minimum of gang g from 3 to 1 members"]


def test_a_quota_is_raised_by_what_is_missing_and_its_holders_are_named() -> None:
    label = {"quota.scheduling.koordinator.sh/name": "team"}
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"max": {"cpu": "4"}, "min": {"cpu": "4"}},
    }
    old = pod("old", {"cpu": "3"}, labels=label, nodeName="n1")
    found = explained([node("n1", "40"), quota, old, pod("web", {"cpu": "3"}, labels=label)])
    assert [each.text for each in found.changes] == [
        "raise max of quota team by 2 of cpu, max to 6 (held by default/old 3)",
        "request 1 of cpu instead of 3",
        "move default/old away from node n1",
    ]


def test_a_change_that_would_evict_is_none() -> None:
    old = pod("old", {"cpu": "4"}, nodeName="n1", priority=0)
    found = explained([node("n1"), old, pod("web", {"cpu": "9"}, priority=1000)])
    assert "request 0 of cpu instead of 9" in [each.text for each in found.changes]


def test_a_pod_that_fits_gets_the_scores_of_its_decision() -> None:
    found = explained([node("n1"), node("n2", "8"), WEB])
    assert (found.state, found.node) == ("would be placed", found.scores[0].node)
    assert {each.node for each in found.scores} == {"n1", "n2"}
    assert all(each.total == sum(each.plugins.values()) for each in found.scores)
    assert found.scores[0].total >= found.scores[1].total


def test_condition_event_scheduleexplanation_endpoint_and_command_line_say_the_same() -> None:
    objects = [*THREE_NODES, OLD, WEB]
    options = EmbeddedOptions(config=default_config(), flags=Flags(enable_network_topology_manager=True), lasting=True)

    async def script(embedded: EmbeddedCluster) -> tuple[list[str], list[Any]]:
        await Simulation(workload_of(objects), embedded, None).play(30.0)
        question = {"metadata": {"namespace": "default", "name": "why"}, "spec": {"questionObjectKey": "default/web"}}
        await embedded.create(SCHEDULE_EXPLANATION, question)
        await embedded.sleep(7.0)
        condition = embedded.cluster.raw(Ref(POD, "default", "web"))["status"]["conditions"][0]["message"]
        event = next(raw["note"] for raw in embedded.cluster.raws(EVENT) if raw["reason"] == "FailedScheduling")
        written = embedded.cluster.raw(Ref(SCHEDULE_EXPLANATION, "default", "why"))["status"]
        answer = await Endpoints(embedded.scheduler).answer(HttpRequest.of("GET", "/apis/v1/explain/default/web"))
        served = json.loads(answer.body)
        texts = [condition, event, written["failedMessage"], served["failedMessage"]]
        return texts, [each["detailedExplanation"][0]["scheduleExplanation"]["nodeFailedDetails"] for each in (written, served)]

    texts, details = run_embedded(options, script)
    said = explained(objects, changes=False)
    assert texts == [said.message] * 4
    by_plugin = {(each["failedPlugin"], each["reason"]): each["failedNodes"] for each in details[0]}
    assert details[0] == details[1]
    assert by_plugin == {(each.plugin, each.reason): list(each.nodes) for each in said.reasons}


# The command line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "cluster.json"
    made.write_text("\n".join(json.dumps(each) for each in (*THREE_NODES, OLD, WEB)))
    return made


def run(**options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run_explain(ExplainOptions(**options), out, err), out.getvalue(), err.getvalue()


def test_a_dry_run_explains_a_pod_that_the_cluster_does_not_have(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps(pod("new", {"cpu": "2"})))
    code, out, err = run(file=str(new), inputs=(str(file),))
    assert (code, err) == (0, "")
    assert out.startswith("Pod default/new would be placed on node n1.\n")


def test_only_one_node_is_shown(file: Path) -> None:
    code, out, _ = run(pod="web", inputs=(str(file),), node="n2", output="json")
    assert code == 0
    assert [(each["plugin"], each["nodes"]) for each in json.loads(out)["reasons"]] == [("TaintToleration", ["n2"])]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"pod": "wep"}, "the input has no pod default/wep; did you mean default/web?\n"),
        (
            {"pod": "qqqqqqqqqqqqqqqqqq"},
            "the input has no pod default/qqqqqqqqqqqqqqqqqq, of 2 pods; -f FILE explains a pod that is not there yet, "
            "also one of a Deployment or the like\n",
        ),
        ({"pod": "web", "node": "n9"}, "the input has no node n9\n"),
        ({"pod": "web", "config": "/no/such/file"}, "/no/such/file: document 1: (root): cannot be read: No such file or directory\n"),
    ],
)
def test_mistakes_end_in_one_line(file: Path, options: Json, line: str) -> None:
    assert run(inputs=(str(file),), **options) == (1, "", line)


def test_the_subcommand_takes_a_pod_and_files(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.log._quiet", False)
    assert main(["explain", "web", str(file), "--no-changes"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Pod default/web is pending.\n  0/3 nodes are available: 1 Insufficient cpu")
    assert "What would let it run" not in shown.out


def test_a_copy_of_a_cluster_has_its_objects_and_neither_sees_later_writes_of_the_other() -> None:
    options = EmbeddedOptions(config=default_config(), flags=Flags())

    async def script(embedded: EmbeddedCluster) -> None:
        await embedded.create(NODE, THREE_NODES[0])
        copy = embedded.cluster.copy(Random("copy"))
        assert copy.raw(Ref(NODE, "", "n1"))["metadata"]["uid"] == embedded.cluster.raw(Ref(NODE, "", "n1"))["metadata"]["uid"]
        await copy.create(NODE, THREE_NODES[1])
        await embedded.delete(Ref(NODE, "", "n1"))
        assert [raw["metadata"]["name"] for raw in copy.raws(NODE)] == ["n1", "n2"]
        assert embedded.cluster.raws(NODE) == []

    run_embedded(options, script)


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cluster.json"
    file.write_text("\n".join(json.dumps(each) for each in [*THREE_NODES, OLD, WEB]))
    options = ExplainOptions(pod="web", inputs=(str(file),))
    for term, terminal, shown in (("xterm", True, True), ("dumb", True, False), ("xterm", False, False)):
        monkeypatch.setenv("TERM", term)
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(err, "isatty", lambda terminal=terminal: terminal)
        assert run_explain(options, out, err) == 0
        assert [text in err.getvalue() for text in ("reading the files", "trying what would let it run")] == [shown, shown]
        assert out.getvalue().startswith("Pod default/web is pending.")


@pytest.mark.parametrize(
    ("api_version", "kind", "place"),
    [
        ("apps/v1", "Deployment", ("template",)),
        ("batch/v1", "CronJob", ("jobTemplate", "spec", "template")),
        ("x.io/v1", "Rollout", ("template",)),
    ],
)
def test_a_dry_run_explains_a_pod_of_a_template_where_there_is_no_pod(
    file: Path, tmp_path: Path, api_version: str, kind: str, place: tuple[str, ...]
) -> None:
    template: Json = {"metadata": {"labels": {"app": "shop"}}, "spec": pod("", {"cpu": "9"})["spec"]}
    for key in reversed(place):
        template = {key: template}
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "shop"}, "spec": template}
    (tmp_path / "shop.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [body]}))
    code, out, err = run(file=str(tmp_path / "shop.json"), inputs=(str(file),), namespace="team", changes=False)
    assert code == 0
    assert out.startswith("Pod team/shop is pending.\n  0/3 nodes are available: 1 Insufficient cpu")
    assert err == f"note: {tmp_path}/shop.json: document 1: items[0]: explained is one pod of this template\n"


def test_a_dry_run_of_a_file_without_pods_is_a_mistake(file: Path, tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text(json.dumps(node("n9")))
    assert run(file=str(tmp_path / "node.json"), inputs=(str(file),)) == (
        1,
        "",
        f"{tmp_path}/node.json: no pending pod and no pod template in it\n",
    )


def test_a_dry_run_of_a_priority_class_that_is_not_there_is_refused_until_the_file_brings_it(file: Path, tmp_path: Path) -> None:
    new, submitted = tmp_path / "new.json", pod("new", {"cpu": "1"}, priorityClassName="high")
    new.write_text(json.dumps(submitted))
    code, out, err = run(file=str(new), inputs=(str(file),), changes=False)
    assert (code, err) == (0, "")
    refusal = 'pods "new" is forbidden: no PriorityClass with name high was found'
    assert out.startswith(f"Pod default/new is refused by the API server.\n  {refusal}\n")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    new.write_text(json.dumps(submitted) + "\n" + json.dumps(high))
    assert run(file=str(new), inputs=(str(file),), changes=False)[1].startswith("Pod default/new would be placed on node n1.")


def test_that_the_input_has_no_nodes_is_noted(tmp_path: Path) -> None:
    (tmp_path / "web.json").write_text(json.dumps(WEB))
    code, out, err = run(pod="web", inputs=(str(tmp_path / "web.json"),), changes=False)
    assert (code, out.splitlines()[:2]) == (0, ["Pod default/web is pending.", "  no nodes available to schedule pods"])
    assert err == "note: the input has no nodes; those of a cluster are written by kubectl get nodes,pods -A -o yaml > cluster.yaml\n"
