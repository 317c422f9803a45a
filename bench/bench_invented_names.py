"""What do pods cost that name thousands of things which no node has? 5,000 nodes; one pending pod, and 1,000 bound ones.

Limits (issue 14): with 4,000 invented resources, topology keys, host ports and selected labels in each pod, the same in all of them, at
most 5 MB above the same run without these names, and again as much as before when the pods are gone; afterwards identical pods as fast as
before. `bound_distinct` has other names in each pod (10 of these, 400 names each); `decoded_distinct` is what such pods take when they are
decoded and nothing else. Bytes are those of Python's and numpy's allocators (tracemalloc); pods come as JSON through the decoder of the API
server's answers.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import msgspec
from clusters import cluster, identical_pod
from support.world import World

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.apiserver.decoding import KindDecoder

NODES, BOUND, NAMES = 5_000, 1_000, 4_000
DISTINCT, FEW_NAMES = 10, 400
IDENTICAL = 2_000


def bench_memory_of_invented_names(benchmark: Any) -> None:
    benchmark.pedantic(lambda: benchmark.extra_info.update(measure()), rounds=1)


def pod_json(index: int, node: str, names: int, prefix: str = "x") -> bytes:
    """Return a pod; with names it has so many resources, terms with a topology key, host ports and selected labels of nodes."""
    invented = [f"{prefix}-{i}" for i in range(names)]
    web = {"matchLabels": {"app": "web"}}
    container = {
        "name": "main",
        "image": "web:1",
        "resources": {"requests": {"cpu": "1m", **{f"example.com/{name}": "1" for name in invented}}},
        "ports": [{"hostPort": 1 + i % 65535, "hostIP": f"10.0.0.{i % 250}"} for i, _ in enumerate(invented)],
    }
    spec: dict[str, Any] = {"schedulerName": "default-scheduler", "containers": [container]}
    if node:
        spec["nodeName"] = node
    if names:
        spec["nodeSelector"] = {f"label.example.com/{name}": "v" for name in invented}
        terms = [{"topologyKey": f"key.example.com/{name}", "labelSelector": web} for name in invented]
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    meta = {"name": f"p-{index}", "namespace": "default", "uid": f"uid-{prefix}-{index}", "labels": {"app": "web"}}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


class Run:
    """One cluster, with pods coming and going."""

    def __init__(self) -> None:
        self.world: World = cluster(NODES)
        self.decoder = KindDecoder(POD)
        self.place_identical(100)

    def pod(self, body: bytes) -> Pod:
        found = self.decoder.object(body)
        assert isinstance(found, Pod)
        return found

    def bind(self, count: int, names: int, *, distinct: bool = False) -> list[str]:
        """Let bound pods come, one a node, and return their uids."""
        for index in range(count):
            pod = self.pod(pod_json(index, f"node-{index:05d}", names, f"own{index}" if distinct else "x"))
            self.world.cache.set_pod(PodInfo(pod, counted_on_node=True), pod.spec.node_name)
        return [f"uid-{f'own{index}' if distinct else 'x'}-{index}" for index in range(count)]

    def attempt(self, names: int) -> PodInfo:
        """Let a pending pod come and be tried."""
        info = self.world.signed(PodInfo(self.pod(pod_json(0, "", names))))
        self.world.search.find(self.world.profile, info)
        return info

    def place_identical(self, count: int) -> float:
        """Place pods and take them away again; return the mean seconds of CPU time."""
        placed: list[PodInfo] = []
        started = time.process_time()
        for _ in range(count):
            info = identical_pod(self.world)
            node = self.world.search.find(self.world.profile, info)[1]
            assert isinstance(node, str)
            self.world.cache.assume_pod(info, node)
            placed.append(info)
        took = time.process_time() - started
        for info in placed:
            self.world.cache.forget_pod(info.uid)
        return took / count

    def traced(self) -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]


def measure() -> dict[str, object]:
    """Return kilobytes above the same run without names: while the pods are there, and after they have gone; and microseconds a pod."""
    run = Run()
    before_us = run.place_identical(IDENTICAL) * 1e6
    tracemalloc.start()
    found: dict[str, object] = {}
    run.attempt(0)
    start = run.traced()
    big = run.attempt(NAMES)
    found["pending_kB"] = (run.traced() - start) // 1000
    del big
    found["pending_gone_kB"] = (run.traced() - start) // 1000
    for kind, count, names, distinct in (("bound", BOUND, NAMES, False), ("bound_distinct", DISTINCT, FEW_NAMES, True)):
        uids = run.bind(count, 0)
        without = run.traced()
        for uid in uids:
            run.world.cache.remove_pod(uid)
        start = run.traced()
        uids = run.bind(count, names, distinct=distinct)
        found[f"{kind}_kB"] = (run.traced() - without) // 1000
        for uid in uids:
            run.world.cache.remove_pod(uid)
        found[f"{kind}_gone_kB"] = (run.traced() - start) // 1000
    info = [PodInfo(run.pod(pod_json(index, "n", FEW_NAMES, f"decoded{index}"))).pod for index in range(DISTINCT)]
    start = run.traced()
    del info
    found["decoded_distinct_kB"] = (start - run.traced()) // 1000
    tracemalloc.stop()
    after_us = run.place_identical(IDENTICAL) * 1e6
    return found | {"identical_us_before": round(before_us, 1), "identical_us_after": round(after_us, 1)}
