"""Endpoints: paths, codes and bodies are kube-scheduler's (framework.md §1.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from support.embedded import AnsweringCluster
from support.fakes import config_with, embedded, node_manifest

from koordsched.api.kinds import NODE
from koordsched.config.flags import parse_flags
from koordsched.serve.endpoints import METRICS, TEXT, Endpoints, ProcessContext, Response
from koordsched.server.health import BootstrapHandler
from koordsched.server.http import HttpRequest


@pytest_asyncio.fixture
async def world() -> AsyncIterator[AnsweringCluster]:
    """A world whose scheduler has not started."""
    config = config_with({}, podMaxBackoffSeconds=7, percentageOfNodesToScore=30)
    async with embedded(asyncio.get_running_loop(), config) as made:
        yield made


async def get(world: AnsweringCluster, target: str) -> tuple[int, str]:
    response = await ask(Endpoints(world.scheduler), target)
    return response.status, response.body.decode()


async def ask(answering: Endpoints | BootstrapHandler, target: str, method: str = "GET") -> Response:
    return await answering.answer(HttpRequest.of(method, target))


UNSYNCED = "handlers are not fully synchronized: nodes, pods, "


@pytest.mark.parametrize("target", ["/healthz", "/livez", "/healthz/ping", "/livez/ping", "/readyz/shutdown"])
async def test_a_process_that_runs_is_healthy_and_alive(world: AnsweringCluster, target: str) -> None:
    assert await get(world, target) == (200, "ok")


async def test_it_is_ready_only_when_everything_that_exists_was_handled(world: AnsweringCluster) -> None:
    status, body = await get(world, "/readyz")
    assert status == 500
    assert body.startswith(f"[+]shutdown ok\n[-]sched-handler-sync failed: {UNSYNCED}")
    assert body.endswith("\nreadyz check failed\n")
    status, body = await get(world, "/readyz/sched-handler-sync")
    assert (status, body.startswith(f"internal server error: {UNSYNCED}")) == (500, True)
    await world.start()
    assert await get(world, "/readyz") == await get(world, "/readyz/sched-handler-sync") == (200, "ok")


async def test_verbose_lists_every_check(world: AnsweringCluster) -> None:
    assert await get(world, "/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")
    status, body = await get(world, "/readyz?verbose=true")
    assert (status, body.startswith(f"[+]shutdown ok\n[-]sched-handler-sync failed: {UNSYNCED}")) == (500, True)


async def test_a_check_can_be_excluded(world: AnsweringCluster) -> None:
    assert await get(world, "/readyz?exclude=sched-handler-sync") == (200, "ok")
    assert await get(world, "/readyz?verbose&exclude=sched-handler-sync&exclude=ping") == (
        200,
        '[+]shutdown ok\n[+]sched-handler-sync excluded: ok\nwarn: some health checks cannot be excluded: no matches for "ping"\n'
        "readyz check passed\n",
    )


async def test_it_is_not_ready_any_more_while_it_shuts_down(world: AnsweringCluster) -> None:
    await world.start()
    endpoints = Endpoints(world.scheduler)
    assert (await ask(endpoints, "/readyz")).status == (await ask(endpoints, "/readyz/shutdown")).status == 200
    endpoints.shutting_down = True
    assert (await ask(endpoints, "/readyz")).status == 500
    assert (await ask(endpoints, "/readyz/shutdown")).body == b"internal server error: process is shutting down\n"
    assert (await ask(endpoints, "/livez")).status == (await ask(endpoints, "/healthz")).status == 200


async def test_outcomes_of_health_checks_are_metrics(world: AnsweringCluster) -> None:
    endpoints = Endpoints(world.scheduler)
    assert "kubernetes_healthcheck{" not in (await ask(endpoints, "/metrics/slis")).body.decode()
    await ask(endpoints, "/readyz?exclude=shutdown")
    await ask(endpoints, "/livez")
    await ask(endpoints, "/livez/ping")  # asked alone: not counted
    await world.start()
    await ask(endpoints, "/readyz?exclude=shutdown")
    response = await ask(endpoints, "/metrics/slis")
    assert (response.status, response.content_type) == (200, METRICS)
    samples = [line for line in response.body.decode().splitlines() if not line.startswith("#")]
    assert len(samples) == 5
    assert set(samples) == {
        'kubernetes_healthcheck{name="ping",type="livez"} 1.0',
        'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1.0',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="error",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="sched-handler-sync",status="success",type="readyz"} 1.0',
    }
    assert b"# TYPE kubernetes_healthchecks_total counter" in response.body


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/nothing",
        "/healthz/",
        "/healthz/nothing",
        "/readyz/ping",
        "//healthz",
        "//[",
        "/healthz/ping/more",
        "/livez/sched-handler-sync",
        "/metrics/nothing",
        "/debug",
        "/debug/nothing",
    ],
)
async def test_what_is_not_there_is_a_404(world: AnsweringCluster, target: str) -> None:
    assert await get(world, target) == (404, "404 page not found\n")


@pytest.mark.parametrize("target", ["/%68ealthz", "http://scheduler:10251/healthz?verbose=no", "/healthz?"])
async def test_a_path_is_decoded_before_it_is_looked_up(world: AnsweringCluster, target: str) -> None:
    assert (await get(world, target))[0] == 200


async def test_metrics_are_prometheus_text(world: AnsweringCluster) -> None:
    await world.create(NODE, node_manifest("n1"))
    await world.start()
    response = await world.http("/metrics")
    assert (response.status, response.content_type) == (200, METRICS)
    assert b'\nscheduler_cache_size{type="nodes"} 1.0\n' in response.body


async def test_deleting_the_metrics_resets_counts_but_not_what_is_so(world: AnsweringCluster) -> None:
    await world.create(NODE, node_manifest("n1"))
    await world.start()
    added = b'\nscheduler_event_handling_duration_seconds_count{event="NodeAdd"} %d.0\n'
    endpoints = Endpoints(world.scheduler)
    assert added % 1 in (await ask(endpoints, "/metrics")).body
    response = await ask(endpoints, "/metrics", "DELETE")
    assert (response.status, response.content_type, response.body) == (200, TEXT, b"metrics reset\n")
    body = (await ask(endpoints, "/metrics")).body
    assert added % 0 in body
    assert b'\nscheduler_cache_size{type="nodes"} 1.0\n' in body
    await world.create(NODE, node_manifest("n2"))
    await asyncio.sleep(60.0)  # what was shown before is kept for a moment
    assert added % 1 in (await ask(endpoints, "/metrics")).body


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("target", ["/configz", "/healthz", "/nothing"])
async def test_other_methods_get_what_get_gets(world: AnsweringCluster, method: str, target: str) -> None:
    endpoints = Endpoints(world.scheduler)
    assert await ask(endpoints, target, method) == await ask(endpoints, target)


async def test_deleting_the_outcomes_of_health_checks_forgets_them(world: AnsweringCluster) -> None:
    endpoints = Endpoints(world.scheduler)
    await ask(endpoints, "/healthz")
    assert (await ask(endpoints, "/metrics/slis", "DELETE")).body == b"metrics reset\n"
    assert b"kubernetes_healthcheck{" not in (await ask(endpoints, "/metrics/slis")).body


async def test_before_there_is_a_scheduler_only_health_and_process_metrics_are_answered() -> None:
    bootstrap = BootstrapHandler()
    assert [(await ask(bootstrap, target)).status for target in ("/healthz", "/readyz", "/metrics", "/configz", "/healthz/")] == [
        200,
        500,
        200,
        503,
        404,
    ]


async def test_a_front_hands_a_reset_on_and_adds_nothing_to_its_answer(world: AnsweringCluster) -> None:
    bootstrap = BootstrapHandler()
    bootstrap.hand_over(Endpoints(world.scheduler))
    assert (await ask(bootstrap, "/metrics", "DELETE")).body == b"metrics reset\n"


async def test_a_front_shows_neither_disabled_metrics_of_the_scheduler_nor_of_the_process() -> None:
    disabled = "process_open_fds", "scheduler_goroutines"
    flags = parse_flags([f"--disabled-metrics={','.join(disabled)}"])
    async with embedded(asyncio.get_running_loop(), config_with({}), flags=flags) as world:
        bootstrap = BootstrapHandler(flags)
        bootstrap.hand_over(Endpoints(world.scheduler, ProcessContext(process=bootstrap.metrics)))
        body = (await ask(bootstrap, "/metrics")).body.decode()
    assert "\nprocess_max_fds " in body
    assert "\n# HELP scheduler_cache_size " in body
    assert not [name for name in disabled if name in body]


async def test_configz_shows_the_configuration_with_the_names_of_the_internal_type(world: AnsweringCluster) -> None:
    response = await world.http("/configz")
    assert (response.status, response.content_type) == (200, "application/json")
    shown = msgspec.json.decode(response.body)["componentconfig"]
    assert (shown["PodMaxBackoffSeconds"], shown["PodInitialBackoffSeconds"], shown["PercentageOfNodesToScore"]) == (7, 1, 30)
    assert shown["LeaderElection"]["LeaseDuration"] == "15s"
    assert b'"QPS":50,' in response.body
    assert (shown["apiVersion"], shown["Extenders"]) == ("kubescheduler.config.k8s.io/v1", None)
    assert shown["Profiles"][0]["SchedulerName"] == "default-scheduler"
    assert [plugin["Name"] for plugin in shown["Profiles"][0]["Plugins"]["MultiPoint"]["Enabled"]][:2] == [
        "SchedulingGates",
        "PrioritySort",
    ]
