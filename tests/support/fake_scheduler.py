"""A process that looks like a scheduler from outside: it reads its configuration, serves a secure port, and does what its flags say.

--not-ready=N answers the first N readiness checks with 500; --only-healthz has no /readyz; --stubborn ignores SIGTERM; --refuse=TEXT says
so and exits with 1; GET /exit ends it with 3. /config answers with its configuration, /pid with its process id, /args with its arguments.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def make_certificate(path: Path) -> Path:
    """Write a self-signed certificate with its key."""
    from cryptography import x509  # noqa: PLC0415 (the process itself starts without it)
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fake")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + datetime.timedelta(days=36500))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(pem + private)
    return path


def command(certificate: Path) -> str:
    """Return the command line for `--scheduler-command`."""
    return f"{sys.executable} -I -S {__file__} --certificate {certificate} --config {{config}} --port={{port}} --kubeconfig {{kubeconfig}}"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--certificate", "--config", "--kubeconfig", "--refuse", "--feature-gates"):
        parser.add_argument(name)
    for name in ("--port", "--not-ready"):
        parser.add_argument(name, type=int, default=0)
    for name in ("--only-healthz", "--stubborn"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    if options.refuse:
        sys.stderr.write(f"reading\n\n{options.refuse}\n")
        sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if options.stubborn else lambda *_: os._exit(0))
    _serve(options)


def _serve(options: argparse.Namespace) -> None:
    unready = options.not_ready

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            nonlocal unready
            status, body = 200, "ok"
            if self.path == "/exit":
                sys.stderr.write("about to end\n")
                os._exit(3)
            elif self.path in {"/config", "/pid", "/args"}:
                config = Path(options.config).read_text()
                body = {"/config": config, "/pid": str(os.getpid()), "/args": json.dumps(vars(options))}[self.path]
            elif self.path == "/readyz" and options.only_healthz:
                status, body = 404, "404 page not found"
            elif self.path == "/readyz" and unready:
                unready -= 1
                status, body = 500, "not yet"
            elif self.path not in {"/readyz", "/healthz"}:
                status, body = 404, self.path
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", options.port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
