"""The differential test itself must see what differs, and must be the same test for the same seed."""

from __future__ import annotations

from random import Random

import pytest
import yaml
from support.differential.clusters import GeneratedCluster, cluster
from support.differential.comparison import differences
from support.differential.features import Feature, available
from support.differential.ours import Judgement
from support.differential.pods import Circumstances, pending_pod
from support.differential.reference import Decision, first_refusal, scores
from support.differential.reproduction import Case, report, scenario
from support.differential.scoring import Score

from koordsched.api.kinds import kind_of
from koordsched.api.validation import validate
from koordsched.plugins import REGISTRY

ALL = frozenset(Feature)
FULL = "0/1 nodes are available: 1 Insufficient cpu."


def bound(node: str, **weighted: int) -> Decision:
    return Decision(node, "", "", {node: dict(weighted)}, [])


def best(*nodes: str, **weighted: int) -> Judgement:
    scored = {plugin: Score(value, value, value) for plugin, value in weighted.items()}
    return Judgement(frozenset(nodes), "", "", dict.fromkeys(nodes, scored))


def refused(message: str, nominated: str = "", evicted: tuple[int, ...] = ()) -> Decision:
    return Decision("", message, nominated, {}, [], evicted)


def judged(message: str, nominated: str = "", evicted: tuple[int, ...] = ()) -> Judgement:
    return Judgement(frozenset(), message, nominated, {}, evicted)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (bound("n1", Fit=50), best("n1", Fit=50)),
        (bound("n1", Fit=50, DynamicResources=0), best("n1", Fit=50)),  # a plugin that has nothing to say
        (refused(FULL), judged(FULL)),
        (refused(f"{FULL} not found"), judged(f"{FULL} no new claims to deallocate, preemption: ...")),
        (refused(FULL, "n1", (0, 5)), judged(FULL, "n2", (0, 5))),  # equally good nodes
    ],
)
def test_equal_answers_do_not_differ(theirs: Decision, ours: Judgement) -> None:
    assert differences(theirs, ours) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        (bound("n1", Fit=50), best("n2", Fit=50), "the reference chose n1, our best are n2"),
        (bound("n1", Fit=50), best("n1", Fit=49), "Fit on n1: the reference 50, ours 49"),
        (bound("n1", Fit=50), best("n1", Image=0), "Fit on n1: the reference 50, ours None"),
        (bound("n1", Fit=50), best("n1", "n2", Fit=50), "the reference scored the nodes n1; we found feasible n1, n2"),
        (bound("n1"), judged(FULL), f"the reference: bound to n1\nours:          {FULL}"),
        (refused(FULL), best("n1"), f"the reference: {FULL}\nours:          best are n1"),
        (refused(FULL), judged(FULL.replace("cpu", "memory")), f"the reference: {FULL}\nours:          {FULL.replace('cpu', 'memory')}"),
        (refused(FULL, "n1"), judged(FULL), "the reference nominated n1, we nominated no node"),
        (refused(FULL, "n1", (0,)), judged(FULL, "n1", (0, 0)), "the reference evicted pods of the priorities (0,), we (0, 0)"),
    ],
)
def test_every_difference_is_reported(theirs: Decision, ours: Judgement, message: str) -> None:
    assert message in differences(theirs, ours)


def test_scores_are_read_from_the_log() -> None:
    line = 'I1 schedule_one.go:830] "Plugin scored node for pod" pod="default/p" plugin="NodeResourcesFit" node="n1" score=-3'
    assert scores([line, "anything else", line.replace("n1", "n2").replace("-3", "7")]) == {
        "n1": {"NodeResourcesFit": -3},
        "n2": {"NodeResourcesFit": 7},
    }


def generated(seed: int) -> tuple[GeneratedCluster, list[object]]:
    random = Random(seed)
    made = cluster(random, ALL)
    return made, [pending_pod(random, f"p{i}", Circumstances(ALL, made.claims)) for i in range(20)]


def test_a_seed_always_makes_the_same_cluster_and_pods() -> None:
    assert generated(5) == generated(5)
    assert generated(5) != generated(6)


def test_what_is_made_is_valid() -> None:
    for seed in range(20):
        made, pods = generated(seed)
        for body in [*made.objects, *pods]:
            assert isinstance(body, dict)
            kind = kind_of(body["apiVersion"], body["kind"])
            assert kind is None or validate(kind, body) == []


def test_all_features_are_generated() -> None:
    assert available(REGISTRY) == ALL
    assert Feature.VOLUMES not in available(REGISTRY.keys() - {"VolumeZone"})


def test_a_case_is_reported_as_a_scenario_with_both_schedulers_scores() -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u"},
        "status": {"allocatable": {"cpu": "4"}, "phase": ""},
    }
    running = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r", "namespace": "one"}, "spec": {"nodeName": "n1"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"runtimeClassName": "heavy", "containers": []}}
    theirs, ours = Decision("n1", "", "", {}, ["a line of its log"]), best("n2", Fit=50)
    case = Case("seed-1-cluster-0-pod-0", [node, running], [running], pod, theirs, ours, ["they differ"])
    assert yaml.safe_load(scenario(case)) == {
        "name": "seed-1-cluster-0-pod-0",
        "why": "The reference does so.",
        "config": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"},
        "given": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}, "phase": ""}},
            running,
        ],
        "steps": [
            {"delete": [{"kind": "Pod", "name": "r", "namespace": "one"}]},
            {"create": [{**pod, "spec": {"containers": [], "overhead": {"cpu": "250m", "memory": "120Mi"}}}]},
            {"expect": {"pods": {"default/p": {"node": "n1"}}}},
        ],
    }
    shown = report(case)
    assert "# differs: they differ" in shown
    assert "#   n2: 50 = Fit 50/50/50" in shown
    assert "#   a line of its log" in shown


def test_a_refusal_that_no_watch_saw_is_read_from_the_log() -> None:
    lines = [
        'I1 preemption.go:327] "the target node for the preemption is determined" node="n3" pod="default/p"',
        'I1 schedule_one.go:1066] "Unable to schedule pod; no fit; waiting" pod="default/p" err="claim \\"c\\" not found."',
        'I1 schedule_one.go:1066] "Unable to schedule pod; no fit; waiting" pod="default/p" err="later"',
    ]
    assert first_refusal(lines) == ('claim "c" not found.', "n3")
    assert first_refusal(["anything else"]) == ("", "")
