"""What do Koordinator's custom resources add to a start, from the first list to the first decision, in CPU time?

Under the profile of Koordinator's chart: 5,000 nodes and 50,000 bound pods, and with them 5,000 NodeMetrics and Devices, 1,000 quotas, of
which the pods are, and 10,000 Reservations. Wanted of a whole start on a real control plane (`make start-up`): at most 1.3 times as long
with them as without. Here the lists lie there as JSON: no connection and no API server take their part.

Devices are not among it: the pending pod asks for none, so the first decision does not wait for them (`scheduler.late_lists`).

Last measured (26 November 2026): at a fifth of the size (1,000 nodes, 10,000 pods, load 5, the least of six rounds in turn) 0.54 s of CPU
without them and 0.80 s with them; of each, a Reservation 39 us to take over and 7 to decode, a NodeMetric of ten pods 22 and 10, a quota
32. The whole start on a real control plane, where imports and the connection count too, on the quiet machine: 5.4 and 5.9 s, CPU 5.2
and 5.4 s.
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections import defaultdict
from typing import Any

import msgspec
import pytest
from bench_drift import WrittenCluster
from side_by_side.competitors import profiles_for
from side_by_side.koordinator import BARE, OBJECTS
from side_by_side.workload import PODS_PATH, Item, Workload, bound_pods, nodes, pending_pods, prerequisites, reports

from koordsched.api.kinds import KINDS, Kind
from koordsched.clock import RealClock
from koordsched.config import load_config_object
from koordsched.config.flags import parse_flags
from koordsched.frozen import frozen
from koordsched.scheduler.attempt import Attempt
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, PODS, PAGE = 5_000, 50_000, 2_500
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.mark.parametrize("theme", [BARE, OBJECTS])
def bench_start_to_first_decision(benchmark: Any, theme: str) -> None:
    load = Workload(theme=theme, nodes=NODES, bound=PODS, pods=1)
    benchmark.pedantic(lambda: benchmark.extra_info.update(asyncio.run(start(load))), rounds=1)


async def start(load: Workload) -> dict[str, float]:
    """Return the CPU that it takes to know all of a workload, and then to decide about its pending pod."""
    cluster = WrittenCluster(listed(load))
    cluster.prepare(PAGE)
    config = load_config_object({**HEAD, **profiles_for(load.theme)})
    gc.collect()
    gc.freeze()
    cpu = time.process_time()
    scheduler = Scheduler(config, Dependencies(cluster, RealClock(), random.Random(1), parse_flags([])))  # type: ignore[arg-type]
    try:
        with frozen():
            await scheduler.fill(early=True)
        filled = time.process_time()
        info = scheduler.queue.pop()
        assert info is not None
        found = scheduler.cycle.search(Attempt(info, info.pod_info, scheduler.profiles[info.profile], time.perf_counter()))
        decided = time.process_time()
        assert isinstance(found, str)
        assert not any(informer.handler_errors for informer in scheduler._informers)
    finally:
        await scheduler.kill()
    return {"fill_cpu_s": round(filled - cpu, 2), "decision_cpu_ms": round(1e3 * (decided - filled), 1)}


def listed(load: Workload) -> dict[Kind, list[bytes]]:
    """Return what an API server would list of a workload."""
    found: dict[Kind, list[bytes]] = defaultdict(list)
    for item in (*prerequisites(load), *nodes(load), *bound_pods(load), *reports(load), *pending_pods(load)):
        kind = KINDS.get((item.body["apiVersion"], item.body["kind"]))
        if kind is not None:
            found[kind].append(msgspec.json.encode(with_identity(kind, item)))
    return found


def with_identity(kind: Kind, item: Item) -> dict[str, Any]:
    metadata = {"uid": f"{kind.plural}-{item.name}", "resourceVersion": "1", **item.body["metadata"]}
    if item.path == PODS_PATH:
        metadata["namespace"] = "default"
    return {**item.body, "metadata": metadata}
