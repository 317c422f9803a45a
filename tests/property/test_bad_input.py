"""Objects with mistakes, fed to a whole scheduler with all plugins of Koordinator's chart: it goes on, says what is wrong, and takes what
is repaired.

Each example is a cluster with one right object of each kind, and four to eight objects with a mistake. A plain pod is bound meanwhile, no
plugin raises, every path of a plugin answers; and when each mistake is corrected all pods get their place, and pods that need each of the
repaired objects too. KOORDSCHED_BAD_OBJECTS=10000 makes that many objects with mistakes.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bad_input import (
    ANNOTATION,
    FLAG,
    JSON,
    KEYS,
    LABEL,
    LIST,
    NAME,
    NUMBER,
    OWN_GANG,
    TEXT,
    Json,
    Key,
    Mistake,
    mistakes,
    replaced,
    world,
)
from support.embedded import AnsweringCluster
from support.fakes import embedded
from support.virtual_loop import run_virtual

from koordsched import log
from koordsched.api.kinds import EVENT, NODE, POD, RESERVATION, Kind
from koordsched.clock import VirtualClock, rfc3339
from koordsched.cluster.memory.schemas import has_status_resource
from koordsched.cluster.port import ClusterError, Patch, Ref
from koordsched.config.flags import parse_flags
from koordsched.config.loading import DEFAULT_FILE, load_config_object

OBJECTS = int(os.environ.get("KOORDSCHED_BAD_OBJECTS", "120"))
FEWEST, MOST = 4, 8
LONGEST_BACKOFF = 30.0
GATES = "PriorityTransformer=true,ReplaceResourcesTransformer=true,PreemptionPolicyTransformer=true,DevicePluginAdaption=true"
SERVED = (
    "LoadAwareScheduling/node/n1",
    "NodeNUMAResource/nodes/n1",
    "DeviceShare/nodeDeviceSummaries",
    "DeviceShare/nodeDeviceSummaries/n1",
    "Reservation/nodeReservations/n1",
    "Coscheduling/gangs",
    "Coscheduling/gang/default/g",
    "ElasticQuota/quotas",
    "ElasticQuota/quotas/q",
)
INVALID_TOPOLOGY = b"invalid topology, please check the NodeResourceTopology object"
"""What Koordinator answers with status 500 where a node's CPUs are not known."""
PROBES: dict[str, Json] = {
    "bound-to-cpus": {"labels": {"koordinator.sh/qosClass": "LSR"}, "requests": {"cpu": "2"}},
    "with-a-gpu": {"requests": {"nvidia.com/gpu": "1"}},
    "member": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "of-the-quota": {"labels": {"quota.scheduling.koordinator.sh/name": "q"}},
    "owner": {"labels": {"app": "r"}, "annotations": {"scheduling.koordinator.sh/reservation-affinity": "{}"}},
    "hinted": {"annotations": {"internal.scheduling.koordinator.sh/scheduling-hint": '{"nodeNames":["n1"]}'}},
}
"""Pods that each need a plugin, and an object that is right."""


def config() -> Any:
    """Return the configuration of the chart, in which pods' own estimates of their load count too."""
    with open(DEFAULT_FILE, "rb") as file:
        found = msgspec.json.decode(file.read())
    for entry in found["profiles"][0]["pluginConfig"]:
        if entry["name"] == "LoadAwareScheduling":
            entry["args"]["allowCustomizeEstimation"] = True
    return load_config_object(found)


def pod(name: str, namespace: str = "default", *, requests: Json | None = None, node: str = "", **metadata: Any) -> Json:
    amounts = {"cpu": "1", "memory": "64Mi", **(requests or {})}
    spec: Json = {
        "schedulerName": "koord-scheduler",
        "priorityClassName": "koord-prod",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}],
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


