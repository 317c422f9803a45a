"""How many bytes do a node and a bound pod cost in the scheduler's cache? 50,000 nodes, 100,000 bound pods, decoded from JSON."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
from clusters import make_node

from koordsched.api.core import Node, Pod
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache

NODES, PODS = 50_000, 100_000


def bench_bytes_of_a_node_and_a_pod(benchmark: Any) -> None:
    benchmark.pedantic(lambda: benchmark.extra_info.update(measure()), rounds=1)


def measure() -> dict[str, int]:
    """Return bytes per node and per pod: Structs, PodInfo, columns and all that the cache keeps for them."""
    nodes, pods = msgspec.json.Decoder(Node), msgspec.json.Decoder(Pod)
    cache = Cache()
    gc.collect()
    tracemalloc.start()
    for index in range(NODES):
        cache.set_node(nodes.decode(msgspec.json.encode(make_node(index).build())))
    gc.collect()
    after_nodes = tracemalloc.get_traced_memory()[0]
    for index in range(PODS):
        pod = pods.decode(pod_json(index))
        cache.set_pod(PodInfo(pod, counted_on_node=True), pod.spec.node_name)
    gc.collect()
    after_pods = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"bytes_per_node": after_nodes // NODES, "bytes_per_pod": (after_pods - after_nodes) // PODS}


def pod_json(index: int) -> bytes:
    return b"""{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-%d", "namespace": "default", "uid": "6f1c-%d",
        "resourceVersion": "%d", "labels": {"app": "web", "pod-template-hash": "5d8f"}, "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "aa", "controller": true}]},
        "spec": {"nodeName": "node-%05d", "schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "web:1",
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}], "tolerations": [{"key": "node.kubernetes.io/not-ready",
        "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}, "status": {"phase": "Running"}}""" % (
        index,
        index,
        index,
        index % NODES,
    )
