"""Who asks: the first of front proxy, client certificate and bearer token that can tell; else nobody in particular.

As with k8s.io/apiserver's union of authenticators, something that was shown and is wrong (an expired certificate, an unknown token)
refuses the request with 401 unless another of the three vouches for it; what shows nothing is system:anonymous.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import msgspec

from koordsched.log import get_logger
from koordsched.server.access.authorities import FrontProxy, Trust
from koordsched.server.access.certificates import common_name, user_of
from koordsched.server.access.front_proxy import user_behind
from koordsched.server.access.tokens import Tokens, Verdict
from koordsched.server.access.users import ANONYMOUS, User, authenticated
from koordsched.server.request import Request

log = get_logger(__name__)

BEARER = "bearer"
NOTHING_SHOWN = Verdict()


class Authentication(msgspec.Struct):
    """`trust` has the authorities of this moment; `tokens` None: tokens are not looked at; `now` in seconds since the epoch."""

    trust: Trust
    now: Callable[[], float]
    tokens: Tokens | None = None

    async def user(self, request: Request) -> User | None:
        """Return who asks; None when what was shown is wrong, which is logged."""
        flaws = []
        async for verdict in self._verdicts(request):
            if verdict.user is not None:
                return authenticated(verdict.user)
            if verdict.flaw:
                flaws.append(verdict.flaw)
        if not flaws:
            return ANONYMOUS
        log.error("Unable to authenticate the request", err="; ".join(flaws))
        return None

    async def _verdicts(self, request: Request) -> AsyncIterator[Verdict]:
        if request.chain:
            yield self._by_front_proxy(request)
            yield self._by_certificate(request)
        if self.tokens is not None and (token := bearer_token(request)):
            yield await self.tokens.verdict(token)

    def _by_front_proxy(self, request: Request) -> Verdict:
        proxy = self.trust.front_proxy
        if proxy is None:
            return NOTHING_SHOWN
        flaw = proxy.authorities.flaw(request.chain, self.now()) or _name_flaw(proxy, common_name(request.chain[0]))
        return Verdict(flaw=flaw) if flaw else Verdict(user_behind(request.headers, proxy.rules))

    def _by_certificate(self, request: Request) -> Verdict:
        authorities = self.trust.clients
        if authorities is None:
            return NOTHING_SHOWN
        flaw = authorities.flaw(request.chain, self.now())
        return Verdict(flaw=flaw) if flaw else Verdict(user_of(request.chain[0]))


def bearer_token(request: Request) -> str:
    """Return the token of the Authorization header, "" when it has none."""
    words = request.headers.get("Authorization", "").strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == BEARER else ""


def _name_flaw(proxy: FrontProxy, name: str) -> str:
    allowed = proxy.rules.allowed_names
    return "" if not allowed or name in allowed else f"x509: subject with cn={name} is not in the allowed list"
