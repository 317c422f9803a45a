"""What an endpoint answers."""

from __future__ import annotations

import msgspec

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"
METRICS_PATH = "/metrics"
SLIS_PATH = "/metrics/slis"
RESOURCES_PATH = "/metrics/resources"


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes
    location: str = ""  # where else to ask, with a status that says so


NOT_FOUND = Response(404, TEXT, b"404 page not found\n")


def text(status: int, words: str) -> Response:
    return Response(status, TEXT, words.encode())


def bad_request(why: str) -> Response:
    return text(400, f"bad request: {why}\n")
