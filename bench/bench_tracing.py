"""What does tracing cost a pod? Limits: 1 % of the attempts traced at most 3 % more CPU a pod than none; off: none that can be measured.

The embedded cluster answers at once, so that a pod costs about a third of what it does on an API server: the shares are the highest ones.
CPU of the whole process counts, with the thread that sends spans; the collector is a process of its own. No tracing at all, off (no
collector is named: the same code), 1 % and all take turns, so that other load of the machine meets all alike. How far off is from no
tracing is the error of the others; where it is more than 3 %, what all attempts cost, which is far above the error, is the better measure
of 1 %.

Last measured on 2 cores beside other work (November 2026, `pytest bench/bench_tracing.py --benchmark-only --benchmark-disable-gc`, 6,000
pods, 8 rounds), us of CPU a pod: no tracing 177, off 194, 1 % 214, all 833. The error was 5 to 9 %, so that off and 1 % decide nothing; 1
% of what all cost is +3.3 % of a pod of the embedded cluster, so about 1 % of one on an API server. Of some 700 us that a traced attempt
costs, 270 are in the scheduling loop.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

import pytest
from support.fakes import pod_manifest
from support.traced import TracedCluster

from koordsched.api.kinds import NODE, POD
from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedOptions, run_made
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, PODS, ROUNDS = 500, 6_000, 8
NONE, OFF, ALL = "no tracing", "off", "all traced"
VARIANTS = {NONE: "", OFF: "", "1 % traced": "0.01", ALL: "1"}
"""By name: the share of the attempts that are traced. Off: a process whose environment names no collector."""

COLLECTOR = """
import http.server, sys
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class UntracedCluster(TracedCluster):
    """The same cluster with a scheduler that is made without any question of tracing."""

    def _new_scheduler(self) -> Scheduler:
        self.ending = ExitStack()
        options = self._options
        return Scheduler(options.config, Dependencies(self.cluster, self.clock, self._random, options.flags))


def cpu_of_a_pod(made: type[TracedCluster]) -> float:
    """Return the CPU, in microseconds, from the submission of a pod to its binding."""
    measured: list[float] = []

    async def script(cluster: TracedCluster) -> None:
        allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        for number in range(NODES):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "status": {"allocatable": allocatable}}
            await cluster.create(NODE, node)
        with cluster.ending:
            await cluster.start()
            pods = [pod_manifest(f"p{number}", "1", schedulerName="koord-scheduler") for number in range(PODS)]
            began = time.process_time()
            for pod in pods:
                await cluster.create(POD, pod)
            while len(cluster.scheduler.cache.pods) < PODS or not cluster.scheduler.idle():  # noqa: ASYNC110  # the time is virtual
                await asyncio.sleep(0.1)
        measured.append(time.process_time() - began)  # with what was sent at the end
        await cluster.stop()

    options = EmbeddedOptions(config=default_config(), flags=Flags(enable_network_topology_manager=True))
    run_made(partial(made, options=options), script)
    return 1e6 * measured[0] / PODS


def bench_cpu_of_a_pod_with_tracing(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with ExitStack() as stack:
        collector = stack.enter_context(subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True))
        stack.callback(collector.kill)
        assert collector.stdout is not None
        url = f"http://127.0.0.1:{collector.stdout.readline().strip()}"

        def round_of_each() -> None:
            order = list(VARIANTS)
            turn = len(found[NONE]) % len(order)
            for variant in order[turn:] + order[:turn]:  # so that none is always the first
                argument = VARIANTS[variant]
                monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url if argument else "")
                monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
                monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
                found[variant].append(cpu_of_a_pod(UntracedCluster if variant == NONE else TracedCluster))

        rounds = int(os.environ.get("BENCH_TRACING_ROUNDS", ROUNDS))
        benchmark.pedantic(round_of_each, rounds=rounds, warmup_rounds=1)
    measured = {variant: values[1:] for variant, values in found.items()}
    least = {variant: min(values) for variant, values in measured.items()}
    for variant, value in least.items():
        shares = [value / none - 1 for value, none in zip(measured[variant], measured[NONE], strict=True)]
        compared = f" ({value / least[NONE] - 1:+.1%}, median of the rounds {median(shares):+.1%})" if variant != NONE else ""
        benchmark.extra_info[f"us of CPU a pod, {variant}"] = f"{value:.0f}{compared}"
    benchmark.extra_info["1 % of what all cost"] = f"{(least[ALL] / least[OFF] - 1) / 100:+.1%} (limit +3 %)"
