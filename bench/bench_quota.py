"""What do quotas cost: per pod, after a change, in the algorithm, and while 100,000 pods wait in one that is exhausted?

Limits, 4 levels, 1,000 quotas, 50,000 pods, 5,000 nodes: quota work at most 10 us a pod; runtimes after any single change at most 1 ms;
equal pods of 1,000 interleaved quotas at most 1.2 times the algorithm without quotas; a full quota whose pods leave at most 100 us a pod
that is admitted then, no pod of another quota moved; with 100,000 pods waiting in one exhausted quota at most 20 us for an event.
"""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from clusters import cluster, fresh
from msgspec.structs import replace
from support.builders import node, pod
from support.fakes import config_with
from support.quotas import QuotaBench, of_quota, quota, quota_args
from support.world import NoCluster, World

import koordsched.plugins
from koordsched.api.kinds import ELASTIC_QUOTA, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.object_store import Arrival
from koordsched.config.flags import parse_flags
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.profile import Profile
from koordsched.plugins.elasticquota.plugin import ElasticQuotaPlugin
from koordsched.scheduler.scheduler import Dependencies, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.core import Pod
    from koordsched.api.meta import Object

NODES = 5_000
PODS = 50_000
WAITING = 100_000
ROUNDS = 2_000
LEAVES = [f"l{a}-{b}-{c}" for a in range(10) for b in range(9) for c in range(10)]
PARENTS = [f"t{a}" for a in range(10)] + [f"m{a}-{b}" for a in range(10) for b in range(9)]
MOST = {"cpu": "100000", "memory": "100Ti"}


def fill_quotas(came: Callable[[Any, Object], None]) -> None:
    """Let 1,000 quotas come: the root, 10 below it, 90 below those, 900 leaves."""
    for a in range(10):
        came(ELASTIC_QUOTA, quota(f"t{a}", most=MOST, least={"cpu": "100"}, is_parent="true"))
        for b in range(9):
            came(ELASTIC_QUOTA, quota(f"m{a}-{b}", most=MOST, least={"cpu": "10"}, parent=f"t{a}", is_parent="true"))
            for c in range(10):
                came(ELASTIC_QUOTA, quota(f"l{a}-{b}-{c}", most=MOST, least={"cpu": "1"}, parent=f"m{a}-{b}"))


def full_bench(pods: int) -> tuple[QuotaBench, list[Pod]]:
    """Return the plugin with 1,000 quotas, and with pods of all leaves in turn on 5,000 nodes."""
    bench = QuotaBench()
    fill_quotas(bench.came)
    for i in range(NODES):
        bench.state.set_node(node(f"n{i}").cpu("32").memory("128Gi").build())
    template = pod("p").cpu("500m").memory("512Mi").build()
    made = []
    for i in range(pods):
        metadata = replace(
            template.metadata,
            name=f"p{i}",
            uid=f"u{i}",
            resource_version="1",
            labels={"quota.scheduling.koordinator.sh/name": LEAVES[i % len(LEAVES)]},
        )
        made.append(replace(template, metadata=metadata))
    return bench, made


