"""Ports for servers whose port is chosen beforehand."""

from __future__ import annotations

import secrets
import socket

PORTS = range(20_000, 32_768)  # below those that outgoing connections are given: one that is free now is not taken by the next of them


def free_port() -> int:
    """Return a free port on loopback. By a small chance the next call returns it, too."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
