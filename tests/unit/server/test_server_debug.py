"""/debug: cache, queue and their comparison with the cluster, as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.embedded import AnsweringCluster
from support.fakes import config_with, embedded, node_manifest, pod_manifest

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ServerError
from koordsched.log import set_verbosity, verbosity
from koordsched.serve.endpoints import Endpoints, Response
from koordsched.server.http import HttpRequest


@pytest_asyncio.fixture
async def world() -> AsyncIterator[AnsweringCluster]:
    """n1 with a bound pod and n2; a pod that fits nowhere. The scheduler has not started."""
    async with embedded(asyncio.get_running_loop(), damaged=True) as made:
        for name in ("n1", "n2"):
            await made.create(NODE, node_manifest(name))
        await made.create(POD, pod_manifest("bound", nodeName="n1"))
        await made.create(POD, pod_manifest("big", "9"))
        yield made


async def shown(world: AnsweringCluster, target: str) -> Any:
    response = await world.http(target)
    assert (response.status, response.content_type) == (200, "application/json")
    return msgspec.json.decode(response.body)


async def test_the_cache_is_shown(world: AnsweringCluster) -> None:
    await world.start()
    found = await shown(world, "/debug/cache")
    assert (found["nodes_total"], found["pods_total"]) == (2, 1)
    assert [(each["name"], each["pods"], each["requested"]) for each in found["nodes"]] == [
        ("n1", 1, {"pods": 1, "cpu": 1000}),
        ("n2", 0, {}),
    ]


async def test_the_queue_is_shown(world: AnsweringCluster) -> None:
    await world.start()
    await world.settle()
    found = await shown(world, "/debug/queue")
    (pod,) = found["unschedulable"]["pods"]
    assert (pod["pod"], pod["rejectors"], pod["message"]) == (
        "default/big",
        ["NodeResourcesFit"],
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    )


async def test_a_limit_cuts_what_is_shown(world: AnsweringCluster) -> None:
    await world.start()
    found = await shown(world, "/debug/cache?limit=1")
    assert (found["nodes_total"], [each["name"] for each in found["nodes"]]) == (2, ["n1"])
    assert (await shown(world, "/debug/queue?limit=0"))["unschedulable"]["pods"] == []


@pytest.mark.parametrize("limit", ["", "-1", "many", "1.5", "²", "5001", "9" * 80])
async def test_a_limit_that_is_no_number_is_refused(world: AnsweringCluster, limit: str) -> None:
    response = await world.http(f"/debug/cache?limit={limit}")
    assert response.status == 400
    assert response.body.decode() == f"bad request: limit must be a number from 0 to 5000, not {limit!r}\n"


async def test_a_comparison_says_first_whether_all_is_well(world: AnsweringCluster) -> None:
    await world.start()
    await world.settle()
    found = await shown(world, "/debug/compare")
    assert next(iter(found.items())) == ("ok", True)
    assert (found["nodes"], found["pods"], found["missed_nodes"], found["wrong_nodes"]) == (2, 2, [], [])


async def test_a_comparison_names_what_differs(world: AnsweringCluster) -> None:
    await world.start()
    await world.settle()
    cache = world.scheduler.cache
    cache.remove_node("n2")
    cache.columns.set_labels(cache.nodes_by_name["n1"].row, {}, {"zone": "b"})
    found = await shown(world, "/debug/compare")
    assert (found["ok"], found["missed_nodes"]) == (False, ["n2"])
    assert found["wrong_nodes"] == [{"node": "n1", "column": "label zone", "cached": "b", "actual": ""}]


async def test_there_is_no_comparison_before_everything_was_listed(world: AnsweringCluster) -> None:
    response = await world.http("/debug/compare")
    assert (response.status, response.body) == (503, b"handlers are not fully synchronized\n")


async def test_a_list_that_fails_is_said_in_one_line(world: AnsweringCluster) -> None:
    await world.start()
    world.cluster.faults.rules.append(Fault(verb="list", error=lambda: ServerError("etcd is away")))
    response = await world.http("/debug/compare")
    assert (response.status, response.body) == (503, b"no fresh list to compare with, try again: etcd is away\n")


@pytest.mark.parametrize("what", ["cache", "queue", "compare", "pprof/", "pprof/profile", "flags", "flags/v"])
async def test_without_profiling_there_is_no_debug(what: str) -> None:
    config = config_with({}, enableProfiling=False)
    async with embedded(asyncio.get_running_loop(), config) as world:
        await world.start()
        assert (await world.http(f"/debug/{what}")).status == 404


async def ask(world: AnsweringCluster, target: str, method: str = "GET", body: bytes = b"") -> Response:
    return await Endpoints(world.scheduler).answer(HttpRequest.of(method, target, body=body))


async def test_the_verbosity_is_set_by_a_put(world: AnsweringCluster) -> None:
    before = verbosity()
    try:
        for body in (b"7", b"7\n"):
            set_verbosity(before)
            response = await ask(world, "/debug/flags/v", "PUT", body)
            assert (response.status, response.body, verbosity()) == (200, b"successfully set klog.logging.verbosity to 7\n", 7)
    finally:
        set_verbosity(before)


@pytest.mark.parametrize("body", ["x", "-1", "", "1.5", "4294967296"])
async def test_a_verbosity_that_is_none_is_refused_in_the_words_of_go(world: AnsweringCluster, body: str) -> None:
    before = verbosity()
    response = await ask(world, "/debug/flags/v", "PUT", body.encode())
    assert (response.status, verbosity()) == (400, before)
    why = "value out of range" if body == "4294967296" else "invalid syntax"
    assert response.body.decode() == f'strconv.ParseUint: parsing "{body}": {why}\n'


@pytest.mark.parametrize("flag", ["v", "s", "f", "d", "db"])
async def test_flags_can_only_be_put(world: AnsweringCluster, flag: str) -> None:
    response = await ask(world, f"/debug/flags/{flag}")
    assert (response.status, response.body) == (406, b"unsupported http method\n")


@pytest.mark.parametrize(
    ("flag", "body", "switch", "value"),
    [
        ("s", "5", "top_scores", 5),
        ("s", "-1\n", "top_scores", -1),
        ("f", "true", "filters", True),
        ("f", "F", "filters", False),
        ("d", "1 \n", "diagnosis", True),
        ("db", "TRUE", "blocking", True),
    ],
)
async def test_what_is_logged_of_decisions_is_set_in_koordinators_words(
    world: AnsweringCluster, flag: str, body: str, switch: str, value: object
) -> None:
    """frameworkext.md §1.5: f, d and db share a text; what stands behind the value is left out."""
    response = await ask(world, f"/debug/flags/{flag}", "PUT", body.encode())
    called = "debugTopNScores" if flag == "s" else "debugFilterFailure"
    assert (response.status, response.body.decode()) == (200, f"successfully set {called} to {body.rstrip()}\n")
    assert getattr(world.scheduler.explanations.switches, switch) == value


@pytest.mark.parametrize(
    ("flag", "body", "error"),
    [
        ("s", "x", 'failed set debugTopNScores x: strconv.Atoi: parsing "x": invalid syntax'),
        ("s", "0x1", 'failed set debugTopNScores 0x1: strconv.Atoi: parsing "0x1": invalid syntax'),
        (
            "s",
            "9223372036854775808",
            'failed set debugTopNScores 9223372036854775808: strconv.Atoi: parsing "9223372036854775808": value out of range',
        ),
        ("f", "x", 'failed set debugFilterFailure x: strconv.ParseBool: parsing "x": invalid syntax'),
        ("d", "", 'failed set debugFilterFailure : strconv.ParseBool: parsing "": invalid syntax'),
        ("db", "yes", 'failed set debugFilterFailure yes: strconv.ParseBool: parsing "yes": invalid syntax'),
    ],
)
async def test_a_value_that_is_none_changes_nothing(world: AnsweringCluster, flag: str, body: str, error: str) -> None:
    switches = world.scheduler.explanations.switches
    response = await ask(world, f"/debug/flags/{flag}", "PUT", body.encode())
    assert (response.status, response.body.decode()) == (400, f"{error}\n")
    assert (switches.top_scores, switches.filters, switches.diagnosis, switches.blocking) == (0, False, False, False)


async def test_the_index_names_all_flags(world: AnsweringCluster) -> None:
    body = (await ask(world, "/debug/flags")).body.decode()
    assert "flags:<br>d<br>db<br>f<br>s<br>v<br>" in body


@pytest.mark.parametrize("target", ["/debug/flags", "/debug/flags/", "/debug/flags/nothing", "/debug/pprof/"])
async def test_flags_and_profiles_have_an_index(world: AnsweringCluster, target: str) -> None:
    response = await ask(world, target)
    assert (response.status, response.content_type) == (200, "text/html; charset=utf-8")


async def test_the_index_of_profiles_is_where_go_has_it(world: AnsweringCluster) -> None:
    response = await ask(world, "/debug/pprof")
    assert (response.status, response.location) == (302, "/debug/pprof/")


async def test_tasks_are_listed_by_what_they_wait_for(world: AnsweringCluster) -> None:
    async def patient() -> None:
        await asyncio.Event().wait()

    waiting = [asyncio.create_task(patient()) for _ in range(3)]
    await asyncio.sleep(0)
    body = (await ask(world, "/debug/pprof/goroutine?debug=1")).body.decode()
    for task in waiting:
        task.cancel()
    assert body.startswith(
        f"task profile: total {len(waiting) + 2}\n\n3 @\n#\ttest_tasks_are_listed_by_what_they_wait_for.<locals>.patient:"
    )
    assert "\n#\tEvent.wait:" in body


async def test_threads_are_described(world: AnsweringCluster) -> None:
    assert "thread profile: total" in (await ask(world, "/debug/pprof/threadcreate")).body.decode()
    assert "#\tMainThread\n" in (await ask(world, "/debug/pprof/threadcreate")).body.decode()


async def test_an_unknown_profile_is_a_404(world: AnsweringCluster) -> None:
    response = await ask(world, "/debug/pprof/nothing")
    assert (response.status, response.body) == (404, b"Unknown profile\n")
