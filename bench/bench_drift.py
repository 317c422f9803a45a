"""How long does taking in 50,000 pods and 5,000 nodes hold the event loop, and what do comparing and mending cost then?

Pages come as the JSON that an API server writes (pods of 2.3 kB), decoded as from a connection; the connection itself is not measured. A
tenth of the pods hold CPUs of their own. Gaps between two turns of the loop are given in wall-clock time, which is longer on a machine that
does something else, and in CPU time of the loop's thread.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY, POD, Kind
from koordsched.api.meta import Object
from koordsched.clock import RealClock
from koordsched.cluster.apiserver.decoding import KindDecoder
from koordsched.cluster.port import ListPage, NotFound, Ref, WatchEvent
from koordsched.config import load_config_object
from koordsched.config.flags import Flags
from koordsched.frozen import frozen
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.scheduler.debugger import StandingCheck
from koordsched.scheduler.debugger import standing_check as standing
from koordsched.scheduler.scheduler import Dependencies, Scheduler

NODES, PODS = 5_000, 50_000
CPUS_OF_A_NODE = 64
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}],
}
INTERVAL = 60.0


class WrittenCluster:
    """A cluster whose lists lie there as JSON, and on which nothing happens."""

    max_silence = 1e9

    def __init__(self, items: Mapping[Kind, list[bytes]]) -> None:
        self._items = items
        self._decoders: dict[Kind, KindDecoder] = {}
        self._pages: dict[tuple[Kind, int, int], bytes] = {}

    async def list(self, kind: Kind, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> ListPage:  # noqa: ARG002
        start = int(continue_token or 0)
        body = self._pages.pop((kind, start, limit), None) or self._page(kind, start, limit)
        return await self._decoders.setdefault(kind, KindDecoder(kind)).page(body)

    def _page(self, kind: Kind, start: int, limit: int) -> bytes:
        items = self._items.get(kind, [])
        end = min(start + (limit or len(items)), len(items))
        token = b"%d" % end if end < len(items) else b""
        return b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (token, b",".join(items[start:end]))

    def prepare(self, limit: int) -> None:
        """Write pages of this size beforehand."""
        for kind, items in self._items.items():
            for start in range(0, len(items), limit):
                self._pages[kind, start, limit] = self._page(kind, start, limit)

    async def watch(self, *_: object, **_options: object) -> AsyncGenerator[Sequence[WatchEvent], None]:
        await asyncio.Event().wait()
        yield ()

    async def get(self, ref: Ref) -> Object:
        raise NotFound(ref.name)


def written() -> dict[Kind, list[bytes]]:
    """Return 5,000 nodes with topologies, and 50,000 pods on them."""
    layout = CpuLayout.parse("2x1x16x2")
    names = [f"node-{i:05d}" for i in range(NODES)]
    return {
        NODE: [msgspec.json.encode(node_body(i, name)) for i, name in enumerate(names)],
        POD: [msgspec.json.encode(pod_body(i, names[i % NODES])) for i in range(PODS)],
        NODE_RESOURCE_TOPOLOGY: [
            msgspec.json.encode(with_version(topology_manifest(name, layout, 1 << 38), i)) for i, name in enumerate(names)
        ],
    }


def with_version(body: dict[str, Any], i: int) -> dict[str, Any]:
    body["metadata"] |= {"uid": f"nrt-{i}", "resourceVersion": "1"}
    return body


def node_body(i: int, name: str) -> dict[str, Any]:
    labels = {f"label-{k}": f"value-{k}" for k in range(15)} | {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{i % 3}"}
    images = [{"names": [f"registry/image-{(i * 7 + k) % 500}:1"], "sizeBytes": 10**8} for k in range(40)]
    return {
        "metadata": {"name": name, "uid": f"n-{i}", "resourceVersion": "1", "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": str(CPUS_OF_A_NODE), "memory": "256Gi", "pods": "110"}, "images": images},
    }


def pod_body(i: int, node: str) -> dict[str, Any]:
    annotations, labels = {}, {"app": f"web-{i % 200}", "pod-template-hash": "5d8f"}
    if i // NODES == 0:
        annotations = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0-1"}'}
        labels["koordinator.sh/qosClass"] = "LSR"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "aa", "controller": True}
    fields = {"f:metadata": {"f:labels": {f"f:label-{k}": {} for k in range(20)}}, "f:spec": {f"f:field-{k}": {} for k in range(20)}}
    container = {
        "name": "main",
        "image": "web:1",
        "env": [{"name": f"NAME_{k}", "value": "x" * 20} for k in range(10)],
        "resources": {"requests": {"cpu": "2" if annotations else "500m", "memory": "1Gi"}},
    }
    return {
        "metadata": {
            "name": f"web-{i:05d}",
            "namespace": f"team-{i % 50}",
            "uid": f"p-{i}",
            "resourceVersion": "1",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}],
        },
        "spec": {"nodeName": node, "schedulerName": "default-scheduler", "containers": [container], "tolerations": TOLERATIONS},
        "status": {"phase": "Running", "conditions": [{"type": t, "status": "True"} for t in ("Ready", "Initialized", "PodScheduled")]},
    }


TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


class Gaps:
    """Measures the time between two turns of the loop while a block runs."""

    async def __aenter__(self) -> Gaps:
        self.largest = 0.0
        self.largest_cpu = 0.0
        self.turns = 0
        self._task = asyncio.create_task(self._measure())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    def found(self, what: str) -> dict[str, float]:
        return {f"{what}_gap_ms": self.largest * 1e3, f"{what}_gap_cpu_ms": self.largest_cpu * 1e3}

    async def _measure(self) -> None:
        last, busy = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, cpu = time.perf_counter(), time.thread_time()
            self.largest = max(self.largest, now - last)
            self.turns += 1
            self.largest_cpu = max(self.largest_cpu, cpu - busy)
            last, busy = now, cpu


def bench_taking_in_and_checking(benchmark: Any) -> None:
    benchmark.pedantic(lambda: benchmark.extra_info.update(asyncio.run(measure())), rounds=1)


async def measure() -> dict[str, float]:
    """Return the largest gaps in ms, and CPU: in seconds, and of a full round of the standing check as a share of a core."""
    cluster = WrittenCluster(written())
    cluster.prepare(2_500)
    random_ = random.Random(1)
    scheduler = Scheduler(load_config_object(CONFIG), Dependencies(cluster, RealClock(), random_, Flags()))  # type: ignore[arg-type]
    found: dict[str, float] = {}
    try:
        cpu = time.process_time()
        async with Gaps() as gaps:
            with frozen():
                await scheduler.fill()
        found |= {"fill_cpu_s": time.process_time() - cpu} | gaps.found("fill")
        cluster.prepare(500)
        async with Gaps() as gaps:
            cpu = time.process_time()
            comparison = await scheduler.debugger.compare()
        assert comparison.ok, comparison
        found |= {"compare_cpu_s": time.process_time() - cpu} | gaps.found("compare")
        found |= await measure_standing_check(scheduler, cluster)
    finally:
        await scheduler.kill()
    return {name: round(value, 4) for name, value in found.items()}


async def measure_standing_check(scheduler: Scheduler, cluster: WrittenCluster) -> dict[str, float]:
    check = StandingCheck(scheduler._sources(), scheduler._informers, scheduler.metrics)
    costs = []
    for _ in range(standing.TURNS):
        cluster.prepare(500)
        cpu = time.process_time()
        await check.check_part()
        costs.append(time.process_time() - cpu)
    return {
        "check_cpu_s_a_round": sum(costs),
        "check_cpu_s_a_turn": max(costs),
        "check_percent_of_a_core": 100 * sum(costs) / (standing.TURNS * INTERVAL),
    }
