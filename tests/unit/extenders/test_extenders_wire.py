"""What is said to extenders and how their answers are read (k8s.io/kube-scheduler/extender/v1)."""

from __future__ import annotations

import json

import pytest
from support.builders import node, pod

from koordsched.framework.handle import Victims
from koordsched.scheduler.extenders import wire
from koordsched.scheduler.extenders.wire import ExtenderVictims, FilteredNodes, MalformedResponse

POD = pod("p").cpu("2").label("app", "x").node_selector({"disk": "ssd"}).build()


def test_whole_nodes_are_written_as_kubernetes_writes_them() -> None:
    given = json.loads(wire.nodes_args(POD, [node("n1").cpu("4").taint("k", "NoSchedule").build()], names_only=False))
    assert given["NodeNames"] is None
    assert given["Pod"]["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert given["Pod"]["spec"]["containers"] == [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    (item,) = given["Nodes"]["items"]
    assert (item["metadata"]["name"], item["status"]["allocatable"]["cpu"]) == ("n1", "4")
    assert item["spec"]["taints"] == [{"key": "k", "effect": "NoSchedule"}]


def test_an_extender_with_a_cache_gets_names() -> None:
    given = json.loads(wire.nodes_args(POD, [node("n1").build(), node("n2").build()], names_only=True))
    assert (given["NodeNames"], given["Nodes"]) == (["n1", "n2"], None)


def test_victims_are_written_whole_or_by_uid() -> None:
    victims = {"n1": Victims((pod("v").info(),), 2)}
    whole = json.loads(wire.preemption_args(POD, victims, uids_only=False))
    assert whole["NodeNameToMetaVictims"] is None
    assert whole["NodeNameToVictims"]["n1"]["NumPDBViolations"] == 2
    assert whole["NodeNameToVictims"]["n1"]["Pods"][0]["metadata"]["name"] == "v"
    meta = json.loads(wire.preemption_args(POD, victims, uids_only=True))
    assert meta["NodeNameToVictims"] is None
    assert meta["NodeNameToMetaVictims"] == {"n1": {"Pods": [{"UID": "uid-default-v"}], "NumPDBViolations": 2}}


def test_a_binding_names_pod_uid_and_node() -> None:
    assert json.loads(wire.binding_args(POD, "n1")) == {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-default-p", "Node": "n1"}


@pytest.mark.parametrize(
    ("answer", "names_only", "read"),
    [
        ('{"NodeNames": ["b", "a"]}', True, FilteredNodes(("b", "a"), {}, {})),
        ('{"nodenames": ["a"], "FAILEDNODES": {"B": "Busy"}}', True, FilteredNodes(("a",), {"B": "Busy"}, {})),
        ('{"Nodes": {"Items": [{"Metadata": {"NAME": "a"}}]}}', False, FilteredNodes(("a",), {}, {})),
        # one with a cache may still answer with nodes; one without may not answer with names
        ('{"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": null}', True, FilteredNodes(("a",), {}, {})),
        ('{"NodeNames": ["a"]}', False, FilteredNodes((), {}, {})),
        ('{"FailedAndUnresolvableNodes": {"a": "broken"}, "Unknown": 1, "Error": ""}', True, FilteredNodes((), {}, {"a": "broken"})),
        ("null", True, FilteredNodes((), {}, {})),
    ],
)
def test_answers_to_filter_are_read_as_go_reads_them(answer: str, names_only: bool, read: FilteredNodes) -> None:
    assert wire.read_filtered(answer.encode(), names_only=names_only) == read


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "the answer is no JSON"),
        ("{", "the answer is no JSON"),
        ("\xff", "the answer is no JSON"),
        ("[" * 100_000, "the answer is not what it must be: Expected `object | null`, got `array`"),
        ('{"x": ' + "[" * 100_000, "the answer is no JSON: maximum recursion depth exceeded"),
        ("3", "the answer is not what it must be: Expected `object | null`, got `int`: '3'"),
        ('{"Nodes": []}', "nodes: the answer is not what it must be: Expected `object | null`, got `array`: '[]'"),
        ('{"Nodes": {"items": [1]}}', "Expected `object | null`, got `int`: '1'"),
        ('{"Nodes": {"items": [{}]}}', "a node of the answer has no name"),
        ('{"FailedNodes": ["n1"]}', "failednodes: the answer is not what it must be: Expected `object | null`, got `array`"),
        ('"\xff"', "the answer is not what it must be: Expected `object | null`, got `str`"),
        ('{"Error": "\xff"}', "error: the answer is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"\xff": 1}', "the answer is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"FailedNodes": {"n1": "\xff"}}', "failednodes: the answer is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"Nodes": {"items": [{"metadata": {"name": "\xff"}}]}}', "name: the answer is no JSON: 'utf-8' codec can't decode byte 0xff"),
        ('{"Error": "sorry:\\n  no   room"}', "sorry: no room"),
    ],
)
def test_each_malformed_response_has_its_text(answer: str, said: str) -> None:
    with pytest.raises(MalformedResponse) as caught:
        wire.read_filtered(answer.encode("latin-1"), names_only=False)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


def test_scores_are_read_and_summed_by_host() -> None:
    assert wire.read_priorities(b'[{"Host": "a", "Score": 10}, {"HOST": "b"}, {"host": "a", "score": 0}]') == {"a": 10, "b": 0}
    assert wire.read_priorities(b"null") == {}


@pytest.mark.parametrize(
    "answer", ["{}", '[{"Host": "a", "Score": 11}]', '[{"Host": "a", "Score": -1}]', '[{"Host": "a", "Score": 1.5}]', "[3]"]
)
def test_scores_that_are_none_are_malformed(answer: str) -> None:
    with pytest.raises(MalformedResponse):
        wire.read_priorities(answer.encode())


def test_an_answer_to_preempt_names_victims_by_uid() -> None:
    answer = b'{"NodeNameToMetaVictims": {"Node-1": {"pods": [{"Uid": "u1"}, null], "numPDBViolations": 3}, "n2": null}}'
    assert wire.read_preempted(answer) == {"Node-1": ExtenderVictims(("u1",), 3), "n2": ExtenderVictims(())}


@pytest.mark.parametrize("answer", ['{"NodeNameToMetaVictims": []}', '{"NodeNameToMetaVictims": {"n": {"Pods": {}}}}', "[]"])
def test_an_answer_to_preempt_may_be_malformed(answer: str) -> None:
    with pytest.raises(MalformedResponse):
        wire.read_preempted(answer.encode())
