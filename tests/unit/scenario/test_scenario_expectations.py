"""Every expectation: when it holds, and what is said when it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koordsched.api.kinds import CONFIG_MAP, NODE_RESOURCE_TOPOLOGY
from koordsched.cluster.port import Ref
from koordsched.manifests.strict import StrictReader
from koordsched.scenario.cluster import HttpAnswer
from koordsched.scenario.expectations import differences
from koordsched.scenario.format_expect import read_expect
from koordsched.scenario.observation import Seen

STATUS = "scheduling.koordinator.sh/resource-status"
DEVICES = "scheduling.koordinator.sh/device-allocated"
TOPOLOGY = "node.koordinator.sh/cpu-topology"

Json = dict[str, Any]


def pod(name: str, node: str = "", *, message: str | None = None, reason: str = "Unschedulable", **more: Any) -> Json:
    conditions = [] if message is None else [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
    metadata = {"name": name, "namespace": "default", "labels": more.get("labels", {}), "annotations": more.get("annotations", {})}
    if more.get("terminating"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = {"conditions": conditions, "nominatedNodeName": more.get("nominated", "")}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


def seen(*pods: Json, **more: Any) -> Seen:
    return Seen(pods={f"default/{item['metadata']['name']}": item for item in pods}, **more)


def said(moment: Seen, block: Json) -> list[str]:
    reader = StrictReader("f: document 1")
    expect = read_expect(reader, block, "expect")
    assert reader.mistakes == []
    return [str(difference) for difference in differences(moment, expect)]


def said_of(item: Json, rule: Json) -> list[str]:
    return said(seen(item), {"pods": {item["metadata"]["name"]: rule}})


BOUND = pod("a", "n1")
REFUSED = pod("a", message="0/1 nodes are available: 1 Insufficient cpu.")
GATED = pod("a", message="Scheduling is blocked", reason="SchedulingGated")
UNTRIED = pod("a")
LEAVING = pod("a", "n1", terminating=True)


@pytest.mark.parametrize(
    ("item", "rule", "expected"),
    [
        (BOUND, {"node": "n1"}, None),
        (BOUND, {"node": "n2"}, "default/a: expected on n2, seen bound to n1"),
        (BOUND, {"node": {"in": ["n1", "n2"]}}, None),
        (BOUND, {"node": {"in": ["n2", "n3"]}}, "default/a: expected on n2 or n3, seen bound to n1"),
        (BOUND, {"node": {"not": "n2"}}, None),
        (BOUND, {"node": {"not": ["n1", "n2"]}}, "default/a: expected on a node other than n1 or n2, seen bound to n1"),
        (UNTRIED, {"node": {"not": "n2"}}, "default/a: expected on a node other than n2, seen not bound and not tried"),
        (REFUSED, {"pending": True}, None),
        (REFUSED, {"pending": "Insufficient cpu"}, None),
        (
            REFUSED,
            {"pending": "Insufficient memory"},
            "default/a: expected pending with 'Insufficient memory', "
            "seen not bound: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (BOUND, {"pending": True}, "default/a: expected pending, seen bound to n1"),
        (UNTRIED, {"pending": True}, "default/a: expected pending, seen not bound and not tried"),
        (GATED, {"pending": True}, "default/a: expected pending, seen not bound: SchedulingGated: Scheduling is blocked"),
        (BOUND, {"pending": False}, None),
        (
            REFUSED,
            {"pending": False},
            "default/a: expected not pending, seen not bound: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (GATED, {"gated": True}, None),
        (UNTRIED, {"gated": True}, None),
        (BOUND, {"gated": True}, "default/a: expected held back before scheduling, seen bound to n1"),
        (BOUND, {"gated": False}, None),
        (LEAVING, {"gone": True}, None),
        (BOUND, {"gone": True}, "default/a: expected gone, seen bound to n1"),
        (LEAVING, {"gone": False}, "default/a: expected not gone, seen terminating on n1"),
        (pod("a", nominated="n2"), {"nominated": "n2"}, None),
        (UNTRIED, {"nominated": "n2"}, "default/a: expected nominated to 'n2', seen nominated to '', not bound and not tried"),
    ],
)
def test_a_pods_state(item: Json, rule: Json, expected: str | None) -> None:
    assert said_of(item, rule) == ([] if expected is None else [expected])


def test_a_pod_that_does_not_exist_is_gone_and_nothing_else() -> None:
    assert said(seen(), {"pods": {"a": {"gone": True}}}) == []
    assert said(seen(), {"pods": {"ns/a": {"node": "n1"}}}) == ["ns/a: expected exists, seen no such pod"]
    assert said(seen(), {"pods": {"a": {"gone": False}}}) == ["default/a: expected not gone, seen no such pod"]


@pytest.mark.parametrize(
    ("text", "expected", "difference"),
    [
        ("x", "x", None),
        ("x", "y", "default/a: expected annotation k equals 'y', seen 'x'"),
        ("5", 5, None),
        ("true", True, None),
        ("6", 5, "default/a: expected annotation k equals 5, seen '6'"),
        (None, None, None),
        ("x", None, "default/a: expected annotation k absent, seen 'x'"),
        (None, "x", "default/a: expected annotation k equals 'x', seen it is absent"),
        ('{"gpu": [{"minor": 0, "id": "u"}]}', {"gpu": [{"minor": 0}]}, None),
        ('{"gpu": [{"minor": 1}]}', {"gpu": [{"minor": 0}]}, "default/a: expected annotation k contains "),
        ("[1, 2]", [2], None),
        ("{", {"a": 1}, "default/a: expected annotation k contains "),
    ],
)
def test_annotations_are_equal_or_contain_what_is_expected(text: str | None, expected: Any, difference: str | None) -> None:
    item = pod("a", "n1", annotations={} if text is None else {"k": text})
    found = said_of(item, {"annotations": {"k": expected}})
    assert found == [] if difference is None else found[0].startswith(difference)


# Two sockets of one NUMA node each, two cores of two threads: CPUs 0-3 on NUMA node 0, 4-7 on 1; core ids repeat per socket.
DETAIL = [{"id": cpu, "core": cpu // 2 % 2, "socket": cpu // 4, "node": cpu // 4} for cpu in range(8)]
MACHINE = {"n1": {"metadata": {"name": "n1", "annotations": {TOPOLOGY: json.dumps({"detail": DETAIL})}}}}


def holding(cpus: str, name: str = "a", node: str = "n1") -> Json:
    return pod(name, node, annotations={STATUS: json.dumps({"cpuset": cpus})})


@pytest.mark.parametrize(
    ("cpus", "rule", "expected"),
    [
        ("0-3", {"count": 4, "numa": [0], "from": "0-7", "not": "4-7", "fullCores": True, "equals": "0,1-3"}, None),
        ("0-3", {"count": 3}, "a cpuset of 3 CPUs"),
        ("0-3", {"numa": [1]}, "CPUs of NUMA node 1"),
        ("0,4", {"numa": [0]}, "CPUs of NUMA node 0"),
        ("0,4", {"numa": [1, 0]}, None),
        ("0-3", {"from": "0-2"}, "CPUs from 0-2"),
        ("", {"from": "0-2"}, "CPUs from 0-2"),
        ("0-3", {"not": 3}, "CPUs not of 3"),
        ("0-3", {"equals": "0-2"}, "cpuset equals 0-2"),
        ("0-1", {"fullCores": True}, None),
        ("0,2", {"fullCores": True}, "full physical cores"),
        ("0,4", {"fullCores": True}, "full physical cores"),
        ("0,4", {"fullCores": False}, None),
        ("0-1", {"fullCores": False}, "partly used physical cores"),
        ("", {"count": 0, "not": "0-7"}, None),
    ],
)
def test_facts_of_a_cpuset(cpus: str, rule: Json, expected: str | None) -> None:
    found = said(seen(holding(cpus), of_nodes={NODE_RESOURCE_TOPOLOGY: MACHINE}), {"pods": {"a": {"cpuset": rule}}})
    if expected is None:
        assert found == []
    else:
        assert found[0].startswith(f"default/a: expected {expected}, seen cpuset '{cpus}' (bound to n1;")


def test_a_pod_without_cpus_of_its_own_has_the_numa_nodes_of_its_resources() -> None:
    text = json.dumps({"numaNodeResources": [{"node": 1, "resources": {"cpu": "4"}}]})
    item = pod("a", "n1", annotations={STATUS: text})
    assert said(seen(item, of_nodes={NODE_RESOURCE_TOPOLOGY: MACHINE}), {"pods": {"a": {"cpuset": {"numa": [1]}}}}) == []
    assert len(said(seen(item, of_nodes={NODE_RESOURCE_TOPOLOGY: MACHINE}), {"pods": {"a": {"cpuset": {"numa": [0]}}}})) == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"cpuset": "x"}', '{"cpuset": 5, "numaNodeResources": 3}'])
def test_an_unreadable_annotation_holds_nothing_and_raises_nothing(text: str) -> None:
    item = pod("a", "n1", annotations={STATUS: text, DEVICES: text})
    broken = {"n1": {"metadata": {"name": "n1", "annotations": {TOPOLOGY: '{"detail": [5, {"id": "x"}, {}]}'}}}}
    assert len(said(seen(item, of_nodes={NODE_RESOURCE_TOPOLOGY: broken}), {"pods": {"a": {"cpuset": {"count": 4}}}})) == 1
    assert said(seen(item, {**item, "metadata": {**item["metadata"], "name": "b"}}), {"disjoint": ["a", "b"]}) == []


def devices(**minors: Any) -> str:
    return json.dumps({kind: [{"minor": minor, "resources": resources} for minor, resources in held] for kind, held in minors.items()})


WHOLE = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi", "koordinator.sh/gpu-memory-ratio": "100"}
HALF = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (holding("0-1"), holding("2-3", "b"), None),
        (holding("0-1"), holding("1-2", "b"), "default/a and default/b hold different CPUs, seen both hold 1 of n1"),
        (holding("0-1"), holding("0-1", "b", "n2"), None),
        (
            pod("a", "n1", annotations={DEVICES: devices(gpu=[(0, WHOLE)])}),
            pod("b", "n1", annotations={DEVICES: devices(gpu=[(1, WHOLE), (0, WHOLE)])}),
            "default/a and default/b hold different devices, seen both hold gpu 0 of n1",
        ),
        (
            pod("a", "n1", annotations={DEVICES: devices(gpu=[(0, HALF)])}),
            pod("b", "n1", annotations={DEVICES: devices(gpu=[(0, HALF)])}),
            None,
        ),
        (
            pod("a", "n1", annotations={DEVICES: devices(gpu=[(0, WHOLE)])}),
            pod("b", "n1", annotations={DEVICES: devices(rdma=[(0, {"koordinator.sh/rdma": 100})])}),
            None,
        ),
    ],
)
def test_disjoint_pods_share_no_cpu_and_no_whole_device_of_a_node(first: Json, second: Json, expected: str | None) -> None:
    assert said(seen(first, second), {"disjoint": ["a", "b"]}) == ([] if expected is None else [f"disjoint: expected {expected}"])


def test_disjoint_pods_must_exist() -> None:
    assert said(seen(holding("0")), {"disjoint": ["a", "b"]}) == ["disjoint: expected default/b exists, seen no such pod"]


def test_bound_and_pending_pods_are_counted_by_label() -> None:
    moment = seen(
        pod("a", "n1", labels={"x": "1"}), pod("b", "n1"), pod("c", labels={"x": "1"}), REFUSED | {"metadata": pod("d")["metadata"]}
    )
    assert said(moment, {"bound": 2, "pending": 2}) == []
    assert said(moment, {"bound": {"selector": {"x": "1"}, "count": 1}, "pending": {"selector": {"x": "1"}, "count": 1}}) == []
    assert said(moment, {"bound": 3, "pending": 0}) == [
        "bound: expected 3 pods, seen 2 (default/a, default/b)",
        "pending: expected 0 pods, seen 2 (default/c, default/d)",
    ]


def test_same_and_distinct_nodes_need_bound_pods() -> None:
    moment = seen(pod("a", "n1"), pod("b", "n1"), pod("c", "n2"), pod("d"))
    assert said(moment, {"samenode": [["a", "b"]], "distinctnodes": [["a", "c"], ["b", "c"]]}) == []
    assert said(moment, {"samenode": [["a", "c"]]}) == [
        "samenode: expected default/a, default/c on one node, seen default/a bound to n1, default/c bound to n2"
    ]
    assert len(said(moment, {"samenode": [["a", "d"]], "distinctnodes": [["a", "b"], ["a", "d"], ["a", "none"]]})) == 4


def test_the_nodes_of_pods_carry_one_value_of_a_label() -> None:
    nodes = {
        name: {"metadata": {"name": name, "labels": labels}} for name, labels in {"n1": {"z": "1"}, "n2": {"z": "1"}, "n3": {}}.items()
    }
    moment = seen(pod("a", "n1"), pod("b", "n2"), pod("c", "n3"), pod("d"), nodes=nodes)
    assert said(moment, {"samelabel": [{"key": "z", "pods": ["a", "b"]}]}) == []
    for other in ("c", "d"):
        assert len(said(moment, {"samelabel": [{"key": "z", "pods": ["a", other]}]})) == 1


def test_objects_contain_a_subset_or_do_not_exist() -> None:
    ref = Ref(CONFIG_MAP, "default", "c")
    rule = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}
    there, none = seen(objects={ref: {"data": {"a": "1", "b": "2"}}}), seen(objects={ref: None})
    assert said(there, {"objects": [{**rule, "has": {"data": {"a": "1"}}}]}) == []
    assert said(there, {"objects": [{**rule, "has": {"data": {"a": "2"}}}]}) == [
        'ConfigMap default/c: expected has {"data":{"a":"2"}}, seen data.a is \'1\''
    ]
    assert said(there, {"objects": [{**rule, "gone": True}]}) == ["ConfigMap default/c: expected gone, seen exists"]
    assert said(none, {"objects": [{**rule, "gone": True}]}) == []
    assert said(none, {"objects": [{**rule, "has": {}}]}) == ["ConfigMap default/c: expected exists, seen no such object"]


def test_events_of_either_api_are_found_by_reason_and_text() -> None:
    new = {"regarding": {"kind": "Pod", "namespace": "default", "name": "a"}, "reason": "FailedScheduling", "note": "0/1 nodes"}
    old = {"involvedObject": {"kind": "Pod", "namespace": "ns", "name": "b"}, "reason": "Scheduled", "message": "assigned"}
    moment = seen(events=[new, old])
    rules = [{"pod": "a", "reason": "FailedScheduling", "contains": "0/1"}, {"pod": "ns/b", "reason": "Scheduled"}]
    assert said(moment, {"events": rules}) == []
    assert said(moment, {"events": [{"pod": "a", "reason": "Scheduled", "contains": "x"}, {"pod": "c", "reason": "Scheduled"}]}) == [
        "events of default/a: expected Scheduled with 'x', seen FailedScheduling: 0/1 nodes",
        "events of default/c: expected Scheduled, seen no event",
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, None),
        ({"contains": "name"}, None),
        ({"contains": {"a": {"b": 1}}}, None),
        ({"status": 404}, 'status 404, seen 200 {"a": {"b": 1, "name": 2}}'),
        ({"contains": "other"}, 'text with \'other\', seen {"a": {"b": 1, "name": 2}}'),
        ({"contains": {"a": {"b": 2}}}, 'contains {"a":{"b":2}}, seen a.b is 1'),
    ],
)
def test_what_the_secure_port_answers(rule: Json, expected: str | None) -> None:
    answer = HttpAnswer(200, b'{"a": {"b": 1, "name": 2}}')
    found = said(seen(answers={"/x": answer}), {"http": [{"path": "/x", **rule}]})
    assert found == ([] if expected is None else [f"GET /x: expected {expected}"])


def test_a_text_that_is_no_json_contains_no_map() -> None:
    answer = HttpAnswer(200, b"ok")
    assert said(seen(answers={"/x": answer}), {"http": [{"path": "/x", "contains": {"a": 1}}]}) == [
        'GET /x: expected contains {"a":1}, seen no JSON: ok'
    ]
