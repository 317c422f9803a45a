"""What does it cost to explain a pod that asks for what no pod has asked for yet, at 5,000 nodes and 50,000 pods?

Limits (issue 23): 50 ms in all, beside the scheduling loop, which is held at most 5 ms at a time. Each is a dry run whose constraint is the
first of its kind for the scheduler, so that counts of pods and columns of nodes have to be made for it; the pod fits nowhere, so that
changes are looked for, too. Times are CPU time of the thread.

Last measured (quiet machine, November 2026): 9 to 24 ms in all without constraints about other pods and with most of them, of which the
counting is 0.1 to 2 (bench_pod_counts; 60 to 290 ms before pods were classed in compiled code); anti-affinity over hosts 44 to 45, where
the search ends for lack of time. Slices are 3 to 4.6 ms; the longest single trial is that of nodes without their pods, 3 ms, and up to 12
beside work for six processors.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import msgspec
import pytest
from bench_drift import NODES, PODS, WrittenCluster, node_body, pod_body

from koordsched.api.kinds import NODE, POD
from koordsched.clock import RealClock
from koordsched.config import load_config_object
from koordsched.config.flags import Flags
from koordsched.frozen import frozen
from koordsched.scheduler.scheduler import Dependencies, Scheduler
from koordsched.scheduler.suggestions.answers import AnswerOptions
from koordsched.slices import Slices

Json = dict[str, Any]
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SELECTOR = {"matchLabels": {"pod-template-hash": "5d8f"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": SELECTOR, "topologyKey": ZONE, "namespaceSelector": {}}


def in_nodes(key: str) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["value-3"]}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


CONSTRAINTS: dict[str, Json] = {
    "none": {},
    "node affinity": in_nodes("label-3"),
    "node affinity to hostname": in_nodes(HOSTNAME),
    "spread over zones": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}]
    },
    "spread over hosts": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
        ]
    },
    "pod affinity": {"affinity": {"podAffinity": {REQUIRED: [TERM]}}},
    "pod anti-affinity": {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}},
    "pod anti-affinity on hosts": {"affinity": {"podAntiAffinity": {REQUIRED: [{**TERM, "topologyKey": HOSTNAME}]}}},
}


class MeasuredSlices(Slices):
    """Slices that keep how long each was."""

    def __init__(self) -> None:
        super().__init__(time.thread_time, 0.0)
        self.lengths: list[float] = []

    async def pause(self, ahead: float = 0.0) -> None:
        before, begun = self.seconds, self._begun
        now = time.thread_time()
        await super().pause(ahead)
        if self.seconds != before:
            self.lengths.append(now - begun)

    def __exit__(self, *error: Any) -> None:
        self.lengths.append(time.thread_time() - self._begun)
        super().__exit__(*error)


def written(*, distinct: bool) -> WrittenCluster:
    """Return the cluster. distinct: each pod has a label of its own, as those of StatefulSets have."""
    pods = [pod_body(i, f"node-{i % NODES:05d}") for i in range(PODS)]
    for i, each in enumerate(pods if distinct else ()):
        each["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = f"web-{i}"
    cluster = WrittenCluster(
        {
            NODE: [msgspec.json.encode(node_body(i, f"node-{i:05d}")) for i in range(NODES)],
            POD: [msgspec.json.encode(each) for each in pods],
        }
    )
    cluster.prepare(2_500)
    return cluster


def new_pod(number: int, constraint: Json, cpu: str = "100") -> Json:
    container = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    metadata = {"name": f"new-{number}", "namespace": "team-1", "labels": {"app": "new"}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "priority": 0, "tolerations": [], **constraint}
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize("distinct", [False, True], ids=["of 10,000 label sets", "of 50,000 label sets"])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def bench_explain_what_is_new(benchmark: Any, kind: str, *, distinct: bool) -> None:
    async def explain() -> None:
        scheduler = Scheduler(load_config_object(CONFIG), Dependencies(written(distinct=distinct), RealClock(), random.Random(1), Flags()))  # type: ignore[arg-type]
        try:
            with frozen():
                await scheduler.fill()
            for turn in ("first", "again"):
                work = MeasuredSlices()
                with work:
                    found = await scheduler.answers.of_dry_run(new_pod(1, CONSTRAINTS[kind]), AnswerOptions(), work)
                assert found.state == "pending"
                lengths = sorted(work.lengths)
                benchmark.extra_info.update({f"{turn}_ms": round(work.seconds * 1e3, 1), f"{turn}_longest_ms": round(lengths[-1] * 1e3, 1)})
        finally:
            await scheduler.kill()

    benchmark.pedantic(lambda: asyncio.run(explain()), rounds=1)
