"""The life of a serving process: in which order things begin and end, and with what code."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import aiohttp
import pytest
from support.fakes import Late, config_with, node_manifest, pod_manifest
from support.serving import ALONE, HOST, TIMEOUT, FakeServer, serving, signal_self, until

import koordsched.plugins
from koordsched import tasks
from koordsched.api.kinds import EVENT, NODE, POD, Kind
from koordsched.cluster.apiserver import ConnectionSettings
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ListPage, ServerError
from koordsched.framework.handle import Handle
from koordsched.framework.interface import Plugin
from koordsched.server.connections import Connections


async def test_it_is_alive_from_the_beginning_and_ready_after_the_initial_lists(logged: Any) -> None:
    server = FakeServer()
    server.answers.clear()
    server.refusals = [ServerError("https://api:6443 cannot be reached: Connection refused")]
    async with serving(server) as served:
        reason = "[-]api-server failed: https://api:6443 cannot be reached: Connection refused\n"
        await until(lambda: served.answers_with("/readyz", 500, reason))
        assert await served.get("/healthz") == await served.get("/livez") == (200, "ok")
        assert (await served.get("/configz"))[0] == 503
        assert "process_resident_memory_bytes" in (await served.get("/metrics"))[1]
        await until(lambda: not server.refusals)
        server.answers.set()
        await served.ready()
        assert (await served.get("/configz"))[0] == 200
        metrics = (await served.get("/metrics"))[1]
        assert "scheduler_pending_pods{" in metrics
        assert "process_cpu_seconds_total" in metrics
        server.traffic.requests["bind", "pods"] += 3
        await until(lambda: served.answers_with("/metrics", 200, 'koord_scheduler_api_requests_total{resource="pods",verb="bind"} 3.0'))
    assert logged.of("warning")[0] == "waiting for the API server"
    assert logged.all()[0]["url"] == served.url
    assert served.run.result() == 0


async def test_it_is_not_ready_while_it_lists_and_says_what(logged: Any) -> None:
    server = FakeServer()
    server.faults.rules.append(Fault(verb="list", kind=POD, delay=0.3))
    waiting = "[-]sched-handler-sync failed: handlers are not fully synchronized: pods\n"
    async with serving(server) as served:
        await until(lambda: served.answers_with("/readyz", 500, waiting))
        await served.ready()


async def test_it_connects_as_the_configuration_and_the_flags_say() -> None:
    server = FakeServer()
    config = config_with({}, clientConnection={"kubeconfig": "/k", "qps": 5000, "burst": 6000}, **ALONE)
    async with serving(server, "--master=https://other:1", config=config) as served:
        await served.ready()
    assert server.settings == ConnectionSettings(kubeconfig="/k", master="https://other:1", qps=5000, burst=6000)


async def test_a_port_that_is_taken_ends_it_before_it_connects(logged: Any) -> None:
    server = FakeServer()
    with closing(socket.create_server((HOST, 0))) as taken:
        port = taken.getsockname()[1]
        async with serving(server, f"--port={port}") as served:
            assert await served.code() == 1
    assert logged.of("error") == [f"cannot listen on http://127.0.0.1:{port}: Address already in use"]
    assert server.settings is None


async def test_a_certificate_that_cannot_be_read_ends_it(logged: Any) -> None:
    async with serving(FakeServer(), "--secure-port=1", "--tls-cert-file=/no/crt", "--tls-private-key-file=/no/key") as served:
        assert await served.code() == 1
    assert logged.of("error") == ["--tls-cert-file /no/crt cannot be read: No such file or directory"]


async def test_what_can_never_work_ends_it_with_one_line(logged: Any) -> None:
    server = FakeServer()
    server.malformed = "kubeconfig /x cannot be read: No such file or directory"
    async with serving(server) as served:
        assert await served.code() == 1
    assert [(line["level"], line["msg"]) for line in logged.all()] == [("info", "listening"), ("error", server.malformed)]


async def test_an_extender_that_cannot_be_talked_to_ends_it_with_one_line(logged: Any) -> None:
    extender = {"urlPrefix": "https://e", "filterVerb": "filter", "tlsConfig": {"caFile": "/no/ca"}}
    async with serving(FakeServer(), config=config_with({}, extenders=[extender])) as served:
        assert await served.code() == 1
    assert logged.of("error") == ["extenders[0].tlsConfig.caFile: /no/ca: No such file or directory"]


async def test_a_plugin_whose_metric_is_another_ones_ends_it_with_one_line(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(_args: object, handle: Handle) -> Plugin:
        handle.metrics.counter("scheduler_schedule_attempts_total", "Attempts.")
        return Late("Counting")

    monkeypatch.setitem(koordsched.plugins.REGISTRY, "Counting", make)
    async with serving(FakeServer(), config=config_with({"Counting": "reserve"})) as served:
        assert await served.code() == 1
    (line,) = logged.of("error")
    assert line.startswith("plugin Counting cannot be made: metric scheduler_schedule_attempts_total is one of the scheduler's own")


async def test_it_can_be_stopped_while_it_waits_for_the_api_server() -> None:
    server = FakeServer()
    server.answers.clear()
    async with serving(server) as served:
        await until(lambda: served.answers_with("/livez", 200))
        signal_self(signal.SIGINT)
        assert await served.code() == 0
    assert server.closed


async def test_it_can_be_stopped_while_it_lists() -> None:
    server = FakeServer()
    server.faults.rules.append(Fault(verb="list", delay=60))
    async with serving(server) as served:
        await until(lambda: served.answers_with("/readyz", 500, "sched-handler-sync"))
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    assert server.closed


async def test_a_stop_is_seen_by_probes_and_finishes_what_was_begun(logged: Any) -> None:
    server = FakeServer()
    server.faults.rules.append(Fault(verb="bind", delay=0.5))
    await server.create(NODE, node_manifest("n1"))
    async with serving(server) as served:
        await served.ready()
        await server.create(POD, pod_manifest("a"))
        await until(lambda: server.calls["bind", POD])
        signal_self(signal.SIGTERM)
        await until(lambda: served.answers_with("/readyz", 500, "[-]shutdown failed: process is shutting down\n"))
        assert await served.get("/livez") == (200, "ok")
        await server.create(POD, pod_manifest("late"))
        assert await served.code() == 0
    assert server.nodes_of_pods() == {"a": "n1", "late": ""}
    assert [event["reason"] for event in server.raws(EVENT)] == ["Scheduled"]
    assert server.closed
    assert logged.of("error") == []


async def test_a_stop_that_takes_too_long_is_given_up_and_said(logged: Any) -> None:
    server = FakeServer()
    server.faults.rules.append(Fault(verb="bind", delay=60))
    await server.create(NODE, node_manifest("n1"))
    await server.create(POD, pod_manifest("a"))
    async with serving(server, stop_seconds=0.1) as served:
        await until(lambda: server.calls["bind", POD])
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    (error,) = [line for line in logged.all() if line["level"] == "error"]
    assert error["msg"] == "a clean stop took too long; the rest is given up"
    assert (error["binds_in_flight"], error["conditions_unwritten"], error["events_unwritten"]) == (1, 0, 0)
    assert server.closed


async def test_events_that_cannot_be_written_are_counted_when_a_stop_is_given_up(logged: Any) -> None:
    server = FakeServer()
    server.faults.rules.append(Fault(verb="create", kind=EVENT, error=lambda: ServerError("no")))
    await server.create(NODE, node_manifest("n1"))
    await server.create(POD, pod_manifest("a"))
    async with serving(server, stop_seconds=0.1) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    (error,) = [line for line in logged.all() if line["level"] == "error"]
    assert (error["binds_in_flight"], error["conditions_unwritten"], error["events_unwritten"]) == (0, 0, 1)


async def test_a_second_signal_ends_it_at_once() -> None:
    server, codes = FakeServer(), list[int]()
    server.faults.rules.append(Fault(verb="bind", delay=0.3))
    await server.create(NODE, node_manifest("n1"))
    await server.create(POD, pod_manifest("a"))
    async with serving(server, exit_at_once=codes.append) as served:
        await until(lambda: server.calls["bind", POD])
        signal_self(signal.SIGTERM)
        await until(lambda: served.answers_with("/readyz", 500))
        assert codes == []
        signal_self(signal.SIGINT)
        await until(lambda: codes)
        await served.code()
    assert codes == [1]


async def test_a_task_that_dies_ends_it(logged: Any) -> None:
    server = FakeServer()
    async with serving(server) as served:
        await served.ready()
        server.broken.set()
        assert await served.code() == 1
    (error,) = [line for line in logged.all() if line["level"] == "error"]
    assert error["msg"] == "a task that must run has ended, and so does the process"
    assert (error["task"], error["err"]) == ("informer of nodes", "RuntimeError('a bug')")
    assert "RuntimeError: a bug" in error["exception"]
    assert logged.all()[-1] == error
    assert server.closed


async def test_a_task_that_dies_while_starting_ends_it(logged: Any) -> None:
    server = FakeServer()

    async def list_(_kind: Kind, **_more: Any) -> ListPage:
        raise RuntimeError("a bug")

    server.list = list_  # type: ignore[method-assign, assignment]
    async with serving(server) as served:
        assert await served.code() == 1
    assert logged.of("error") == ["a task that must run has ended, and so does the process"]


async def test_sigusr2_logs_what_the_scheduler_believes(logged: Any) -> None:
    server = FakeServer()
    await server.create(NODE, node_manifest("n1"))
    async with serving(server) as served:
        await served.ready()
        signal_self(signal.SIGUSR2)
        await until(lambda: "cache comparison: equal to the cluster" in logged.of("info"))
        assert await served.get("/readyz") == (200, "ok")


async def test_sigusr2_before_there_is_a_scheduler_does_no_harm(logged: Any) -> None:
    server = FakeServer()
    server.answers.clear()
    async with serving(server) as served:
        await until(lambda: served.answers_with("/livez", 200))
        signal_self(signal.SIGUSR2)
        await until(lambda: logged.of("warning"))
    assert logged.of("warning") == ["there is nothing to dump yet: the initial lists have not been handled"]


async def test_the_secure_port_lets_all_clients_see_health_and_nothing_else() -> None:
    with closing(socket.create_server((HOST, 0))) as listener:
        number = listener.getsockname()[1]
    careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE

    async def status(path: str, **headers: str) -> int:
        async with aiohttp.ClientSession(headers=headers) as session, session.get(f"https://{HOST}:{number}{path}", ssl=careless) as answer:
            return answer.status

    async with serving(FakeServer(), f"--secure-port={number}", f"--bind-address={HOST}") as served:
        await served.ready()
        assert [await status(path) for path in ("/healthz", "/livez", "/readyz", "/metrics", "/configz", "/readyz/shutdown")] == [
            200,
            200,
            200,
            403,
            403,
            403,
        ]
        assert await status("/metrics", Authorization="Bearer x") == 403  # no API server can be asked about tokens, so they say nothing
        assert (await served.get("/metrics"))[0] == 200


async def test_without_a_lease_a_stall_is_said_and_nothing_else(logged: Any) -> None:
    server, codes = FakeServer(), list[int]()
    async with serving(server, exit_at_once=codes.append) as served:
        await served.ready()
        time.sleep(2.0)  # noqa: ASYNC251  # this is the stall
        await until(lambda: "the scheduling loop runs again" in logged.of("warning"))
        assert await served.get("/livez?verbose") == (200, "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed\n")
        assert (await served.get("/readyz"))[0] == 200
    assert codes == []


async def test_a_page_of_metrics_says_when_it_was_made() -> None:
    begun = time.time()
    async with serving(FakeServer()) as served:
        await served.ready()
        _, text = await served.get("/metrics")
    shown = re.search(r"^koord_scheduler_metrics_collected_timestamp_seconds (\S+)$", text, re.MULTILINE)
    assert shown is not None
    assert begun <= float(shown[1]) <= time.time()


async def test_a_background_task_that_fails_is_counted_and_costs_nothing_else(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken_sweep(_is_busy: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("koordsched.serve.process.sweep", broken_sweep)
    async with serving(FakeServer()) as served:
        await served.ready()
        shown = 'koord_scheduler_task_restarts_total{task="garbage collection"} '
        await until(lambda: served.answers_with("/metrics", 200, shown))
    tasks.restarts.clear()
    error = next(line for line in logged.all() if line["level"] == "error")
    assert (error["msg"], error["task"], error["err"]) == ("a task failed and is started again", "garbage collection", "KeyError('a bug')")


async def test_probes_are_answered_while_the_scheduling_loop_is_busy() -> None:
    async with serving(FakeServer()) as served:
        await served.ready()

        def probe(path: str) -> bytes:
            with urllib.request.urlopen(served.url + path, timeout=TIMEOUT) as answer:
                return bytes(answer.read())

        with ThreadPoolExecutor(1) as pool:
            asking = pool.map(probe, ["/livez", "/readyz"])
            assert list(asking) == [b"ok", b"ok"]  # waited for on the loop itself, which does nothing else meanwhile


async def test_a_serving_thread_that_dies_ends_the_process(logged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    died = threading.Event()

    async def fails(_self: Connections) -> None:
        while not died.is_set():  # noqa: ASYNC110  # another thread sets it
            await asyncio.sleep(0.01)
        raise RuntimeError("a bug")

    monkeypatch.setattr(Connections, "follow", fails)
    async with serving(FakeServer()) as served:
        await served.ready()
        died.set()
        assert await served.code() == 1
    error = next(line for line in logged.all() if line["level"] == "error")
    assert (error["msg"], error["task"]) == ("a task that must run has ended, and so does the process", "serving thread")
    assert "a bug" in error["err"]


async def test_what_the_plain_port_does_not_answer_is_answered_by_the_secure_port() -> None:
    async with serving(FakeServer()) as served:
        await served.ready()
        status, body = await served.get("/debug/cache")
    assert (status, body) == (
        403,
        "the plain port answers health, metrics and cheap reads only: ask the secure port, which --secure-port=0 turns off\n",
    )
