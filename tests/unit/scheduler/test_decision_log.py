"""What --debug-scores, --debug-filters and --debug-diagnosis log (frameworkext.md §4.2 and §4.4)."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs
from support.fakes import FakeScore, node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to

from koordsched.api.kinds import NODE, POD
from koordsched.clock import RealClock
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.pod_diagnosis import FailedNodes
from koordsched.framework.status import Code, Status
from koordsched.log import Style, Verbatim, get_logger, write_logs
from koordsched.scheduler.explanations.decision_log import refusal_lines, score_table
from koordsched.scheduler.explanations.log_queue import LogQueue

TAINT = {"key": "k", "effect": "NoSchedule"}


def logged(lines: Any, beginning: str) -> list[str]:
    return [line["event"] for line in lines if line["event"].startswith(beginning)]


async def two_full_nodes_and_a_tainted_one(world: EmbeddedCluster) -> None:
    """A pod that asks for more cpu than n1 and n3 have, and does not tolerate n2's taint."""
    for name in ("n3", "n1"):
        await world.create(NODE, node_manifest(name, "1"))
    tainted = node_manifest("n2", "8")
    tainted["spec"] = {"taints": [TAINT]}
    await world.create(NODE, tainted)
    await world.start()
    await world.create(POD, pod_manifest("big", "2"))
    await world.settle()


# Scores


def test_the_table_is_koordinators_markdown_with_the_best_first() -> None:
    scores = [("A", np.array([10, 30, 20])), ("B", np.array([5, 0, 10]))]
    assert score_table(2, "default/p", ["n1", "n2", "n3"], scores) == "\n".join(
        [
            "Top2 scores for Pod: default/p, feasibleNodes: 3, plugins:[A B]",
            "| # | Pod | Node | Score | A | B |",
            "| --- | --- | --- | ---:| ---:| ---:|",
            "| 0 | default/p | n2 | 30 | 30 | 0 |",
            "| 1 | default/p | n3 | 30 | 20 | 10 |",
        ]
    )


class Ranked(FakeScore):
    """Scores nodes in the order of their rows: 1, 2, 3."""

    def score_nodes(self, _state: Any, _pod: Any, nodes: Any) -> Any:
        return nodes.rows.astype(np.int64) + 1


async def test_a_pod_with_three_feasible_nodes_has_a_table_of_the_two_best(stage: Stage) -> None:
    """frameworkext.md §10, 30."""
    with capture_logs() as lines:
        async with stage((Ranked(), "score"), args=["-s=2"]) as world:
            await begin(world, nodes="n1 n2 n3")
            node = bound_to(world)
    (table,) = logged(lines, "Top2 scores for Pod: default/p, feasibleNodes: 3")
    rows = [row.split(" | ") for row in table.splitlines()[3:]]
    assert [row[0] for row in rows] == ["| 0", "| 1"]
    assert rows[0][2] == node == "n3"
    head = [cell.strip(" |") for cell in table.splitlines()[1].split(" | ")]
    assert [row[head.index(Ranked().name)].strip(" |") for row in rows] == ["3", "2"]
    totals = [sum(int(cell.strip(" |")) for cell in row[4:]) for row in rows]
    assert totals == [int(row[3]) for row in rows]


async def test_nodes_that_were_looked_at_and_that_pass_are_counted_for_a_pod_that_gets_one(stage: Stage) -> None:
    """frameworkext.md §10, 33."""
    async with stage() as world:
        await begin(world, pod_manifest("p"), pod_manifest("big", "1000"), nodes="n1 n2 n3")
        assert bound_to(world, "p") != bound_to(world, "big") == ""
        lines = world.scheduler.metrics.text().decode().splitlines()
    for what in ("evaluated", "feasible"):
        assert {f"scheduler_pod_scheduling_{what}_nodes_count 1.0", f"scheduler_pod_scheduling_{what}_nodes_sum 3.0"} <= set(lines)


async def test_the_choice_is_the_same_with_and_without_the_table(stage: Stage) -> None:
    pods = [pod_manifest(f"p{i}") for i in range(6)]
    nodes = []
    for args in ([], ["-s=3", "-f"]):
        async with stage((FakeScore(), "score"), args=args) as world:
            await begin(world, *pods, nodes="n1 n2 n3")
            nodes.append([bound_to(world, f"p{i}") for i in range(6)])
    assert nodes[0] == nodes[1]


async def test_one_feasible_node_is_not_scored(stage: Stage) -> None:
    with capture_logs() as lines:
        async with stage(args=["-s=2"]) as world:
            await begin(world)
    assert logged(lines, "Top") == []


# Filters


def test_a_refusal_is_one_line_a_node_in_koordinators_words() -> None:
    failed = [FailedNodes(Status(Code.UNSCHEDULABLE, ("a", "b"), "X"), ["n1", "n2"])]
    assert list(refusal_lines("default/p", failed)) == [
        f'Failed to filter for Pod "default/p" on Node "{node}", failedPlugin: X, schedulingPhaseBeingInvoked: Filter, reason: a, b'
        for node in ("n1", "n2")
    ]


