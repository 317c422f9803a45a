"""A blocking client of the API server, for what a test sets up and looks at; it is not what is tested.

kubernetes-asyncio (`koordsched.apiclient.client`) on an event loop in a thread of its own, which all clients of a test process share:
so blocking tests use it, and async ones without a second loop of theirs.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any, TypeVar

from koordsched.apiclient.client import JSON, ApiException, Client
from support.controlplane.credentials import Kubeconfig

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
T = TypeVar("T")


class Refused(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop that serves all clients until the process ends."""
    found = asyncio.new_event_loop()
    threading.Thread(target=found.run_forever, name="rest", daemon=True).start()
    return found


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Do the work on the clients' loop and return what came of it."""
    return asyncio.run_coroutine_threadsafe(work, loop()).result()


class Rest:
    """Requests as the user of a kubeconfig, each waited for. It opens connections when it needs them, also after `close`."""

    def __init__(self, kubeconfig: Kubeconfig) -> None:
        self._kubeconfig = json.loads(kubeconfig.text())
        self._client: Client | None = None

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def get_or_none(self, path: str) -> Any:
        """Return the object, or None if there is none."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.status != http.client.NOT_FOUND:
                raise
            return None

    def get_metadata(self, path: str) -> Any:
        """List the objects of a collection with nothing but their metadata."""
        return self.request("GET", path, accept=METADATA_LIST)

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create an object in the collection at this path, or post to a subresource such as a pod's binding."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Apply a JSON merge patch."""
        return self.request("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self.request("DELETE", path)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, accept: str = JSON) -> Any:
        """Send one request and return the decoded answer. Refused: an error status. aiohttp.ClientError, OSError: no answer."""
        try:
            return wait_for(self._request(method, path, body, accept))
        except ApiException as refused:
            raise Refused(refused.status, message_of(refused.body or "")) from None

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            wait_for(client.close())

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None, accept: str) -> Any:
        if self._client is None:
            self._client = await Client.of_dict(self._kubeconfig)
        return await self._client.request(method, path, body, accept=accept)


def message_of(text: str | bytes) -> str:
    """Return the message of a Status, or the text as it is."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return (text.decode(errors="replace") if isinstance(text, bytes) else text).strip()
