"""Follows all pods of a cluster over a whole test and remembers every node that each of them was ever seen on.

A watch on the clients' loop (`support.controlplane.rest`), straight from the API server. Watches are short and the next one goes on where
the last ended, so nothing is missed; when the version to go on from is gone and everything is listed again, only states in between are.
Reading `stories` while that thread writes is safe: values are replaced and never changed.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp

from koordsched.apiclient.client import ApiException, Client
from support.controlplane.credentials import Kubeconfig
from support.controlplane.rest import loop

PODS = "/api/v1/pods"
WATCH_SECONDS = 2
PAUSE_SECONDS = 0.2
IO_SECONDS = 20.0
SETTLING_SECONDS = 0.3


class Story(NamedTuple):
    """What was seen of one pod. Times are time.monotonic()'s."""

    name: str
    nodes: tuple[str, ...]  # one after the other; "" is none
    seen: float
    bound: float = 0.0


class TooOld(Exception):
    """The version to watch from is gone."""


class Placements:
    """A context manager: while it is entered, `stories` is kept up to date."""

    def __init__(self, kubeconfig: Kubeconfig) -> None:
        self.stories: dict[str, Story] = {}  # by uid
        self._kubeconfig = json.loads(kubeconfig.text())
        self._version = ""
        self._following: Future[None] | None = None

    @property
    def bound(self) -> int:
        """Return how many pods have a node."""
        return sum(bool(story.nodes[-1]) for story in list(self.stories.values()))

    def settled(self) -> int:
        """Return how many pods are bound once that does not change any more: what a killed process has sent is carried out."""
        before = -1
        while before != (before := self.bound):
            time.sleep(SETTLING_SECONDS)
        return before

    def strayed(self) -> list[Story]:
        """Return the pods that were on a node and later on another one, or on none."""
        return [story for story in list(self.stories.values()) if len([node for node in story.nodes if node]) > 1 or "" in story.nodes[1:]]

    def __enter__(self) -> Self:
        self._following = asyncio.run_coroutine_threadsafe(self._follow(), loop())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._following is not None
        self._following.cancel()
        with suppress(CancelledError):
            self._following.result(IO_SECONDS)

    async def _follow(self) -> None:
        async with await Client.of_dict(self._kubeconfig) as client:
            while True:
                try:
                    if not self._version:
                        await self._list(client)
                    await self._watch(client)
                except TooOld:
                    self._version = ""
                except ApiException as refused:
                    if refused.status == http.client.GONE:
                        self._version = ""
                    await asyncio.sleep(PAUSE_SECONDS)
                except (aiohttp.ClientError, OSError, ValueError):  # ValueError: a line that broke off
                    await asyncio.sleep(PAUSE_SECONDS)

    async def _list(self, client: Client) -> None:
        body = await client.request("GET", PODS)
        for pod in body["items"]:
            self.see(pod)
        self._version = body["metadata"]["resourceVersion"]

    async def _watch(self, client: Client) -> None:
        path = f"{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={self._version}"
        async with await client.stream(path, silence=IO_SECONDS) as answer:
            async for line in answer.content:
                self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise TooOld(event["object"].get("message"))
        if event["type"] in {"ADDED", "MODIFIED"}:
            self.see(event["object"])
        self._version = event["object"]["metadata"]["resourceVersion"]

    def see(self, pod: Mapping[str, Any]) -> None:
        """Take note of a pod as it is now."""
        uid, node, now = pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), time.monotonic()
        story = self.stories.get(uid)
        if story is None:
            self.stories[uid] = Story(pod["metadata"]["name"], (node,), now, now if node else 0.0)
        elif story.nodes[-1] != node:
            self.stories[uid] = story._replace(nodes=(*story.nodes, node), bound=story.bound or now)
