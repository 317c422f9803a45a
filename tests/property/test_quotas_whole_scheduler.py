"""Two schedulers with ElasticQuota, one of which leads, on the embedded cluster, through any sequence of changes and changes of the leader.

Whoever leads in the end says of every quota what the cluster's objects say by the plain model; so does the one that waits, which writes
nothing. No pod stays parked that would be admitted, and what is bound of a quota is at most its max.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import quota_model
from support.elected import Client
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.parked import parked_but_schedulable
from support.quota_model import ModelPod, ModelQuota, QuotaModel, scale
from support.virtual_loop import run_virtual

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.api.koordinator.quota_definitions import PREFIX, annotated_amounts, readable_amounts
from koordsched.api.quantity import nano
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ClusterError, Ref, ServerError
from koordsched.config import load_config_object
from koordsched.config.flag_table import Flags
from koordsched.plugins.elasticquota.state import QuotaState
from koordsched.scheduler.scheduler import Dependencies, Scheduler

LONGEST_BACKOFF = 12.0
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "ElasticQuota"}]}},
            "pluginConfig": [{"name": "ElasticQuota", "args": {"quotaGroupNamespace": "default"}}],
        }
    ],
}
QUOTAS = ("p", "a", "b", "team")
LABELS = ("a", "b", "team", "unknown", "")
NAMESPACES = ("default", "team", "other")
NAMES = {quota_model.DEFAULT: "koordinator-default-quota", quota_model.SYSTEM: "koordinator-system-quota"}

Step = tuple[str, int, int]
numbers = st.integers(0, 7)
PODS_CHANGE = ("add pod", "add pod", "delete pod", "finish pod", "relabel pod")
QUOTAS_CHANGE = ("max", "move quota", "namespaces", "delete quota", "create quota")
steps = st.tuples(
    st.sampled_from((*PODS_CHANGE, *QUOTAS_CHANGE, "resize", "break", "wait", "kill the leader", "stop the leader")), numbers, numbers
)


class Story:
    """A world of two nodes, quotas of two levels and two schedulers, to which things happen."""

    def __init__(self, world: AnsweringCluster) -> None:
        self._world = world
        self._made = 0
        self.lowered: set[str] = set()  # quotas that may rightly use more than their max
        self.standby, self._client = self._new_scheduler()
        self.written_by_standby: Counter[str] = Counter()

    def _new_scheduler(self) -> tuple[Scheduler, Client]:
        client = Client(self._world.cluster)
        dependencies = Dependencies(client, self._world.clock, Random(1), Flags())
        return Scheduler(load_config_object(CONFIG), dependencies), client

    async def begin(self) -> None:
        for i in range(2):
            await self._world.create(NODE, node_manifest(f"n{i}", "4"))
        for name in QUOTAS:
            await self._create_quota(name, 3)
        await self._world.start()
        await self.standby.fill()

    async def change_leader(self, end: Callable[[], Awaitable[None]]) -> None:
        self.written_by_standby += self._client.written
        await end()
        self._world.scheduler = self.standby
        self.standby.begin()
        self.standby, self._client = self._new_scheduler()
        await self.standby.fill()

    async def play(self, step: Step) -> None:
        what, i, j = step
        quota = QUOTAS[i % 4]
        happens: dict[str, Callable[[], Awaitable[None]]] = {
            "add pod": lambda: self._add_pod(i, j),
            "delete pod": lambda: self._pod(i, None),
            "finish pod": lambda: self._pod(i, {"status": {"phase": "Succeeded"}}),
            "relabel pod": lambda: self._pod(i, {"metadata": {"labels": {PREFIX + "name": LABELS[j % 5] or None}}}),
            "max": lambda: self._quota(quota, {"spec": {"max": {"cpu": str(1 + j)}}}),
            "move quota": lambda: self._quota(quota, {"metadata": {"labels": {PREFIX + "parent": ("p", None, "nowhere")[j % 3]}}}),
            "namespaces": lambda: self._quota(
                quota, {"metadata": {"annotations": {PREFIX + "namespaces": ('["other"]', '["default"]', None)[j % 3]}}}
            ),
            "delete quota": lambda: self._quota(quota, None),
            "create quota": lambda: self._create_quota(quota, 1 + j),
            "resize": lambda: self._world.patch(Ref(NODE, "", f"n{i % 2}"), {"status": {"allocatable": {"cpu": str(2 + j)}}}),
            "break": lambda: self._break("bind" if i % 2 else "patch", 1 + j % 3),
            "wait": lambda: asyncio.sleep(i),
            "kill the leader": lambda: self.change_leader(self._world.scheduler.kill),
            "stop the leader": lambda: self.change_leader(self._world.scheduler.stop),
        }
        try:
            await happens[what]()
        except ClusterError:
            return  # an API server would not take it either
        await asyncio.sleep(0.3 * (j % 3))

    async def _create_quota(self, name: str, most: int) -> None:
        labels = {PREFIX + "is-parent": "true"} if name == "p" else {PREFIX + "parent": "p"} if name != "team" else {}
        metadata = {"name": name, "namespace": "team" if name == "team" else "default", "labels": labels}
        spec = {"max": {"cpu": str(2 * most if name == "p" else most)}, "min": {"cpu": "1"}}
        if self._made:
            self.lowered.add(name)
        await self._world.create(ELASTIC_QUOTA, {"metadata": metadata, "spec": spec})

    async def _quota(self, name: str, merge: dict[str, Any] | None) -> None:
        ref = Ref(ELASTIC_QUOTA, "team" if name == "team" else "default", name)
        self.lowered |= {name, "p"}
        await (self._world.delete(ref) if merge is None else self._world.patch(ref, merge))

    async def _add_pod(self, i: int, j: int) -> None:
        self._made += 1
        manifest = pod_manifest(f"x{self._made}", ("500m", "1", "2")[i % 3], terminationGracePeriodSeconds=0)
        labels = {PREFIX + "name": LABELS[j % 5]} if LABELS[j % 5] else {}
        if i == 7:
            labels[PREFIX + "preemptible"] = "false"
        manifest["metadata"] |= {"labels": labels, "namespace": NAMESPACES[i % 3]}
        await self._world.create(POD, manifest)

    async def _pod(self, i: int, merge: dict[str, Any] | None) -> None:
        raws = self._world.cluster.raws(POD)
        if raws:
            meta = raws[i % len(raws)]["metadata"]
            ref = Ref(POD, meta["namespace"], meta["name"])
            self.lowered |= set(QUOTAS) if merge and "metadata" in merge else set()
            await (self._world.delete(ref) if merge is None else self._world.patch(ref, merge))

    async def _break(self, verb: Any, times: int) -> None:
        self._world.cluster.faults.rules.append(Fault(verb=verb, kind=POD, times=times, error=lambda: ServerError("away")))


def model_of(world: AnsweringCluster) -> QuotaModel:
    """Return the plain model of the objects that there are."""
    found = QuotaModel()
    unlimited = dict.fromkeys(("cpu", "memory"), (2**63 - 1) // 5 * 10**9)
    for own in (quota_model.SYSTEM, quota_model.DEFAULT):
        found.quotas[own] = ModelQuota(quota_model.ROOT, max=unlimited)
    quotas = {raw["metadata"]["name"]: raw for raw in world.cluster.raws(ELASTIC_QUOTA) if not raw["metadata"]["name"].startswith("koord")}
    for name, raw in quotas.items():
        parent = raw["metadata"].get("labels", {}).get(PREFIX + "parent") or quota_model.ROOT
        most, least = ({key: nano(text) for key, text in raw["spec"][field].items()} for field in ("max", "min"))
        found.quotas[name] = ModelQuota(parent if parent in {quota_model.ROOT, *quotas} - {name} else "", most, least)
    for raw in world.cluster.raws(POD):
        if raw.get("status", {}).get("phase") != "Succeeded":
            meta, requests = raw["metadata"], raw["spec"]["containers"][0]["resources"]["requests"]
            fixed = meta.get("labels", {}).get(PREFIX + "preemptible") == "false"
            amounts = {key: nano(text) for key, text in requests.items()}
            found.pods[f"{meta['namespace']}/{meta['name']}"] = ModelPod(quota_of(raw, quotas), amounts, "nodeName" in raw["spec"], fixed)
    for raw in world.cluster.raws(NODE):
        for key, text in raw["status"]["allocatable"].items():
            found.total[key] = found.total.get(key, 0) + nano(text)
    return found


def quota_of(pod: dict[str, Any], quotas: dict[str, Any]) -> str:
    label: str = pod["metadata"].get("labels", {}).get(PREFIX + "name", "")
    namespace: str = pod["metadata"]["namespace"]
    if label:
        return label if label in quotas else quota_model.DEFAULT
    if namespace in quotas and quotas[namespace]["metadata"]["namespace"] == namespace:
        return namespace
    lists = {name: raw["metadata"].get("annotations", {}).get(PREFIX + "namespaces", "") for name, raw in quotas.items()}
    listed = [name for name, text in lists.items() if f'"{namespace}"' in text]
    return min(listed, default=quota_model.DEFAULT)


def assert_as_the_model(scheduler: Scheduler, model: QuotaModel) -> None:
    state = scheduler.cache.shared.find(QuotaState)
    assert state is not None
    runtimes = model.runtimes()
    assert {NAMES.get(name, name) for name in model.quotas} | {"koordinator-root-quota"} == state.quotas.keys()
    for name in model.quotas:
        known = state.quotas[NAMES.get(name, name)]
        assert known.amounts("used") == some(model.used(name)), name
        assert known.amounts("fixed_used") == some(model.used(name, fixed=True)), name
        assert known.amounts("request") == some(model.request(name)), name
        assert known.runtimes() == {key: amount * scale(key) for key, amount in runtimes.get(name, {}).items()}, name
        assert {counted.key: counted.entry.assigned for counted in known.pods.values()} == {
            key: pod.assigned for key, pod in model.pods.items() if pod.quota == name
        }


def assert_written(world: AnsweringCluster, model: QuotaModel) -> None:
    """See that the objects say what is used and asked for."""
    names = {shown: own for own, shown in NAMES.items()} | {"koordinator-root-quota": quota_model.ROOT}
    for raw in world.cluster.raws(ELASTIC_QUOTA):
        name = names.get(raw["metadata"]["name"], raw["metadata"]["name"])
        assert some(readable_amounts(raw.get("status", {}).get("used", {}))) == some(model.used(name)), name
        annotated = annotated_amounts(raw["metadata"].get("annotations", {}), PREFIX + "request", [])
        assert some(annotated or {}) == some(model.request(name)), name


def some(found: dict[str, int]) -> dict[str, int]:
    return {key: amount for key, amount in found.items() if amount}


beginnings = st.lists(st.tuples(st.just("add pod"), numbers, numbers), min_size=3, max_size=8)


@given(beginnings, st.lists(steps, min_size=1, max_size=10))
@example([("add pod", 1, 0), ("add pod", 1, 0), ("add pod", 2, 0)], [("kill the leader", 0, 0), ("delete pod", 0, 0)])
@example([("add pod", 1, 0), ("add pod", 2, 0)], [("break", 1, 2), ("add pod", 1, 0), ("stop the leader", 0, 0), ("kill the leader", 0, 1)])
@example([("add pod", 4, 4), ("add pod", 4, 4)], [("namespaces", 1, 0), ("delete quota", 3, 0), ("kill the leader", 0, 0)])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_leader_has_the_numbers_of_the_objects_and_no_standby_writes(beginning: list[Step], changes: list[Step]) -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            story = Story(world)
            try:
                await story.begin()
                for step in (*beginning, *changes):
                    await story.play(step)
                    model = model_of(world)
                    for name in set(QUOTAS) - story.lowered & model.quotas.keys():
                        assert model.used(name).get("cpu", 0) <= model.quotas[name].max["cpu"]
                world.cluster.faults.rules.clear()
                await asyncio.sleep(LONGEST_BACKOFF)
                assert parked_but_schedulable(world) == []
                model = model_of(world)
                assert_as_the_model(world.scheduler, model)
                assert_as_the_model(story.standby, model)
                assert_written(world, model)
                assert story.written_by_standby + story._client.written == Counter()
            finally:
                await story.standby.kill()

    run_virtual(body)
