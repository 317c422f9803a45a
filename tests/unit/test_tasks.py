"""Background tasks and timers: what they raise is named, counted, and answered as their maker said; and there are no others."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from structlog.testing import capture_logs
from support.virtual_loop import run_virtual

import koordsched
from koordsched import tasks
from koordsched.tasks import EndedError, Tasks, call_later

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.clock import VirtualClock


class Failing:
    """Work that raises at its first turns, after some seconds, then runs on."""

    def __init__(self, failures: int, seconds: float = 0.0) -> None:
        self.begun: list[float] = []
        self._failures = failures
        self._seconds = seconds

    async def run(self) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._seconds)
        if len(self.begun) <= self._failures:
            raise KeyError("a bug")
        await asyncio.Event().wait()


def test_a_task_that_is_kept_is_started_again_with_growing_delays() -> None:
    work = Failing(20)

    async def body(_clock: VirtualClock) -> None:
        owner = Tasks(Random(1))
        owner.keep("renewal", work.run)
        await asyncio.sleep(3600)
        assert len(owner) == 1
        await owner.end()
        assert len(owner) == 0
        assert tasks.restarts == {"renewal": 20}
        tasks.restarts.clear()

    with capture_logs() as logs:
        run_virtual(body)
    assert len(work.begun) == 21
    delays = [later - earlier for earlier, later in zip(work.begun, work.begun[1:], strict=False)]
    assert 0.8 <= delays[0] <= 1.6
    assert all(30.0 <= delay <= 60.0 for delay in delays[6:])
    assert len(logs) == 20
    assert (logs[0]["task"], logs[0]["err"], logs[0]["log_level"]) == ("renewal", "KeyError('a bug')", "error")


def test_one_that_ran_well_for_a_minute_is_started_again_soon() -> None:
    work = Failing(10, seconds=60.0)

    async def body(_clock: VirtualClock) -> None:
        owner = Tasks(Random(1))
        owner.keep("renewal", work.run)
        await asyncio.sleep(3600)
        await owner.end()
        tasks.restarts.clear()

    with capture_logs():
        run_virtual(body)
    assert all(60.0 <= later - earlier <= 61.6 for earlier, later in zip(work.begun, work.begun[1:], strict=False))


def test_a_task_that_is_kept_may_end() -> None:
    async def body(_clock: VirtualClock) -> None:
        owner = Tasks(Random(1))
        await owner.keep("lookup", lambda: asyncio.sleep(5))
        assert len(owner) == 0

    run_virtual(body)


def test_the_owner_learns_how_a_task_that_must_run_ended() -> None:
    reported: list[tuple[str, Exception]] = []

    async def body(_clock: VirtualClock) -> None:
        owner = Tasks(Random(1), lambda name, error: reported.append((name, error)))
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def wait() -> None:
            await cancelled

        owner.must_run("raises", Failing(1).run)
        owner.must_run("returns", lambda: asyncio.sleep(0))
        owner.must_run("waits for what is cancelled", wait)
        lasting = owner.must_run("runs", Failing(0).run)
        await asyncio.sleep(1)
        cancelled.cancel()
        await asyncio.sleep(1)
        assert not lasting.done()
        await owner.end()  # which is not a failure
        assert lasting.cancelled()

    run_virtual(body)
    assert [(name, type(error)) for name, error in reported] == [
        ("raises", KeyError),
        ("returns", EndedError),
        ("waits for what is cancelled", EndedError),
    ]


def test_work_and_timers_that_raise_are_named_and_counted() -> None:
    called: list[int] = []

    def late(number: int) -> None:
        called.append(number)
        raise KeyError(number)

    async def body(_clock: VirtualClock) -> None:
        owner = Tasks(Random(1))
        owner.once("eviction", Failing(1).run())
        call_later(5.0, late, 1)
        call_later(5.0, late, 2).cancel()
        await asyncio.sleep(10)
        assert len(owner) == 0
        assert {name.rpartition(".")[2]: count for name, count in tasks.failures.items()} == {"eviction": 1, "late": 1}
        tasks.failures.clear()

    with capture_logs() as logs:
        run_virtual(body)
    assert called == [1]
    assert [(line["event"], line["err"]) for line in logs] == [
        ("work in the background failed", "KeyError('a bug')"),
        ("work in the background failed", "KeyError(1)"),
    ]


MAKERS = {"create_task", "ensure_future", "call_later", "call_at", "add_done_callback", "run_in_executor", "Thread", "Timer", "Task"}
MADE_ELSEWHERE = {
    "clock.py: asyncio.Task": "the virtual loop's own way to make a task",
    "cluster/apiserver/exec_plugin.py: asyncio.create_task": "the reader of what a credential plugin complains of, which `_run` waits for",
    "cluster/event_recorder.py: asyncio.create_task": "the writers of a flush, which waits for them",
    "cluster/informer.py: asyncio.create_task": "the taking over of a first list's pages, which `_list` waits for",
    "scheduler/extenders/transport.py: threading.Thread": "the loop of a simulation's extenders; each request is waited for",
    "scheduler/binding_tasks.py: asyncio.get_running_loop().create_task": "one for many binding cycles; it takes what they raise",
    "serve/tracing.py: threading.Thread": "the exporter's last words, which are waited for some seconds",
    "server/access/authentication.py: asyncio.create_task": "a review, whose result all who asked wait for",
    "server/heartbeat.py: threading.Thread": "the watchdog's, which only logs",
    "server/budget.py: asyncio.create_task": "an answer, whose result all who asked wait for",
    "server/leadership.py: asyncio.create_task": "the elector's, whose ends its thread waits for",
    "server/leadership.py: threading.Thread": "the elector's, whose end is reported to the process with its reason, and its last words'",
    "serve/process.py: asyncio.create_task": "the process's own stages, which `_schedule` and `run` wait for",
    "server/log_stream.py: threading.Thread": "the writer of a queued log; once it has ended, lines are written by who logs them",
    "server/serving_thread.py: threading.Thread": "the ports', whose end is reported to the process with its reason",
}


def test_no_task_timer_or_thread_is_made_in_another_way() -> None:
    package = Path(koordsched.__file__).parent
    found = {
        f"{path.relative_to(package)}: {made}"
        for path in sorted(package.rglob("*.py"))
        if path.name != "tasks.py"
        for made in made_in(ast.parse(path.read_text()))
    }
    assert found == set(MADE_ELSEWHERE)


def made_in(tree: ast.Module) -> Iterator[str]:
    """Yield the calls that make tasks, timers or threads; not those of a TaskGroup, nor the handle's timers."""
    groups = {
        ast.unparse(item.optional_vars)
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if item.optional_vars is not None and ast.unparse(item.context_expr) == "asyncio.TaskGroup()"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            if ast.unparse(node.func.value) in groups or ast.unparse(node.func).endswith("_handle.call_later"):
                continue
            yield ast.unparse(node.func)


def test_what_makes_a_task_is_found() -> None:
    text = "async def f():\n    asyncio.ensure_future(g())\n    async with asyncio.TaskGroup() as group:\n        group.create_task(g())\n"
    assert list(made_in(ast.parse(text))) == ["asyncio.ensure_future"]
