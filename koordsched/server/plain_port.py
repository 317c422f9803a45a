"""The plain port, which answers everybody: so it answers health, metrics and cheap reads, and nothing that is dear or changes something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.config import Flags
from koordsched.server.debug import DEBUG_PATH
from koordsched.server.ports import Port
from koordsched.server.response import METRICS_PATH, SLIS_PATH, Response, text

if TYPE_CHECKING:
    from koordsched.server.request import Request


def plain_port(flags: Flags) -> Port:
    """Return the port that the flags ask for."""
    return Port(flags.address or Flags().address, flags.port, guard=PlainGuard(flags.secure_port))


class PlainGuard:
    """Refuses what the secure port (0: there is none) is for."""

    def __init__(self, secure_port: int) -> None:
        where = f"the secure port, {secure_port}" if secure_port else "the secure port, which --secure-port=0 turns off"
        self._refusal = text(403, f"the plain port answers health, metrics and cheap reads only: ask {where}\n")

    async def refusal(self, request: Request) -> Response | None:
        """Return what to answer instead, None when the request may pass."""
        resets = request.method == "DELETE" and request.path in {METRICS_PATH, SLIS_PATH}
        return self._refusal if resets or f"{request.path}/".startswith(DEBUG_PATH) else None
