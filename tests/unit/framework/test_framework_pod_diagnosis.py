"""PodDiagnosis: grouping of the nodes that refuse a pod, and its renderings (frameworkext.md §4.2)."""

from __future__ import annotations

import json

from koordsched.framework.pod_diagnosis import FailedNodes, PodDiagnosis, PreemptionRecord, node_details
from koordsched.framework.status import Code, Status
from koordsched.scheduler.explanations.rendering import MOST_NODES, diagnosis_body, diagnosis_line, explanation_status, limited


def status(plugin: str, reason: str, *, resolvable: bool = True) -> Status:
    return Status(Code.UNSCHEDULABLE if resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), plugin)


def pod(name: str = "p", **fields: object) -> PodDiagnosis:
    known: dict[str, object] = {"question": f"default/{name}", **fields}
    return PodDiagnosis(namespace="default", name=name, uid=f"uid-{name}", timestamp=1_700_000_000.0, **known)  # type: ignore[arg-type]


def test_nodes_are_grouped_by_plugin_reason_and_whether_evictions_might_help() -> None:
    found = node_details(
        [
            FailedNodes(status("B", "x"), ["n3"]),
            FailedNodes(status("A", "y", resolvable=False), ["n5"]),
            FailedNodes(status("A", "y"), ["n4"]),
            FailedNodes(status("A", "x"), ["n2"]),
            FailedNodes(status("B", "x"), ["n1"]),
        ]
    )
    assert [(each.failed_plugin, each.reason, each.preempt_might_help, each.failed_nodes) for each in found] == [
        ("A", "x", True, ("n2",)),
        ("A", "y", True, ("n4",)),
        ("A", "y", False, ("n5",)),
        ("B", "x", True, ("n1", "n3")),
    ]


def test_the_log_line_has_koordinators_keys_in_order_and_leaves_out_what_is_empty() -> None:
    line = diagnosis_line(pod(failed_nodes=[FailedNodes(status("A", "x", resolvable=False), ["n1"])]))
    head, _, body = line.partition("$")
    assert head == "dump diagnosis for default/p, targetPod: default/p/uid-p: "
    assert body == (
        '{"timestamp":"2023-11-14T22:13:20Z","questionedKey":"default/p","isRootCausePod":true,"scheduleDiagnosis":{"alreadyWaitForBound":0,'
        '"nodeFailedDetails":[{"failedPlugin":"A","reason":"x","preemptMightHelp":false,"failedNodes":["n1"]}]},"preemptionDiagnosis":null}'
    )


def test_every_key_is_where_it_belongs() -> None:
    record = PreemptionRecord()
    record.plugin, record.trigger, record.pods, record.message = "Coscheduling", "default/p", 3, "no room"
    record.placed, record.failed_nodes = 1, [FailedNodes(status("A", "x"), ["n2"])]
    found = pod(
        question="default/g",
        nominated_node="n9",
        topology_key="blockLayer",
        is_root_cause=False,
        pre_filter_message="incomplete",
        placed_members=2,
        slots={"n2": 1, "n1": 4},
        failed_nodes=[FailedNodes(status("A", "x"), ["n1"])],
        preemption=record,
    )
    body = json.loads(json.dumps(diagnosis_body(found)))
    assert list(body) == [
        *("timestamp", "questionedKey", "nominatedNode", "preFilterMessage", "topologyKeyToExplain", "isRootCausePod"),
        *("scheduleDiagnosis", "preemptionDiagnosis"),
    ]
    assert body["scheduleDiagnosis"] == {"alreadyWaitForBound": 2, "nodeOfferSlot": {"n1": 4, "n2": 1}}  # no nodes with a PreFilter message
    dry_run, other = body["preemptionDiagnosis"]["dryRunFilterDiagnosis"], body["preemptionDiagnosis"]["otherDiagnosis"]
    assert (dry_run["alreadyWaitForBound"], dry_run["nodeFailedDetails"][0]["failedNodes"]) == (1, ["n2"])
    assert other == {"TriggerPodKey": "default/p", "preemptorKey": "default/g", "message": "no room", "unschedulablePodsNumber": 2}


def test_all_renderings_say_the_same() -> None:
    found = pod(message="0/1 nodes are available: 1 x.", failed_nodes=[FailedNodes(status("A", "x"), ["n1"])])
    (explained,) = explanation_status([found]).detailed_explanation
    assert explained.schedule_explanation is not None
    (detail,) = explained.schedule_explanation.node_failed_details
    (logged,) = diagnosis_body(found)["scheduleDiagnosis"]["nodeFailedDetails"]
    assert (detail.failed_plugin, detail.reason, detail.preempt_might_help, detail.failed_nodes) == tuple(logged.values())


def test_pods_with_and_without_a_node_are_listed_apart_and_the_root_cause_speaks() -> None:
    found = explanation_status([pod("a", node="n1"), pod("b", is_root_cause=False, message="because of c"), pod("c", message="no room")])
    (explained,) = found.detailed_explanation
    assert explained.schedule_explanation is not None
    assert (found.schedulable, found.failed_message) == (False, "no room")
    assert [(each.name, each.node_name) for each in explained.schedule_explanation.feasible_scheduling_result] == [("a", "n1")]


def test_pods_that_all_have_nodes_are_schedulable() -> None:
    found = explanation_status([pod("a", node="n1"), pod("b", node="n2")])
    assert (found.schedulable, found.failed_message) == (True, "")


def test_pods_that_are_all_nominated_are_schedulable_after_preemption() -> None:
    record = PreemptionRecord()
    record.plugin, record.nominated = "DefaultPreemption", {"default/a": "n1"}
    found = explanation_status([pod("a", nominated_node="n1", preemption=record)])
    (explained,) = found.detailed_explanation
    assert (found.schedulable, found.schedulable_after_preemption) == (False, True)
    assert explained.preempt_explanation is not None
    assert explained.preempt_explanation.schedulable
    assert explained.preempt_explanation.feasible_scheduling_result[0].node_name == "n1"
    assert not explanation_status([pod("a", nominated_node="n1"), pod("b")]).schedulable_after_preemption


def test_a_status_has_every_reason_but_not_every_one_of_very_many_nodes() -> None:
    many = [f"n{i}" for i in range(MOST_NODES)]
    shown = limited(node_details([FailedNodes(status("A", "x"), many), FailedNodes(status("B", "y"), many)]))
    assert [(each.failed_plugin, len(each.failed_nodes)) for each in shown] == [("A", MOST_NODES), ("B", 0)]
