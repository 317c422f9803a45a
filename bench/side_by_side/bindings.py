"""Sees when pods become bound, by a watch of its own.

The watch asks for metadata only, of pods that have a node: one small event for each pod, the moment it is bound, in an encoding that no
competitor asks for. So it costs the API server and this process the same, whoever binds, and nothing while nothing is bound.
"""

from __future__ import annotations

import time
from typing import Literal
from urllib.parse import urlencode

import msgspec

from koordsched.apiclient.client import Client

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
BOUND = "spec.nodeName!="
HOURS_SECONDS = 6 * 3600


class WatchLost(Exception):
    """The API server cannot go on with the watch, so that there is no telling any more when pods were bound."""


class _Metadata(msgspec.Struct):
    name: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Event(msgspec.Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: _Object


class BoundWatch:
    """Knows when each pod was seen bound: `seen` has monotonic seconds by pod name, in the order of the binds.

    Pods whose names begin with `known` had a node before. `ends` counts how often the server has ended the watch: after that some pods were
    seen a little late.
    """

    def __init__(self, known: str) -> None:
        self.seen: dict[str, float] = {}
        self.ends = 0
        self._known = known
        self._version = ""
        self._decode = msgspec.json.Decoder(_Event).decode

    async def now(self, client: Client) -> str:
        """Return the resource version to watch from."""
        listed = await client.request("GET", "/api/v1/pods?limit=1", accept=METADATA_LIST)
        return str(listed["metadata"]["resourceVersion"])

    async def follow(self, client: Client, resource_version: str) -> None:
        """Take note until cancelled. A watch that the server ends, as it does when it has no time for it, goes on where it was."""
        self._version = resource_version
        while True:
            await self._follow_one(client)
            self.ends += 1

    async def _follow_one(self, client: Client) -> None:
        query = {"watch": "true", "fieldSelector": BOUND, "resourceVersion": self._version, "timeoutSeconds": str(HOURS_SECONDS)}
        async with await client.stream(f"/api/v1/pods?{urlencode(query)}", accept=METADATA) as answer:
            begun = b""
            async for piece in answer.content.iter_any():
                *lines, begun = (begun + piece).split(b"\n")
                self._take_note(lines, time.monotonic())

    def _take_note(self, lines: list[bytes], now: float) -> None:
        for line in lines:
            event = self._decode(line)
            if event.type == "ERROR":
                raise WatchLost(line.decode())
            metadata = event.object.metadata
            self._version = metadata.resource_version
            if not metadata.name.startswith(self._known):  # or it is an event of one that is being evicted
                self.seen.setdefault(metadata.name, now)
