"""One extender: which pods it is asked about, and its verbs. Reference: extender.go of Kubernetes v1.35.

Whatever goes wrong is an `ExtenderError` whose text names the extender's URL and verb: it ends in the condition of the pod. Nothing is kept
between calls but connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.cluster.apiserver.settings import ConnectError
from koordsched.cluster.apiserver.target import Pem, TlsSettings
from koordsched.cluster.apiserver.tls import make_context, read_material
from koordsched.framework.handle import ExtenderError
from koordsched.scheduler.extenders import wire
from koordsched.scheduler.extenders.transport import Reply, Transport, TransportSettings, Unanswered

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from koordsched.api.core import Node, Pod
    from koordsched.config.types import ExtenderConfig
    from koordsched.framework.handle import Victims

DEFAULT_TIMEOUT = 5.0
OK = 200


class Extender:
    """One extender. `where` is what its settings are called, for messages about them: extenders[0]."""

    def __init__(self, config: ExtenderConfig, where: str = "extenders[0]", *, transport: Transport | None = None) -> None:
        """Read the files that the TLS settings name; ConnectError when they are not what they must be. transport: for tests."""
        self.config = config
        self.name = config.url_prefix
        self.ignorable = config.ignorable
        self._managed = frozenset(resource.name for resource in config.managed_resources)
        tls = config.tls_config
        timeout = config.http_timeout if config.http_timeout > 0 else DEFAULT_TIMEOUT  # below 0 Go would wait for ever
        settings = TransportSettings(timeout, _tls(config, where), "" if tls is None else tls.server_name)
        self._transport = transport or Transport(settings)

    def wants(self, pod: Pod) -> bool:
        """Answer whether the extender is to be asked about this pod: it manages no resource in particular, or one that the pod names."""
        managed = self._managed
        if not managed:
            return True
        return any(
            not managed.isdisjoint(container.resources.requests) or not managed.isdisjoint(container.resources.limits)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> wire.FilteredNodes:
        """Ask which of the nodes the pod may go to."""
        verb, names_only = self.config.filter_verb, self.config.node_cache_capable
        body = await self._send(verb, wire.nodes_args(pod, nodes, names_only=names_only))
        try:
            answer = wire.read_filtered(body, names_only=names_only)
        except wire.MalformedResponse as error:
            raise self._error(verb, str(error)) from None
        asked = {node.metadata.name for node in nodes}
        for name in answer.remaining:
            if name not in asked:
                text = f'extender "{self.name}" claims a filtered node "{wire.quoted(name)}" which is not found in the input node list'
                raise ExtenderError(f"{verb}: {text}")
        return answer

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> dict[str, int]:
        """Ask for scores of 0..10 by node name, not weighted yet."""
        verb = self.config.prioritize_verb
        body = await self._send(verb, wire.nodes_args(pod, nodes, names_only=self.config.node_cache_capable))
        try:
            return wire.read_priorities(body)
        except wire.MalformedResponse as error:
            raise self._error(verb, str(error)) from None

    async def bind(self, pod: Pod, node: str) -> None:
        """Let the extender bind the pod."""
        verb = self.config.bind_verb
        body = await self._send(verb, wire.binding_args(pod, node))
        try:
            wire.read_bound(body)
        except wire.MalformedResponse as error:
            raise self._error(verb, str(error)) from None

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, wire.ExtenderVictims]:
        """Ask which nodes remain as candidates for preemption, with which victims."""
        verb = self.config.preempt_verb
        body = await self._send(verb, wire.preemption_args(pod, victims, uids_only=self.config.node_cache_capable))
        try:
            return wire.read_preempted(body)
        except wire.MalformedResponse as error:
            raise self._error(verb, str(error)) from None

    async def close(self) -> None:
        await self._transport.close()

    async def _send(self, verb: str, body: bytes) -> bytes:
        url = self._url(verb)
        try:
            reply = await self._transport.post(url, body)
        except Unanswered as error:
            raise ExtenderError(f'Post "{url}": {wire.quoted(str(error))}') from None
        if reply.status != OK:
            raise ExtenderError(_refusal(verb, url, reply))
        return reply.body

    def _url(self, verb: str) -> str:
        return f"{self.name.rstrip('/')}/{verb}"

    def _error(self, verb: str, text: str) -> ExtenderError:
        return ExtenderError(f'extender "{self._url(verb)}": {text}')


def _refusal(verb: str, url: str, reply: Reply) -> str:
    said = wire.quoted(reply.body.decode(errors="replace"))
    text = f"failed {verb} with extender at URL {url}, code {reply.status}"
    return f"{text}: {said}" if said else text


def _tls(config: ExtenderConfig, where: str) -> ssl.SSLContext | None:
    """Return what the settings come to, as client-go has it: HTTPS without an authority trusts every server; None: nothing is set."""
    tls = config.tls_config
    if tls is None and not config.enable_https:
        return None
    path = f"{where}.tlsConfig"
    settings = TlsSettings()
    if tls is not None:
        settings = TlsSettings(
            authority=Pem(f"{path}.caFile", "" if tls.ca_data else tls.ca_file, tls.ca_data),
            certificate=Pem(f"{path}.certFile", "" if tls.cert_data else tls.cert_file, tls.cert_data),
            key=Pem(f"{path}.keyFile", "" if tls.key_data else tls.key_file, tls.key_data),
            insecure=tls.insecure,
        )
    has_authority = bool(settings.authority.file or settings.authority.data)
    if settings.insecure and has_authority:
        raise ConnectError(f"{path}: specifying a root certificates file with the insecure flag is not allowed")
    settings = replace(settings, insecure=settings.insecure or (config.enable_https and not has_authority))
    return make_context(settings, read_material(settings))
