"""The door of the secure port: every request is let through or told why not, in kube-scheduler's words and codes."""

from __future__ import annotations

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.log import get_logger
from koordsched.server.access.authentication import Authentication
from koordsched.server.access.authorization import Authorization, Decision
from koordsched.server.access.users import User
from koordsched.server.request import Request
from koordsched.server.response import JSON, Response, text

log = get_logger(__name__)


class Gate(msgspec.Struct):
    """Asks who it is, then whether he may."""

    authentication: Authentication
    authorization: Authorization

    async def refusal(self, request: Request) -> Response | None:
        """Return what to answer instead of what was asked for, None when the request may pass."""
        user = await self.authentication.user(request)
        if user is None:
            return status(401, "Unauthorized", "Unauthorized")
        try:
            decision = await self.authorization.decide(user, request)
        except ClusterError as error:
            log.error(
                "a request is refused because nobody can be asked about it; may --authorization-kubeconfig create subjectaccessreviews?",
                user=user.name,
                uri=request.uri,
                err=error.message,
            )
            return text(500, f"Internal Server Error: {_harmless(_quoted(request.uri))}: {_harmless(error.message)}\n")
        if decision.allowed:
            return None
        log.debug("Forbidden", uri=request.uri, user=user.name, reason=decision.reason)
        return forbidden(user, request, decision)


def forbidden(user: User, request: Request, decision: Decision) -> Response:
    """Return the answer to somebody who is known, and may not."""
    words = _harmless(f"User {_quoted(user.name)} cannot {request.method.lower()} path {_quoted(request.path)}")
    return status(403, "Forbidden", f"forbidden: {words}" + (f": {decision.reason}" if decision.reason else ""), details={})


def status(code: int, reason: str, message: str, **more: object) -> Response:
    """Return a metav1.Status as kube-scheduler writes it."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason}
    return Response(code, JSON, msgspec.json.encode({**head, **more, "code": code}) + b"\n")


def _quoted(words: str) -> str:
    return msgspec.json.encode(words).decode()


def _harmless(words: str) -> str:
    """Leave nothing in a text that a browser might take for HTML."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
