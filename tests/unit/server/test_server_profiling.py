"""CPU profiles: whose time is measured, and how it is written."""

from __future__ import annotations

import asyncio
import re
import threading
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from koordsched.server.budget import Bounds, KeptAnswers
from koordsched.server.main_loop import MainLoop
from koordsched.server.profiling import Profiles, collapsed, heap, sample


def burn(stopped: threading.Event) -> None:
    while not stopped.is_set():
        sum(range(1000))


def test_the_time_of_a_busy_thread_is_found_where_it_is_spent_and_a_waiting_one_has_none() -> None:
    stopped, parked = threading.Event(), threading.Event()
    busy = threading.Thread(target=burn, args=(stopped,))
    waiting = threading.Thread(target=parked.wait)
    for thread in (busy, waiting):
        thread.start()
    assert busy.ident is not None
    assert waiting.ident is not None
    found = {thread: sample(thread, 0.1, threading.Event()) for thread in (busy.ident, waiting.ident)}
    stopped.set()
    parked.set()
    busy.join()
    waiting.join()
    where = {frame.split()[0] for stack in found[busy.ident] for frame in stack}
    assert "burn" in where
    assert found[busy.ident].total() > 100 * found[waiting.ident].total()


def test_memory_is_described_by_type_or_while_allocations_are_traced_by_line() -> None:
    assert re.search(r"^\d+: \d+ builtins\.function$", heap(), re.MULTILINE)
    tracemalloc.start()
    try:
        kept = [bytes(1000 + i) for i in range(100)]
        described = heap()
    finally:
        tracemalloc.stop()
    assert re.search(r"^1\d\d: 1[01]\d{4} .*test_server_profiling\.py:\d+$", described, re.MULTILINE), len(kept)


async def test_cpu_time_is_measured_for_one_asker_at_a_time() -> None:
    """Run on a loop of its own, since the measuring takes real time."""

    def ask() -> tuple[int, ...]:
        async def both() -> tuple[int, ...]:
            loop = MainLoop()
            profiles = Profiles(loop, KeptAnswers(perf_counter, Bounds(1.0)))
            answers = await asyncio.gather(*(profiles.answer("/profile", {"seconds": ["0.05"]}) for _ in range(2)))
            return (*(answer.status for answer in answers), (await profiles.answer("/profile", {"seconds": ["0.01"]})).status)

        return asyncio.run(both())

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask).result() == (200, 500, 200)


def test_a_profile_without_a_waiting_client_ends_at_once() -> None:
    ended = threading.Event()
    ended.set()
    assert sample(threading.get_ident(), 3600.0, ended) == Counter()


def test_stacks_are_written_dearest_first_and_without_those_that_cost_nothing() -> None:
    assert collapsed(Counter({("a", "b"): 5, ("c",): 70, ("d",): 0})) == "c 70\na;b 5\n"
