"""Requests over TLS as a given client: with a certificate of its own, a token, headers."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support.controlplane.authority import KeyPair

TIMEOUT = 20.0


class Asked(NamedTuple):
    """A request, as a test writes it."""

    method: str = "GET"
    path: str = "/metrics"
    headers: Mapping[str, str] = {}
    pair: KeyPair | None = None
    body: bytes | None = None


class Answered(NamedTuple):
    status: int
    content_type: str
    body: bytes

    @property
    def kind(self) -> Any:
        """Return what the answer is, for a comparison: a Status as it is, another refusal's text, of a success only the type."""
        if self.content_type.startswith("application/json") and self.status >= http.client.BAD_REQUEST:
            return json.loads(self.body)
        return self.body.decode() if self.status >= http.client.BAD_REQUEST else self.content_type.split(";")[0]


class Door(NamedTuple):
    """A secure port on loopback."""

    port: int
    host: str = "127.0.0.1"

    def ask(self, asked: Asked) -> Answered:
        """Ask over a connection of its own; OSError without an answer."""
        connection = self.connection(asked.pair)
        try:
            return answered(connection, asked)
        finally:
            connection.close()

    def ready(self) -> bool:
        try:
            return self.ask(Asked(path="/readyz")).status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def connection(self, pair: KeyPair | None = None) -> http.client.HTTPSConnection:
        """Return a connection that stays open; the server's certificate is not verified."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if pair is not None:
            with tempfile.NamedTemporaryFile() as file:
                Path(file.name).write_bytes(pair.certificate + pair.key)
                context.load_cert_chain(file.name)
        return http.client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT, context=context)


def answered(connection: http.client.HTTPSConnection, asked: Asked) -> Answered:
    """Ask over a connection that stays open."""
    connection.request(asked.method, asked.path, body=asked.body, headers=dict(asked.headers))
    answer = connection.getresponse()
    return Answered(answer.status, answer.getheader("Content-Type", ""), answer.read())
