"""Objects as JSON, in and out of an API server, wherever it serves their kind.

Discovery says where that is, and whether the status is written apart; so a kind whose CRD is missing is named, and one that is in no
table of ours is found. Raises the port's errors only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from koordsched.api.kinds import Kind
from koordsched.apiclient.sending import Json, JsonRequests, send
from koordsched.cluster.port import NotFound, Ref


class Resource(msgspec.Struct, frozen=True):
    """Where a kind is served. `root`: /api/v1 or /apis/GROUP/VERSION; `has_status`: the status has a path of its own."""

    root: str
    plural: str
    namespaced: bool
    has_status: bool

    def path(self, namespace: str = "", *parts: str) -> str:
        """Return the path of the kind, of an object or of its subresource."""
        inside = ("namespaces", namespace) if self.namespaced and namespace else ()
        return "/".join((self.root, *(quote(part, safe="") for part in (*inside, self.plural, *parts))))


class ScenarioApi:
    """The requests that playing a scenario needs."""

    def __init__(self, requests: JsonRequests) -> None:
        self._requests = requests
        self._resources: dict[tuple[str, str], Resource] = {}  # by apiVersion and kind

    async def resource(self, kind: Kind) -> Resource:
        """Return where the kind is served. NotFound: it is not."""
        key = (kind.api_version, kind.kind)
        if key not in self._resources:
            self._resources[key] = await self._discover(kind)
        return self._resources[key]

    async def _discover(self, kind: Kind) -> Resource:
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        try:
            served = (await self._send("GET", root)).get("resources") or []
        except NotFound:
            served = []
        names = {item["name"] for item in served}
        for item in served:
            if item["kind"] == kind.kind and "/" not in item["name"]:
                return Resource(root, item["name"], item["namespaced"], f"{item['name']}/status" in names)
        missing = "; is its CustomResourceDefinition missing?" if "." in kind.group else ""
        raise NotFound(f"the cluster does not serve {kind.kind} ({kind.api_version}){missing}")

    async def get(self, ref: Ref) -> Json:
        return await self._send("GET", await self._path(ref))

    async def list(self, kind: Kind) -> list[Json]:
        """Return the kind's objects in all namespaces."""
        answer = await self._send("GET", (await self.resource(kind)).path())
        return list(answer.get("items") or [])

    async def create(self, ref: Ref, body: Mapping[str, Any]) -> Json:
        resource = await self.resource(ref.kind)
        return await self._send("POST", resource.path(ref.namespace), body)

    async def patch(self, ref: Ref, merge: Mapping[str, Any], subresource: str = "") -> Json:
        """Apply a JSON merge patch."""
        return await self._send("PATCH", await self._path(ref, subresource), merge)

    async def replace(self, ref: Ref, body: Mapping[str, Any], subresource: str = "") -> Json:
        return await self._send("PUT", await self._path(ref, subresource), body)

    async def delete(self, ref: Ref, *, uid: str = "", grace_period_seconds: int | None = None) -> Json:
        """Delete the object; the answer is a Status when it is gone, the object while it is terminating."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        return await self._send("DELETE", await self._path(ref), options)

    async def _path(self, ref: Ref, subresource: str = "") -> str:
        resource = await self.resource(ref.kind)
        return resource.path(ref.namespace, ref.name, *([subresource] if subresource else []))

    async def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Json:
        return await send(self._requests, method, path, body)
