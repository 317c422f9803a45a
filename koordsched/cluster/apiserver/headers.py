"""Request headers, built once for each content type and each identity.

A value that cannot stand in a header is refused where it comes from (a kubeconfig, a token file, a plugin, an issuer), in its author's
words; here, where headers are written, nothing else passes either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multidict import CIMultiDict

from koordsched.cluster.apiserver.calls import JSON
from koordsched.cluster.apiserver.credentials import HEADER_NAME, header_flaw
from koordsched.cluster.port import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.cluster.apiserver.identity import Identity


class HeaderCache:
    """The headers of all requests: as a mapping for aiohttp, and as the bytes between request line and Content-Length."""

    def __init__(self, fixed: Sequence[tuple[str, str]], identity: Identity) -> None:
        """`fixed` are host, user agent and impersonation."""
        self._fixed = [("Accept", JSON), ("Accept-Encoding", "identity"), *fixed]
        self._identity = identity
        self._version = -1  # of the identity that the headers below are for
        self._mappings: dict[str, CIMultiDict[str]] = {}
        self._texts: dict[str, bytes] = {}

    def mapping(self, content_type: str) -> CIMultiDict[str]:
        self._forget_old()
        headers = self._mappings.get(content_type)
        if headers is None:
            headers = self._mappings[content_type] = CIMultiDict(self._fixed)
            if content_type:
                headers["Content-Type"] = content_type
            if self._identity.authorization:
                headers["Authorization"] = self._identity.authorization
            for name, value in headers.items():
                flaw = header_flaw(value) if HEADER_NAME.fullmatch(name) else "is no name of a header"
                if flaw:
                    del self._mappings[content_type]
                    raise Invalid(f"the request cannot be sent: its header {name!r} {flaw}")
        return headers

    def text(self, content_type: str) -> bytes:
        self._forget_old()
        text = self._texts.get(content_type)
        if text is None:
            lines = [f"{name}: {value}\r\n" for name, value in self.mapping(content_type).items()]
            text = self._texts[content_type] = "".join(lines).encode("ascii")
        return text

    def _forget_old(self) -> None:
        if self._version != self._identity.version:
            self._version = self._identity.version
            self._mappings.clear()
            self._texts.clear()
