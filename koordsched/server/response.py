"""What an endpoint answers."""

from __future__ import annotations

import msgspec

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
METRICS_PATH = "/metrics"


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes


METHOD_NOT_ALLOWED = Response(405, TEXT, b"Method Not Allowed\n")
NOT_FOUND = Response(404, TEXT, b"404 page not found\n")


def bad_request(why: str) -> Response:
    return Response(400, TEXT, f"bad request: {why}\n".encode())