def cpu_us(work: Callable[[], object], per: int = 1) -> float:
    """Return the CPU time of a call in us, for each of so many things that it does."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / per * 1e6


def bench_quota_work_of_50000_pods(benchmark: Any) -> None:
    """A pod comes, is admitted, reserved, and seen bound."""
    bench, pods = full_bench(PODS)
    infos: list[PodInfo] = [PodInfo(each) for each in pods]
    bound = [replace(each, spec=replace(each.spec, node_name="n1"), metadata=replace(each.metadata, resource_version="2")) for each in pods]
    handler = bench.informer(POD)._objects._handlers[0]
    plugin, state, spent = bench.plugin, CycleState(), {}

    def all_pods() -> None:
        spent["come"] = cpu_us(lambda: [handler.on_add(each, Arrival.LATER) for each in pods], PODS)  # type: ignore[func-returns-value]
        bench.state.default.up_to_date().refresh()
        spent["admit"] = cpu_us(lambda: [plugin.admit(info) for info in infos], PODS)
        spent["reserve"] = cpu_us(lambda: [plugin.reserve(state, info, "n1") for info in infos], PODS)
        spent["bound"] = cpu_us(lambda: [handler.on_update(old, new) for old, new in zip(pods, bound, strict=True)], PODS)  # type: ignore[func-returns-value]

    benchmark.pedantic(all_pods, rounds=1)
    benchmark.extra_info.update({f"us_{part}": round(us, 2) for part, us in spent.items()}, us_a_pod=round(sum(spent.values()), 2))
    root = bench.state.default.root
    assert root.amounts("used")["cpu"] == PODS * 500 * 10**6


@pytest.mark.parametrize("change", ["pod", "node", "quota", "parent", "all"])
def bench_runtimes_after_a_change_of_1000_quotas(benchmark: Any, change: str) -> None:
    bench, pods = full_bench(PODS)
    for each in pods:
        bench.state.counting.set_pod(each)
    bench.state.default.up_to_date().refresh()
    serial = count(2)
    probe = bench.state.quotas[LEAVES[0]]

    def change_something() -> None:
        i = next(serial)
        if change == "pod":
            if i % 2:
                bench.state.counting.set_pod(pods[0])
            else:
                bench.state.counting.remove_pod("u0")
        elif change == "node":
            bench.state.set_node(node("n0").cpu(str(32 + i % 2)).memory("128Gi").build())
        elif change == "all":
            probe.manager.kernel.refresh_all()
        else:
            parent = f"m0-{i % 2}" if change == "parent" else "m0-0"
            bench.state.set_object(quota(LEAVES[0], most=MOST, least={"cpu": str(1 + i % 2)}, parent=parent))
        probe.runtimes()

    benchmark.pedantic(change_something, rounds=200, warmup_rounds=5)


class Cluster:
    """5,000 nodes, and a profile with or without ElasticQuota beside the default plugins."""

    def __init__(self, quotas: int) -> None:
        self.world: World = cluster(NODES)
        enabled = {"ElasticQuota": "preFilter reserve"} if quotas else {}
        (config,) = config_with(enabled).profiles
        self._quotas = quotas
        self._serial = count()
        registry = dict(koordsched.plugins.REGISTRY)
        self.plugin: ElasticQuotaPlugin | None = None
        if quotas:
            made = self.plugin = ElasticQuotaPlugin(quota_args(), self.world)
            registry["ElasticQuota"] = lambda _args, _handle: made
        self.profile = Profile(config, registry, self.world)
        if self.plugin is not None:
            for i in range(NODES):
                self.plugin._state.set_node(node(f"n{i}").cpu("32").memory("128Gi").build())
            for i in range(quotas):
                self.plugin._state.set_object(quota(f"q{i}", most=MOST))

    def pod(self) -> PodInfo:
        """Return a pod of the next quota; but for that it is like all others."""
        builder = fresh(pod("web").cpu("500m").memory("512Mi"))
        builder = of_quota(builder, f"q{next(self._serial) % max(1, self._quotas)}")
        info = builder.info()
        info.shape = self.profile.shapes.key(info)
        if self.plugin is not None:
            self.plugin._state.counting.set_pod(info.pod)
        return info


@pytest.mark.parametrize("quotas", [0, 1, 1_000])
def bench_algorithm_equal_pods_of_quotas_5000_nodes(benchmark: Any, quotas: int) -> None:
    """quotas 0: without the plugin."""
    made = Cluster(quotas)
    state: dict[str, Any] = {}

    def setup() -> None:
        if "pod" in state:
            made.world.cache.assume_pod(state["pod"], state["node"])
            if made.plugin is not None:
                made.plugin.reserve(CycleState(), state["pod"], state["node"])
        state["pod"] = made.pod()
        if made.plugin is not None:
            made.plugin._state.default.up_to_date().refresh()

    def algorithm() -> None:
        state["node"] = made.world.search.find(made.profile, state["pod"])[1]

    benchmark.pedantic(algorithm, setup=setup, rounds=ROUNDS, warmup_rounds=200)
    assert isinstance(state["node"], str)
    assert len(made.profile.shapes) == 1, "quotas share their columns"


def bench_events_with_100000_pods_waiting_in_one_exhausted_quota(benchmark: Any) -> None:
    """A pod of another quota goes: no waiting pod is asked about. What a pod of the exhausted quota that goes costs is printed beside."""
    asyncio.run(_events(benchmark))


async def _events(benchmark: Any) -> None:
    world = cluster(NODES)
    koordsched.plugins.REGISTRY["ElasticQuota"] = lambda _args, handle: ElasticQuotaPlugin(quota_args(), handle)
    config = config_with({"ElasticQuota": "preFilter reserve"})
    scheduler = Scheduler(config, Dependencies(NoCluster(), world.clock, world.random, parse_flags([])))  # type: ignore[arg-type]
    profile = scheduler.profiles["default-scheduler"]
    plugin = profile.made["ElasticQuota"]
    assert isinstance(plugin, ElasticQuotaPlugin)
    state = plugin._state
    for i in range(NODES):
        world_node = node(f"n{i}").cpu("32").memory("128Gi").build()
        scheduler.cache.set_node(world_node)
        state.set_node(world_node)
    state.set_object(quota("full", most={"cpu": "100"}))
    state.set_object(quota("other", most={"cpu": "1000"}))
    runs: dict[str, list[Pod]] = {"full": [], "other": []}
    for name, number in (("full", 200), ("other", 1_000)):
        for i in range(number):
            made = of_quota(pod(f"{name}-{i}").cpu("500m"), name).on(f"n{i}").build()
            runs[name].append(made)
            state.counting.set_pod(made)
    for index in range(WAITING):
        info = fresh(of_quota(pod(f"p{index}").cpu("500m"), "full")).info()
        info.shape = profile.shapes.key(info)
        state.counting.set_pod(info.pod)
        scheduler.queue.add(info)
    while (item := scheduler.queue.pop()) is not None:
        assert profile.admission is not None
        diagnosis = profile.admission.refusal(item.pod_info)
        assert isinstance(diagnosis, Diagnosis)
        item.set_rejectors(diagnosis.rejectors)
        item.admission_plugin = diagnosis.admission_plugin
        scheduler.queue.add_unschedulable_if_not_present(item)
    assert scheduler.queue.sizes().unschedulable == WAITING

    going = iter(runs["other"])
    benchmark.pedantic(lambda: state.counting.remove_pod(next(going).metadata.uid), rounds=400, warmup_rounds=10)
    assert scheduler.queue.sizes().unschedulable == WAITING, "no pod of another quota is moved"

    spent, admitted = 0.0, 0
    for each in runs["full"]:
        began = time.process_time()
        state.counting.remove_pod(each.metadata.uid)
        popped = scheduler.queue.pop()
        assert popped is not None
        assert plugin.admit(popped.pod_info) is None
        plugin.reserve(CycleState(), popped.pod_info, "n1")
        spent += time.process_time() - began
        admitted += 1
        scheduler.queue.done(popped.uid)
        following = scheduler.queue.pop()  # the next one of the group, which finds the quota full
        if following is not None:
            diagnosis = profile.admission.refusal(following.pod_info) if profile.admission is not None else None
            assert diagnosis is not None
            following.set_rejectors(diagnosis.rejectors)
            following.admission_plugin = diagnosis.admission_plugin
            scheduler.queue.add_unschedulable_if_not_present(following)
    benchmark.extra_info["us_an_admitted_pod"] = round(spent / admitted * 1e6, 1)