async def test_each_node_that_a_filter_refuses_is_logged_for_pods_that_find_one_too(stage: Stage) -> None:
    with capture_logs() as lines:
        async with stage(args=["-f"]) as world:
            await world.create(NODE, node_manifest("n1", "1"))
            await world.create(NODE, node_manifest("n2", "4"))
            await world.start()
            await world.create(POD, pod_manifest("p", "2"))
            await world.settle()
            assert bound_to(world) == "n2"
    assert logged(lines, "Failed to filter") == [
        'Failed to filter for Pod "default/p" on Node "n1", failedPlugin: NodeResourcesFit, schedulingPhaseBeingInvoked: Filter, '
        "reason: Insufficient cpu"
    ]


async def test_nothing_is_logged_while_nothing_is_turned_on_and_flags_may_change_while_it_runs(stage: Stage) -> None:
    with capture_logs() as lines:
        async with stage() as world:
            await two_full_nodes_and_a_tainted_one(world)
            assert not [line for line in lines if line["event"].startswith(("Failed to filter", "dump diagnosis", "Top"))]
            world.scheduler.explanations.switches.filters = True
            await world.create(POD, pod_manifest("other", "3"))
            await world.settle()
    assert len(logged(lines, 'Failed to filter for Pod "default/other"')) == 3


# Diagnosis


def diagnoses(lines: Any) -> list[Any]:
    return [json.loads(line.split("$", 1)[1]) for line in logged(lines, "dump diagnosis for ")]


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_failed_pod_is_diagnosed(stage: Stage, *, blocking: bool) -> None:
    """frameworkext.md §10, 32."""
    with capture_logs() as lines:
        async with stage(args=["-d", f"--debug-diagnosis-blocking={str(blocking).lower()}"]) as world:
            await two_full_nodes_and_a_tainted_one(world)
    (found,) = diagnoses(lines)
    assert (found["questionedKey"], found["isRootCausePod"]) == ("default/big", True)
    assert found["scheduleDiagnosis"] == {
        "alreadyWaitForBound": 0,
        "nodeFailedDetails": [
            {"failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu", "preemptMightHelp": False, "failedNodes": ["n1", "n3"]},
            {
                "failedPlugin": "TaintToleration",
                "reason": "node(s) had untolerated taint(s)",
                "preemptMightHelp": False,
                "failedNodes": ["n2"],
            },
        ],
    }


async def test_a_pod_that_evicts_others_is_diagnosed_with_its_victims(stage: Stage) -> None:
    with capture_logs() as lines:
        async with stage(args=["-d"]) as world:
            await world.create(NODE, node_manifest("n1", "2"))
            await world.start()
            for name in ("low", "lower"):
                await world.create(POD, pod_manifest(name, "1", priority=1))
            await world.settle()
            await world.create(POD, pod_manifest("high", "2", priority=10))
            await asyncio.sleep(0.05)
    found = diagnoses(lines)[0]["preemptionDiagnosis"]
    assert found["dryRunFilterDiagnosis"]["alreadyWaitForBound"] == 1
    other = found["otherDiagnosis"]
    assert (other["TriggerPodKey"], other["podToNominatedNode"]) == ("default/high", {"default/high": "n1"})
    (victims,) = other["victims"]
    assert (victims["nodeName"], [each["name"] for each in victims["possibleVictims"]]) == ("n1", ["low", "lower"])


async def test_why_evictions_do_not_help_is_diagnosed_by_node(stage: Stage) -> None:
    """n1 stays too small without its pod of lower priority; n2 has none."""
    with capture_logs() as lines:
        async with stage(args=["-d"]) as world:
            for name in ("n1", "n2"):
                await world.create(NODE, node_manifest(name, "4"))
            for name, node, cpu, priority in (("low", "n1", "1", 1), ("peer", "n1", "3", 10), ("other", "n2", "4", 10)):
                await world.create(POD, pod_manifest(name, cpu, priority=priority, nodeName=node))
            await world.start()
            await world.create(POD, pod_manifest("high", "2", priority=10))
            await world.settle()
    found = diagnoses(lines)[0]["preemptionDiagnosis"]
    assert [(each["reason"], each["failedNodes"]) for each in found["dryRunFilterDiagnosis"]["nodeFailedDetails"]] == [
        ("No preemption victims found for incoming pod", ["n2"]),
        ("Insufficient cpu", ["n1"]),
    ]
    assert found["otherDiagnosis"]["unschedulablePodsNumber"] == 1


# Texts and the queue


def test_a_table_is_not_quoted_in_a_text_log() -> None:
    stream = io.StringIO()
    write_logs(Style("text", RealClock().now, stream))
    try:
        get_logger("x").info(Verbatim("| a |\n| b |"))
        get_logger("x").info("| a |\n| b |")
    finally:
        write_logs(None)
    plain, rest = stream.getvalue().split("x] ")[1:]
    assert plain.startswith("| a |\n| b |\n")
    assert rest == '"| a |\\n| b |"\n'


async def test_a_full_queue_drops_with_a_warning() -> None:
    queue = LogQueue("Diagnosis", 1, 10, RealClock())
    with capture_logs() as lines:
        queue.put("default/a", lambda: ["first"])
        queue.put("default/b", lambda: ["second"])
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0.01)
        queue.put("default/c", lambda: ["third"])
        await asyncio.sleep(0.01)
        task.cancel()
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "Diagnosis queue is full, dropping diagnosis for default/b"),
        ("info", "first"),
        ("info", "third"),
    ]
