"""A small blocking client of the API server, for what a test sets up and looks at; it is not what is tested.

JSON in and out, one connection kept open, an exception for every refusal. Not to be shared by threads.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

JSON = "application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_SECONDS = 60.0
IDLE_SECONDS = 30.0
"""A connection that was idle for longer is not used again: the API server closes it after 90 s, maybe while a request is on its way."""


class Refused(Exception):
    """The API server answered with an error status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Server(NamedTuple):
    """Where the API server is, whom to trust, and as whom to talk."""

    url: str
    authority: bytes
    token: str


class Rest:
    """Requests as one user. A connection that the server has closed, as at its restart, is made anew after it has failed."""

    def __init__(self, server: Server) -> None:
        address = urlsplit(server.url)
        context = ssl.create_default_context(cadata=server.authority.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
        assert address.hostname is not None
        self._connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=TIMEOUT_SECONDS, context=context)
        self._authorization = f"Bearer {server.token}"
        self._used = time.monotonic()

    def get(self, path: str) -> Any:
        return self.request("GET", path)

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
        """Send one request and return the decoded answer; Refused for a status of 400 and more, OSError when the server does not answer."""
        kind = MERGE_PATCH if method == "PATCH" else JSON
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": self._authorization, "Accept": accept, "Content-Type": kind}
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        try:
            self._connection.request(method, path, body=data, headers=headers)
            answer = self._connection.getresponse()
            text = answer.read()
            self._used = time.monotonic()
        except (OSError, http.client.HTTPException):
            self.close()  # the next request opens another connection
            raise
        if answer.status >= http.client.BAD_REQUEST:
            raise Refused(answer.status, message_of(text))
        return json.loads(text) if answer.getheader("Content-Type", "").startswith(JSON) else text.decode()

    def close(self) -> None:
        self._connection.close()


def message_of(text: bytes) -> str:
    """Return the message of a Status, or the text as it is."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.decode(errors="replace").strip()