class Story:
    """A cluster with one object of each kind, and a pod for each mistake in one."""

    def __init__(self, cluster: AnsweringCluster, heard: io.StringIO) -> None:
        self.world = cluster
        self.heard = heard
        self.right = world(rfc3339(cluster.now()))
        self.wrong: dict[Kind, Mistake] = {}  # one for each kind but pods
        self.pods: dict[str, Mistake] = {}
        self.refused: set[str] = set()  # pods that an API server would not take
        self.untouched: set[Kind] = set()  # kinds of which it would not take the object with its mistake

    async def begin(self, made: list[Mistake]) -> None:
        """Create everything with those mistakes that are there from the start, start the scheduler, and make the others."""
        for mistake in made:
            if mistake.kind is POD:
                self.pods[f"p{len(self.pods)}"] = mistake
            else:
                self.wrong.setdefault(mistake.kind, mistake)
        free: Json = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}
        taints = [{"key": "plain", "effect": "NoSchedule"}]
        await self.world.create(NODE, {"metadata": {"name": "free"}, "spec": {"taints": taints}, "status": free})
        for kind, right in self.right.items():
            early = self.wrong.get(kind)
            if early is not None and early.early and await self._try(self.world.create(kind, self._spoilt(early))):
                continue
            if early is not None and early.early:
                self.untouched.add(kind)
            await (self._write(kind, right) if await self.world.get(self._ref(kind)) else self.world.create(kind, right))
        for name, mistake in self.pods.items():
            if mistake.early:
                await self._add_pod(name, mistake)
        await self.world.start()
        await asyncio.sleep(1)
        for kind, late in self.wrong.items():
            if not late.early and not await self._try(self._write(kind, self._spoilt(late))):
                self.untouched.add(kind)
        for name, mistake in self.pods.items():
            if not mistake.early:
                await self._add_pod(name, mistake)
        await asyncio.sleep(LONGEST_BACKOFF)

    async def plain_pod(self, name: str) -> None:
        """A pod that has to do with none of it is bound at once."""
        made = pod(name, "plain", requests={"cpu": "100m"})
        made["spec"]["tolerations"] = [{"key": "plain", "operator": "Exists"}]
        await self.world.create(POD, made)
        await asyncio.sleep(2)
        assert self.node_of(name, "plain"), (self.problem(name, "plain"), self.heard.getvalue()[-2000:])

    async def paths_answer(self) -> None:
        for path in SERVED:
            response = await self.world.http(f"/apis/v1/plugins/{path}")
            assert response.status in {200, 404} or INVALID_TOPOLOGY in response.body, (path, response)

    async def repair(self) -> None:
        """Correct every mistake, as its author would."""
        for kind in self.wrong:
            ref = self._ref(kind)
            found = await self.world.get(ref)
            if found is not None and kind is RESERVATION and found.get("status", {}).get("nodeName"):  # what it holds is settled
                await self.world.delete(ref)
                found = None
            await (self.world.create(kind, self.right[kind]) if found is None else self._write(kind, self.right[kind]))
        for name, mistake in self.pods.items():
            assert mistake.key is not None
            if name not in self.refused:
                right = own(mistake.key.right, name)
                await self.world.patch(Ref(POD, "default", name), {"metadata": {mistake.key.place: {mistake.key.key: right}}})
        await asyncio.sleep(2 * LONGEST_BACKOFF)

    async def all_is_well(self) -> None:
        """All pods have a node; and when they are gone, pods that need each of the objects get theirs."""
        waiting = {name: (self.pods[name], self.problem(name)) for name in self.pods if name not in self.refused and not self.node_of(name)}
        assert waiting == {}
        for name in self.pods:
            if name not in self.refused:
                await self.world.delete(Ref(POD, "default", name))
        for name, fields in PROBES.items():
            await self.world.create(POD, pod(name, **fields))
        await asyncio.sleep(LONGEST_BACKOFF)
        assert {name: self.problem(name) for name in PROBES if not self.node_of(name)} == {}

    def unsaid(self) -> dict[str, list[str]]:
        """Return the mistakes that surely are some, and of which nothing names the key and the value; each with what is said."""
        objects = [(self.right[kind]["metadata"]["name"], mistake) for kind, mistake in self.wrong.items() if kind not in self.untouched]
        pods = [(name, mistake) for name, mistake in self.pods.items() if name not in self.refused]
        found: dict[str, list[str]] = {}
        for name, mistake in (*objects, *pods):
            key = mistake.key
            if key is None or not mistake.unreadable or key.silent:
                continue
            if key.needs is None or not (self.wrong.keys() - {mistake.kind} or mistake.early):
                said = self.words_about(name, mistake.kind)
                if not any(names(text, key.key, mistake.value) for text in said):
                    found[repr(mistake)] = said
        return found

    def words_about(self, name: str, kind: Kind) -> list[str]:
        """Return all that is said of an object: conditions, events and lines of the log."""
        found = [raw["note"] for raw in self.world.cluster.raws(EVENT) if raw["regarding"]["name"] == name]
        raw = self.world.cluster.raw(Ref(POD, "default", name) if kind is POD else self._ref(kind))
        found += [condition.get("message", "") for condition in raw.get("status", {}).get("conditions", [])]
        return found + [line for line in self.heard.getvalue().splitlines() if f'"{name}"' in line or f'/{name}"' in line]

    def node_of(self, name: str, namespace: str = "default") -> str:
        return str(self.world.cluster.raw(Ref(POD, namespace, name))["spec"].get("nodeName", ""))

    def problem(self, name: str, namespace: str = "default") -> str:
        status = self.world.cluster.raw(Ref(POD, namespace, name)).get("status", {})
        return "; ".join(condition.get("message", "") for condition in status.get("conditions", []))

    async def _add_pod(self, name: str, mistake: Mistake) -> None:
        key = mistake.key
        assert key is not None
        annotations = {each: own(text, name) for each, text in key.annotations.items()}
        made = pod(name, labels=dict(key.labels), annotations=annotations, requests=key.requests, node=key.node)
        made["metadata"][key.place][key.key] = own(mistake.value, name)
        if not await self._try(self.world.create(POD, made)):
            self.refused.add(name)

    def _spoilt(self, mistake: Mistake) -> Json:
        """Return the object of the cluster with its mistake."""
        right = self.right[mistake.kind]
        if mistake.key is None:
            spoilt: Json = replaced(right, mistake.at, mistake.value)
            return spoilt
        metadata = right["metadata"]
        place = {**metadata.get(mistake.key.place, {}), mistake.key.key: mistake.value}
        return {**right, "metadata": {**metadata, mistake.key.place: place}}

    async def _write(self, kind: Kind, body: Json) -> None:
        """Make this the object: its specification, then its status if that is a resource of its own."""
        ref = self._ref(kind)
        version = self.world.cluster.raw(ref)["metadata"]["resourceVersion"]
        await self.world.cluster.update(ref, {**body, "metadata": {**body["metadata"], "resourceVersion": version}})
        if "status" in body and has_status_resource(kind):
            await self.world.cluster.patch(ref, Patch({"status": None}, subresource="status"))
            await self.world.cluster.patch(ref, Patch({"status": body["status"]}, subresource="status"))

    async def _try(self, request: Any) -> bool:
        with suppress(ClusterError):
            await request
            return True
        return False

    def _ref(self, kind: Kind) -> Ref:
        metadata = self.right[kind]["metadata"]
        return Ref(kind, metadata.get("namespace", ""), metadata["name"])


