"""The suites of cycle and queue with the profile of Koordinator's chart, where all kinds of objects are present.

Each node has a NodeResourceTopology, a Device, a NodeMetric and two Available Reservations, places in the network's tree, and four bound
pods: a member of a gang, one of a quota (of 1,000 on three levels), the owner of a Reservation, and one with CPUs of its own or half a GPU.
All of it reaches a whole scheduler by its informers' handlers.

Limits: identical pods at most 75 us in the algorithm and 190 us from pop to assumed at 5,000 nodes; pods that all differ at most 500 us;
identical pods at 50,000 nodes at most twice the cost at 5,000; a node event at most 20 us a waiting shape. They are meant for a machine
whose empty loop of 10^7 takes 0.7 s.

Last measured (minimum and median; niced to -15 on two cores beside much other work, empty loop of 10^7 then 0.27 s, November 2026):
identical pods 16.6 and 20 us, at 50,000 nodes 18.0 and 22; pods that all differ 137 and 155; pop to assumed 47 and 53; 160 kinds in turn
62 and 88; a node event 7.6 and 8.0 a shape.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from bench_cycle import place_each, pop_to_assumed
from bench_queue import node_events_while_pods_wait
from clusters import CHART_PROFILE, LAYOUT, different_pod, fresh, identical_pod, make_node
from side_by_side import gangs, gpus, koordinator, reservations
from support.builders import NodeBuilder, PodBuilder, pod
from support.world import NoCluster, NodeSearch

from koordsched.api import kinds
from koordsched.api.kinds import Kind
from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.quota_definitions import QUOTA_NAME
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text
from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation import decode
from koordsched.clock import RealClock
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.config import load_config_text
from koordsched.config.flags import parse_flags
from koordsched.plugins.nodenumaresource.layouts import topology_manifest
from koordsched.scheduler.scheduler import LIVE_PODS, Dependencies, Scheduler

MEMORY = 128 << 30
OWN_CPUS = {"scheduling.koordinator.sh/resource-status": '{"cpuset":"0-1"}'}
OF_GANG = 10  # bound members of each

Reported = Iterator[tuple[Kind, Object]]


class WholeCluster:
    """A scheduler under the chart's profile that knows a cluster with all kinds of objects; made on a running loop."""

    def __init__(self, nodes: int) -> None:
        dependencies = Dependencies(NoCluster(), RealClock(), random.Random(1), parse_flags([]))  # type: ignore[arg-type]
        self.scheduler = Scheduler(load_config_text(CHART_PROFILE), dependencies)
        self.cache = self.scheduler.cache
        self.profile = self.scheduler.profiles["default-scheduler"]
        self.search = NodeSearch(self.cache, self.scheduler.queue.nominator, dependencies.random)
        self.reported: Counter[str] = Counter()
        informers = self.scheduler._informers
        for kind, obj in described(nodes):
            informer = informers.of(kind, LIVE_PODS if kind is kinds.POD else "")
            informer._objects.apply(WatchEvent(ADDED, obj))
            self.reported[kind.kind] += 1
        assert not any(informer.handler_errors or informer.missed for informer in informers)
        # As a long-running process does after its first list: what stays for ever need not be looked at again and again.
        gc.collect()
        gc.freeze()

    def signed(self, info: PodInfo) -> PodInfo:
        info.shape = self.profile.shapes.key(info)
        return info


def described(nodes: int) -> Reported:
    """Yield all objects, in no other order than that quotas come before their pods."""
    made = [make_node(index) for index in range(nodes)]
    names = [builder.build().metadata.name for builder in made]
    for _, body in (*koordinator.quotas(), gangs.topology()):
        yield decoded(kinds.ELASTIC_QUOTA if body["kind"] == "ElasticQuota" else kinds.CLUSTER_NETWORK_TOPOLOGY, body)
    for index, builder in enumerate(made):
        yield kinds.NODE, as_koordlet_found(builder, index).build()
    now = RealClock().now()
    for index, name in enumerate(names):
        yield decoded(kinds.NODE_RESOURCE_TOPOLOGY, topology_manifest(name, LAYOUT, MEMORY))
        yield decoded(kinds.DEVICE, gpus.device(name)[1])
        yield decoded(kinds.NODE_METRIC, koordinator.node_metric(name, index, now, [f"{name}-{what}" for what in ("member", "of-quota")]))
    for body in reservations.reservations(names):
        yield decoded(kinds.RESERVATION, body)
    for _, body in gangs.pod_groups(gangs.GANG, nodes):
        body["metadata"]["namespace"] = "default"
        yield decoded(kinds.POD_GROUP, body)
    for index, name in enumerate(names):
        for made_pod in bound_pods(index, name):
            yield kinds.POD, fresh(made_pod).resource_version("1").on(name).build()


