"""A collector of OpenTelemetry traces in the test's process: an OTLP/HTTP receiver that keeps what it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


class SeenSpan(msgspec.Struct):
    """A span as it was sent. status: the number of OpenTelemetry's code, 2 is an error."""

    name: str
    trace: str
    id: str
    parent: str
    started: int
    ended: int
    status: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector:
    """The spans that were received, in the order of their arrival."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.bodies: list[bytes] = []
        self.url = ""

    def receive(self, body: bytes) -> None:
        self.bodies.append(body)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _attributes(of_resource.resource.attributes)
            for span in (span for scope in of_resource.scope_spans for span in scope.spans):
                self.spans.append(
                    SeenSpan(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        started=span.start_time_unix_nano,
                        ended=span.end_time_unix_nano,
                        status=span.status.code,
                        attributes=_attributes(span.attributes),
                        resource=resource,
                    )
                )

    def roots(self) -> dict[str, list[SeenSpan]]:
        """Return the spans of attempts by the pod's name, the first attempt first."""
        found: dict[str, list[SeenSpan]] = {}
        attempts = [span for span in self.spans if "k8s.pod.name" in span.attributes]
        for span in sorted(attempts, key=lambda span: span.attributes["scheduler.attempt"]):
            found.setdefault(span.attributes["k8s.pod.name"], []).append(span)
        return found

    def below(self, parent: SeenSpan) -> list[SeenSpan]:
        """Return the children of a span, in the order of their begin."""
        return sorted((span for span in self.spans if span.parent == parent.id), key=lambda span: (span.started, span.ended))

    def child(self, parent: SeenSpan, name: str) -> SeenSpan:
        """Return the only child of this name."""
        (found,) = [span for span in self.below(parent) if span.name == name]
        return found


def names(spans: Sequence[SeenSpan]) -> list[str]:
    return [span.name for span in spans]


def assert_nested(collector: Collector) -> None:
    """Every span but those of attempts has a parent that was received, of the same trace, within whose time it is."""
    by_id = {span.id: span for span in collector.spans}
    for span in collector.spans:
        assert span.started <= span.ended
        if span.parent:
            parent = by_id[span.parent]
            assert parent.trace == span.trace
            assert parent.started <= span.started
            assert span.ended <= parent.ended
        else:
            assert span.name == "scheduleOne"


def _attributes(given: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in given}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Receive spans on a free port of this machine."""
    collector = Collector()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.receive(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
