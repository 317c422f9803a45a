"""An extender as a small HTTP server in a thread of its own: it answers as a test says, and remembers what it was asked.

    with ExtenderServer(filter=lambda args: {"NodeNames": ["n1"]}) as server:
        ... server.url ... server.calls("filter")

An answer is a JSON value; bytes are sent as they are, and `Refusal` is another status. A verb without an answer is a 404.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

Answer = Callable[[Any], Any]


class Refusal(NamedTuple):
    """An answer with another status than 200."""

    status: int
    text: str = ""


class ExtenderServer:
    """A server on a free port of the loopback address, while the block lasts."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []  # (verb, arguments), oldest first
        self.headers: dict[str, str] = {}  # of the last request
        self.connections = 0
        self.at_once = 0  # the largest number of requests that were answered at the same time
        self.hang_up = 0  # how many requests are to be left without any answer, as by a server that closes an idle connection
        self._now = 0
        self._lock = threading.Lock()
        self._scheme = "http" if tls is None else "https"
        self._server = _server(self)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/scheduler"

    def calls(self, verb: str) -> list[Any]:
        """Return the arguments of all requests with this verb."""
        return [args for asked, args in self.asked if asked == verb]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, verb: str, args: Any) -> tuple[int, bytes]:
        with self._lock:
            self.asked.append((verb, args))
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            found = self.answers[verb](args) if verb in self.answers else Refusal(404)
        finally:
            with self._lock:
                self._now -= 1
        if isinstance(found, Refusal):
            return found.status, found.text.encode()
        return 200, found if isinstance(found, bytes) else json.dumps(found).encode()


def _server(extender: ExtenderServer) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            extender.connections += 1

        def do_POST(self) -> None:
            extender.headers = dict(self.headers.items())
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if extender.hang_up:
                extender.hang_up -= 1
                self.close_connection = True
                return
            status, answer = extender.answer(self.path.rsplit("/", 1)[-1], json.loads(body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that went away

    return Server(("127.0.0.1", 0), Handler)
