"""A real cluster for scenarios (`scenario.cluster.ScenarioCluster`): objects through an API server, real time, a scheduler beside it.

It sees only its own pods, and events about what it made, so that what else happens on the cluster disturbs no expectation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from koordsched.api.kinds import EVENT, NAMESPACE, POD, PRIORITY_CLASS, Kind, unstructured_kind
from koordsched.apiclient.sending import Json
from koordsched.clock import Clock
from koordsched.cluster.port import AlreadyExists, ClusterError, Forbidden, NotFound, Ref
from koordsched.scenario.cluster import HttpAnswer
from koordsched.scenario.live.admission import KOORDINATOR_CLASSES, corrections, needs, priority_class, with_needs
from koordsched.scenario.live.api import ScenarioApi
from koordsched.scenario.live.clearing import CreatedObjects, about, clear, take_over
from koordsched.scenario.live.process import SchedulerProcess
from koordsched.scenario.observation import contains, state

SETTLE_SECONDS = 0.3
"""How long a scheduler on the same machine takes to hear of an object and to try a pod, and then some."""

SERVICE_ACCOUNT = unstructured_kind("v1", "ServiceAccount")
ADMITTED_WITHIN = 5.0
SHOWN_EVENTS = 30
POLL_SECONDS = 0.1


class LiveCluster:
    """An API server and a scheduler on it: a process of ours, or (None) the one that serves the cluster anyway."""

    def __init__(self, api: ScenarioApi, scheduler: SchedulerProcess | None, clock: Clock) -> None:
        self._api = api
        self._scheduler = scheduler
        self._clock = clock
        self._created = CreatedObjects()
        self._running = False
        self._last_kind: Kind | None = None  # what was written last that the scheduler may not have heard of

    def now(self) -> float:
        return self._clock.now()

    async def prepare(self) -> None:
        """Make the priority classes that always exist, and leave them."""
        there = {item["metadata"]["name"] for item in await self._api.list(PRIORITY_CLASS)}
        for name, value in KOORDINATOR_CLASSES.items():
            if name not in there:
                await self._api.create(Ref(PRIORITY_CLASS, "", name), priority_class(name, value))

    async def start(self) -> None:
        if self._scheduler is not None:
            await self._scheduler.start()
        self._running, self._last_kind = True, None

    async def restart(self) -> None:
        scheduler = self._own()
        await scheduler.kill()
        await scheduler.start()
        self._last_kind = None

    async def end(self) -> list[str]:
        """Stop the scheduler and clear away what was made; return what could not be."""
        if self._scheduler is not None:
            await self._scheduler.stop()
        return await clear(self._api, self._created, self._clock)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        self._last_kind = None

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        await self._in_order(kind)
        metadata = body["metadata"]
        ref = Ref(kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])
        if kind is POD:
            made = await self._create_pod(ref, body)
        elif kind is NAMESPACE:
            made = await self._create_namespace(ref, dict(body))
        else:
            made = await self._create(ref, body)
        if merge := corrections(kind, body, made):
            made = await self._api.patch(ref, merge)
        status = body.get("status")
        if status and not contains(made.get("status") or {}, status) and (await self._api.resource(kind)).has_status:
            await self._api.patch(ref, {"status": status}, "status")

    async def patch(self, ref: Ref, merge: Mapping[str, Any]) -> None:
        """Apply a merge patch. The `status` goes to the status subresource, and what a pod's containers ask for to that for resizes."""
        await self._in_order(ref.kind)
        parts = {"": dict(merge)}
        if "status" in merge and (await self._api.resource(ref.kind)).has_status:
            parts["status"] = {"status": parts[""].pop("status")}
        if ref.kind is POD and "containers" in merge.get("spec", {}):
            spec = dict(parts[""].pop("spec"))
            parts["resize"] = {"spec": {"containers": await self._resized(ref, spec.pop("containers"))}}
            parts[""] |= {"spec": spec} if spec else {}
        for subresource, part in parts.items():
            if part or len(parts) == 1:
                await self._api.patch(ref, part, subresource)

    async def _resized(self, ref: Ref, asked: Sequence[Json]) -> list[Json]:
        """Return the pod's containers with the resources that are asked for: a resize may change nothing else, and names all of them."""
        resources = {container["name"]: container.get("resources", {}) for container in asked}
        there = (await self._api.get(ref))["spec"]["containers"]
        return [{**each, "resources": resources[each["name"]]} if each["name"] in resources else each for each in there]

    async def delete(self, ref: Ref) -> None:
        await self._in_order(ref.kind)
        await self._api.delete(ref, grace_period_seconds=0 if ref.kind is POD else None)

    async def get(self, ref: Ref) -> Json | None:
        self.check()
        try:
            return await self._api.get(ref)
        except NotFound:
            return None

    async def list(self, kind: Kind) -> Sequence[Json]:
        self.check()
        try:
            found = await self._api.list(kind)
        except NotFound:
            return []
        if kind is POD:
            return [pod for pod in found if pod["metadata"].get("uid") in self._created.uids]
        if kind is EVENT:
            return [event for event in found if about(event) in self._created.uids]
        return found

    async def http(self, path: str) -> HttpAnswer:
        return await self._own().get(path)

    async def details(self) -> Sequence[str]:
        """Return what may explain a failure: where pods are, the last events about what was made, the end of the scheduler's log."""
        lines = []
        try:
            for pod in await self._api.list(POD):
                if pod["metadata"].get("uid") in self._created.uids:
                    made = pod["metadata"].get("creationTimestamp")
                    lines.append(f"  pod {pod['metadata']['namespace']}/{pod['metadata']['name']}, created {made}: {state(pod)}")
            events = [event for event in await self._api.list(EVENT) if about(event) in self._created.uids]
            for event in sorted(events, key=_time_of)[-SHOWN_EVENTS:]:
                named = event.get("regarding") or event.get("involvedObject") or {}
                text = event.get("note") or event.get("message")
                lines.append(f"  event {_time_of(event)} {event.get('reason')} of {named.get('kind')} {named.get('name')}: {text}")
        except ClusterError as error:
            lines.append(f"  the cluster does not say more: {error.message}")
        if self._scheduler is not None:
            lines.append("  the end of the scheduler's log:")
            lines += [f"    {line}" for line in self._scheduler.log_tail()]
        return lines

    def check(self) -> None:
        """Raise ClusterError when the scheduler has ended by itself."""
        if self._scheduler is not None:
            self._scheduler.check()

    async def _in_order(self, kind: Kind) -> None:
        """Let the scheduler hear of what was written before this: each kind has a watch of its own, and none waits for another."""
        if self._running and self._last_kind not in (None, kind):
            await self.settle()
        self._last_kind = kind

    def _own(self) -> SchedulerProcess:
        if self._scheduler is None:
            raise ClusterError("the scheduler that serves the cluster cannot be restarted or asked")
        return self._scheduler

    async def _create(self, ref: Ref, body: Mapping[str, Any]) -> Json:
        made = await self._api.create(ref, body)
        self._created.add(ref, made)
        return made

    async def _create_namespace(self, ref: Ref, body: Json) -> Json:
        try:
            return await self._create(ref, body)
        except AlreadyExists:
            taken = await take_over(self._api, ref, body)
            if taken is None:
                raise
        self._created.add(ref, taken)
        return taken

    async def _create_pod(self, ref: Ref, pod: Mapping[str, Any]) -> Json:
        """Create a pod, and the classes and the service account without which admission refuses it."""
        needed = tuple(needs(pod))
        for need in needed:
            await self._ensure(Ref(need.kind, "", need.name), need.manifest)
        pod = with_needs(pod, needed)
        deadline = self._clock.now() + ADMITTED_WITHIN
        while True:
            try:
                return await self._create(ref, pod)
            except Forbidden as refusal:
                await self._remedy(ref, refusal, deadline)

    async def _remedy(self, ref: Ref, refusal: Forbidden, deadline: float) -> None:
        """Do something about a refusal that ends by itself; raise any other."""
        if "no PriorityClass with name" in refusal.message and self._clock.now() < deadline:
            await asyncio.sleep(POLL_SECONDS)  # admission hears of a new class a little later
        elif 'serviceaccount "default" not found' in refusal.message and self._clock.now() < deadline:
            account = Ref(SERVICE_ACCOUNT, ref.namespace, "default")
            metadata = {"name": account.name, "namespace": account.namespace}
            await self._ensure(account, {"apiVersion": "v1", "kind": SERVICE_ACCOUNT.kind, "metadata": metadata})
        else:
            raise refusal

    async def _ensure(self, ref: Ref, body: Json) -> None:
        if ref in self._created.refs:
            return
        try:
            await self._create(ref, body)
        except AlreadyExists:
            return


def _time_of(event: Json) -> str:
    """Return when an event was last seen, as far as it says."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
