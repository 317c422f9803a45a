"""Take away what a scenario made, and nothing else: objects by their uid, pods first and at once, finalizers stripped.

A namespace stays, because emptying one is a controller's work that a bare API server lacks: it is stripped of its labels and marked, and
the next scenario that needs it takes it over as if it were new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from koordsched.api.kinds import EVENT, NAMESPACE, POD
from koordsched.apiclient.sending import Json
from koordsched.clock import Clock
from koordsched.cluster.port import ClusterError, Conflict, NotFound, Ref
from koordsched.scenario.cluster import named
from koordsched.scenario.live.api import ScenarioApi

LEFT_OVER = "koordsched.io/left-over-of-a-scenario"
NAME_LABEL = "kubernetes.io/metadata.name"
GONE_WITHIN = 30.0
POLL_SECONDS = 0.1
AT_ONCE = 16


class CreatedObjects:
    """What a scenario has made on the cluster: each object with its uid."""

    def __init__(self) -> None:
        self.refs: dict[Ref, str] = {}
        self.uids: set[str] = set()  # of those that are gone as well

    def add(self, ref: Ref, body: Json) -> None:
        uid = body.get("metadata", {}).get("uid", "")
        self.refs[ref] = uid
        self.uids.add(uid)


async def clear(api: ScenarioApi, created: CreatedObjects, clock: Clock) -> list[str]:
    """Clear away; return what could not be, in words."""
    deadline = clock.now() + GONE_WITHIN

    async def remove(ref: Ref, uid: str) -> None:
        while not await _gone(api, ref, uid):
            if clock.now() >= deadline:
                raise ClusterError(f"it is still there after {GONE_WITHIN:g}s")
            await asyncio.sleep(POLL_SECONDS)

    plain = [item for item in created.refs.items() if item[0].kind is not NAMESPACE]
    problems = await _all((ref, remove(ref, uid)) for ref, uid in plain if ref.kind is POD)
    problems += await _all((ref, remove(ref, uid)) for ref, uid in reversed(plain) if ref.kind is not POD)
    problems += await _all((ref, remove(ref, uid)) for ref, uid in await _events_about(api, created))
    return problems + await _all((ref, _leave_namespace(api, ref)) for ref in created.refs if ref.kind is NAMESPACE)


def about(event: Json) -> str:
    """Return the uid of the object that an event is about, or ""."""
    return str((event.get("regarding") or event.get("involvedObject") or {}).get("uid") or "")


async def take_over(api: ScenarioApi, ref: Ref, body: Json) -> Json | None:
    """Give a namespace that an earlier scenario left what a manifest says; None: no scenario made it, or it is gone."""
    try:
        metadata = (await api.get(ref))["metadata"]
        if LEFT_OVER not in (metadata.get("annotations") or {}):
            return None
        wanted = body["metadata"]
        annotations = {**(wanted.get("annotations") or {}), LEFT_OVER: None}
        return await api.patch(ref, {"metadata": {"labels": wanted.get("labels") or {}, "annotations": annotations}})
    except NotFound:
        return None


async def _gone(api: ScenarioApi, ref: Ref, uid: str) -> bool:
    """Ask for an object's end; return whether it has come."""
    try:
        answer = await api.delete(ref, uid=uid, grace_period_seconds=0)
        if answer.get("kind") == "Status":
            return True
        if answer.get("metadata", {}).get("finalizers"):
            await api.patch(ref, {"metadata": {"finalizers": None}})
    except (NotFound, Conflict):  # Conflict: another object has the name by now
        return True
    return False


async def _events_about(api: ScenarioApi, created: CreatedObjects) -> list[tuple[Ref, str]]:
    try:
        events = [event["metadata"] for event in await api.list(EVENT) if about(event) in created.uids]
    except ClusterError:
        return []  # they end by themselves, and no scenario sees another's
    return [(Ref(EVENT, metadata["namespace"], metadata["name"]), metadata.get("uid", "")) for metadata in events]


async def _leave_namespace(api: ScenarioApi, ref: Ref) -> None:
    """Make a namespace like new; one that a step has deleted is ended for good, which takes a controller otherwise."""
    try:
        body = await api.get(ref)
        metadata = body["metadata"]
        if metadata.get("deletionTimestamp"):
            await api.replace(ref, {**body, "spec": {"finalizers": []}}, "finalize")
            return
        labels = {key: None for key in metadata.get("labels") or {} if key != NAME_LABEL}
        annotations: dict[str, Any] = dict.fromkeys(metadata.get("annotations") or {})
        await api.patch(ref, {"metadata": {"labels": labels, "annotations": {**annotations, LEFT_OVER: "true"}}})
    except NotFound:
        return


async def _all(work: Iterable[tuple[Ref, Awaitable[None]]]) -> list[str]:
    """Do it all, some of it at once; return what went wrong."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def do(ref: Ref, one: Awaitable[None]) -> str:
        async with gate:
            try:
                await one
            except ClusterError as error:
                return f"{named(ref)}: {error.message}"
        return ""

    return [problem for problem in await asyncio.gather(*(do(ref, one) for ref, one in work)) if problem]