def decoded(kind: Kind, body: dict[str, Any]) -> tuple[Kind, Object]:
    """Decode what an API server would send of this object."""
    metadata = body["metadata"]
    found = decode(kind, {**body, "metadata": {**metadata, "uid": uid_of(kind, metadata["name"]), "resourceVersion": "1"}})
    assert isinstance(found, Object)
    return kind, found


def uid_of(kind: Kind, name: str) -> str:
    return f"{kind.plural}-{name}"


def as_koordlet_found(builder: NodeBuilder, index: int) -> NodeBuilder:
    """Add what a node with devices in a network has."""
    for resource, amount in gpus.ROOM.items():
        if "/" in resource:
            builder = builder.allocatable(resource, amount)
    for label, domain in (gpus.LABELS | gangs.labels(index)).items():
        builder = builder.label(label, domain)
    return builder.resource_version("1")


def bound_pods(index: int, node: str) -> Iterator[PodBuilder]:
    """Yield the pods of a node, with what the scheduler wrote when it bound them."""
    yield plain(f"{node}-member").label(POD_GROUP_LABEL, gangs.gang_of(gangs.GANG, index))
    yield plain(f"{node}-of-quota").label(QUOTA_NAME, koordinator.leaf_of(index))
    name = reservations.name_of(node, 0)
    link = allocated_text(name, uid_of(kinds.RESERVATION, name))
    yield plain(f"{node}-owner").label("owner", f"kind-{2 * index % reservations.KINDS}").annotation(RESERVATION_ALLOCATED, link)
    special = pod(f"{node}-special").memory("1Gi")
    if index % 2:
        for key, text in gpus.half_annotations(node, 0).items():
            special = special.annotation(key, text)
        for resource, amount in gpus.HALF.items():
            special = special.request(resource, amount)
    else:
        special = special.cpu("2").label("koordinator.sh/qosClass", "LSR").priority(9000)
        for key, text in OWN_CPUS.items():
            special = special.annotation(key, text)
    yield special


def plain(name: str) -> PodBuilder:
    return pod(name).cpu("250m").memory("256Mi")


def place_all(benchmark: Any, nodes: int, make: Any, rounds: int = 2000) -> WholeCluster:
    """Time the algorithm as `place_each` does, and note how many objects of each kind there are."""

    async def run() -> WholeCluster:
        world = WholeCluster(nodes)
        assert world.reported == {
            "Node": nodes,
            "Pod": 4 * nodes,
            "NodeResourceTopology": nodes,
            "Device": nodes,
            "NodeMetric": nodes,
            "Reservation": 2 * nodes,
            "PodGroup": -(-nodes // OF_GANG),
            "ElasticQuota": 1000,
            "ClusterNetworkTopology": 1,
        }
        place_each(benchmark, world, make(world), rounds)
        return world

    return asyncio.run(run())


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def bench_chart_algorithm_identical_pods(benchmark: Any, nodes: int) -> None:
    world = place_all(benchmark, nodes, lambda _: identical_pod)
    assert len(world.profile.shapes) == 1


def bench_chart_algorithm_pods_that_all_differ_5000_nodes(benchmark: Any) -> None:
    place_all(benchmark, 5_000, lambda _: different_pod, rounds=1000)


def bench_chart_algorithm_160_kinds_of_pods_in_turn(benchmark: Any) -> None:
    """At least 120 kinds of pods find their columns kept when their turn comes again."""
    pods = cycle(range(160))

    def make(world: WholeCluster) -> Any:
        return lambda _: world.signed(fresh(pod("web").cpu(f"{100 + next(pods)}m")).info())

    world = place_all(benchmark, 5_000, make, rounds=800)
    assert len(world.profile.shapes) >= 120


def bench_chart_pop_to_assumed_identical_pods_5000_nodes(benchmark: Any) -> None:
    async def run() -> None:
        await pop_to_assumed(benchmark, WholeCluster(5_000).scheduler)

    asyncio.run(run())


def bench_chart_node_event_with_100000_unschedulable_pods(benchmark: Any) -> None:
    asyncio.run(node_events_while_pods_wait(benchmark, load_config_text(CHART_PROFILE)))