@contextmanager
def log_of(clock: VirtualClock) -> Iterator[io.StringIO]:
    heard = io.StringIO()
    log.write_logs(log.Style("text", clock.now, heard))
    try:
        yield heard
    finally:
        log.write_logs(None)


def play(made: list[Mistake], *, gates: bool, lenient: bool) -> None:
    """Play one example. lenient: the API server has no schema of custom resources."""

    async def body(clock: VirtualClock) -> None:
        flags = parse_flags(["--enable-network-topology-manager=true", *([f"--feature-gates={GATES}"] if gates else [])])
        with log_of(clock) as heard:
            async with embedded(asyncio.get_running_loop(), config(), flags=flags) as cluster:
                story = Story(cluster, heard)
                await story.begin(made)
                await story.plain_pod("during")
                await story.paths_answer()
                assert story.unsaid() == {}
                await story.repair()
                await story.all_is_well()
                await story.plain_pod("after")
            assert "Traceback" not in heard.getvalue(), heard.getvalue()[-4000:]

    if lenient:
        with patch("koordsched.cluster.memory.registry.definition_of", lambda _kind: None):
            run_virtual(body)
    else:
        run_virtual(body)


def own(value: str, name: str) -> str:
    """Return the value with the name of a gang that is this pod's alone."""
    return value.replace(OWN_GANG, f"gang-of-{name}") if isinstance(value, str) else value


def names(text: str, key: str, value: str) -> bool:
    """Answer whether a text names the key, and the beginning of the value as far as that can be written in a line."""
    once = json.dumps(value)[1:-1]
    twice = json.dumps(once)[1:-1]
    return key in text and any(written[:8] in text for written in (value, once, twice))


def subject(mistake: Mistake) -> object:
    """Return the same for mistakes of one object: of each kind there is one, and any number of pods."""
    return (mistake.key.key, mistake.value) if mistake.kind is POD and mistake.key is not None else mistake.kind


@given(st.lists(mistakes, min_size=FEWEST, max_size=MOST, unique_by=subject), st.booleans(), st.booleans())
@settings(max_examples=-(-OBJECTS // FEWEST), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_scheduler_goes_on_whatever_is_written_into_objects(made: list[Mistake], gates: bool, lenient: bool) -> None:
    play(made, gates=gates, lenient=lenient)


def test_amounts_of_a_reservation_that_become_unreadable() -> None:
    """Found by 10,000 objects: it had its node already, and the event that says so is another one than that of a pending Reservation."""
    at = ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu")
    play([Mistake(RESERVATION, "9999-12-31T23:59:59Z", at=at)], gates=False, lenient=False)


UNREADABLE = {JSON: ("{", '"text"'), LIST: ("[1", "true"), NUMBER: ("x",), NAME: ("Sometimes",), FLAG: ("yes",), TEXT: ("Sometimes",)}
"""By what a value is: values that are none."""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, id=f"{key.kind.kind}-{key.key}-{number}")
        for key in KEYS
        if not key.silent
        for number, value in enumerate(UNREADABLE[key.of])
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: Key, value: str) -> None:
    """The object, the key and the value are in a condition, an event or a line of the log."""
    play([Mistake(key.kind, value, key, unreadable=True)], gates=False, lenient=False)


@pytest.mark.parametrize("key", [pytest.param(key, id=f"{key.kind.kind}-{key.key}") for key in KEYS])
def test_the_right_value_of_each_key_is_no_mistake(key: Key) -> None:
    """What stands in the table as right is: nothing is said of it."""
    assert key.place in {LABEL, ANNOTATION}

    async def body(clock: VirtualClock) -> None:
        with log_of(clock) as heard:
            async with embedded(asyncio.get_running_loop(), config()) as cluster:
                story = Story(cluster, heard)
                mistake = Mistake(key.kind, key.right, key)
                await story.begin([mistake])
                (name,) = story.pods or [story.right[key.kind]["metadata"]["name"]]
                assert [text for text in story.words_about(name, key.kind) if key.key in text] == []

    run_virtual(body)
