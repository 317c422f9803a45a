"""Follows all pods of a cluster over a whole test and remembers every node that each of them was ever seen on.

A thread with a watch of its own, straight from the API server. Watches are short and the next one goes on where the last ended, so
nothing is missed; when the version to go on from is gone and everything is listed again, only states in between are. Reading `stories`
while the thread writes is safe: values are replaced and never changed.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from support.controlplane.rest import Server

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

    def __init__(self, server: Server) -> None:
        self.stories: dict[str, Story] = {}  # by uid
        self._server = server
        self._version = ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="placements", daemon=True)

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
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join(WATCH_SECONDS + IO_SECONDS)
        assert not self._thread.is_alive()

    def _follow(self) -> None:
        while not self._ending.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except TooOld:
                self._version = ""
            except (OSError, http.client.HTTPException, ValueError):  # ValueError: a line that broke off
                self._ending.wait(PAUSE_SECONDS)

    def _list(self) -> None:
        with Stream(self._server, PODS) as answer:
            body = json.loads(answer.read())
        for pod in body["items"]:
            self.see(pod)
        self._version = body["metadata"]["resourceVersion"]

    def _watch(self) -> None:
        path = f"{PODS}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={self._version}"
        with Stream(self._server, path) as answer:
            while line := answer.readline():
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


class Stream:
    """One GET whose answer is read as it comes."""

    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path
        address = urlsplit(server.url)
        assert address.hostname is not None
        context = ssl.create_default_context(cadata=server.authority.decode())
        self._connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=IO_SECONDS, context=context)

    def __enter__(self) -> http.client.HTTPResponse:
        """Send; TooOld when the API server says so, ValueError for any other answer that is no success."""
        try:
            self._connection.request("GET", self._path, headers={"Authorization": f"Bearer {self._server.token}"})
            answer = self._connection.getresponse()
            if answer.status == http.client.GONE:
                raise TooOld(self._path)
            if answer.status != http.client.OK:
                raise ValueError(f"{self._path}: {answer.status}")
        except BaseException:
            self._connection.close()
            raise
        return answer

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._connection.close()
