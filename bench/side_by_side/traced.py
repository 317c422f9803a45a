"""Our scheduler with traces of one attempt in a hundred, and the collector that takes them."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SAMPLED = 0.01


class Collector(BaseHTTPRequestHandler):
    """Takes what it is sent, as a collector that is no bottleneck does."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def environment() -> list[str]:
    """Start a collector that lives as long as this process, and return the variables that name it, as `env` takes them."""
    collector = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{collector.server_address[1]}"
    return [
        f"OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}",
        "OTEL_TRACES_SAMPLER=traceidratio",
        f"OTEL_TRACES_SAMPLER_ARG={SAMPLED}",
    ]
