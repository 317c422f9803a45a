"""Credentials from a program: the exec plugins of kubeconfig (client.authentication.k8s.io).

The program reads in KUBERNETES_EXEC_INFO what is wanted and prints an ExecCredential with a token or a client certificate. It runs as a
child without a terminal, for a limited time; what it writes to stderr is what the operator gets to read when it fails.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.meta import JSON_ERRORS, Api
from koordsched.clock import parse_rfc3339
from koordsched.cluster.apiserver.credentials import Credential, CredentialError, bearer

if TYPE_CHECKING:
    from collections.abc import Mapping

TIME_LIMIT_SECONDS = 60.0
MAX_OUTPUT = 2**20
"""Bytes of an ExecCredential: a token, a certificate and a key have some thousands."""
_SHOWN = 500  # characters of stderr, its end
_PIECE = 2**16
_END_SECONDS = 5.0  # for a plugin that was killed
_INFO = "KUBERNETES_EXEC_INFO"


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """How to run the plugin. `where` names it in messages; `cluster` is passed to a plugin with provideClusterInfo."""

    where: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    api_version: str
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    time_limit: float = TIME_LIMIT_SECONDS

    @property
    def poll_seconds(self) -> float | None:
        """Return None: a credential without an expiry is good until it is refused."""
        return None

    async def fetch(self) -> Credential:
        """Run the plugin."""
        output = await self._run()
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except JSON_ERRORS as error:
            raise self._error(f"printed no ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self.api_version:
            found = f"{answer.kind or 'nothing'} of {answer.api_version or 'no version'}"
            raise self._error(f"printed {found}, not ExecCredential of {self.api_version}")
        return self._credential(answer.status or _Status())

    def _credential(self, status: _Status) -> Credential:
        certificate, key = status.client_certificate_data or "", status.client_key_data or ""
        if bool(certificate) != bool(key):
            raise self._error("printed only one of clientCertificateData and clientKeyData")
        if not (status.token or certificate):
            raise self._error("printed neither a token nor a client certificate")
        try:
            expires = parse_rfc3339(status.expiration_timestamp) if status.expiration_timestamp else None
        except ValueError:
            raise self._error(f"printed an expirationTimestamp that is no time: {status.expiration_timestamp}") from None
        authorization = bearer(status.token, f'{self.where}: the credential plugin "{self.command}"').authorization if status.token else ""
        return Credential(authorization, certificate.encode(), key.encode(), expires)

    async def _run(self) -> bytes:
        """Return what the plugin prints. CredentialError: it cannot be started, fails, or takes too long."""
        nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        command = (self.command, *self.arguments)
        try:
            process = await asyncio.create_subprocess_exec(*command, env=self._environment(), stdin=nothing, stdout=pipe, stderr=pipe)
        except (OSError, ValueError) as error:
            hint = f"; {self.install_hint}" if self.install_hint else ""
            raise self._error(f"cannot be started: {getattr(error, 'strerror', None) or error}{hint}") from None
        assert process.stdout is not None
        assert process.stderr is not None
        complaining = asyncio.create_task(_end(process.stderr), name="read what a credential plugin complains of")
        try:
            async with asyncio.timeout(self.time_limit):
                output = await _beginning(process.stdout)
                if len(output) > MAX_OUTPUT:
                    raise self._error(f"printed more than {MAX_OUTPUT} bytes")
                complaints = await complaining
                await process.wait()
        except TimeoutError:
            raise self._error(f"took longer than {self.time_limit:g} seconds") from None
        finally:
            if process.returncode is None:
                process.kill()
                with suppress(TimeoutError):  # a child of its own may hold its pipes
                    async with asyncio.timeout(_END_SECONDS):
                        # wait() does not return before the pipes are read to their end.
                        await asyncio.gather(_end(process.stdout), complaining)
                        await process.wait()
            complaining.cancel()
        if process.returncode:
            said = complaints.decode(errors="replace").strip()[-_SHOWN:] or "it said nothing"
            raise self._error(f"exited with {process.returncode}: {said}")
        return output

    def _environment(self) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return {**os.environ, **self.environment, _INFO: msgspec.json.encode(info).decode()}

    def _error(self, what: str) -> CredentialError:
        return CredentialError(f'{self.where}: the credential plugin "{self.command}" {what}')


async def _beginning(stream: asyncio.StreamReader) -> bytes:
    """Read until the end, or until there is more than MAX_OUTPUT."""
    output = bytearray()
    while len(output) <= MAX_OUTPUT and (piece := await stream.read(_PIECE)):
        output += piece
    return bytes(output)


async def _end(stream: asyncio.StreamReader) -> bytes:
    """Read to the end, and keep what a message shows of it."""
    kept = b""
    while piece := await stream.read(_PIECE):
        kept = (kept + piece)[-4 * _SHOWN :]  # a character has four bytes at most
    return kept


class _Status(Api):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(Api):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None
