"""`explain --server URL`: asks a scheduler that runs. It answers beside its scheduling, and nothing is written there or here.

The address is that of the scheduler's secure port (`--secure-port`), or of what leads there, such as `kubectl port-forward`; who may ask is
decided there (docs/serving.md). Credentials are given as kubectl takes them.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from koordsched.api.kinds import PRIORITY_CLASS
from koordsched.api.meta import JSON_ERRORS
from koordsched.explain.dry_run import read_dry_run
from koordsched.explain.rendering import json_body, text
from koordsched.manifests.documents import InputError
from koordsched.scheduler.suggestions.explanation import Explanation, only_node

if TYPE_CHECKING:
    from typing import TextIO

Json = dict[str, Any]

PATH = "/apis/v1/explain"
SECONDS = 30.0
"""An answer waits for its turn among others, and while the scheduler has a backlog."""
OK = 200
CLASS, PREEMPTS = "priorityClassName", "PreemptLowerPriority"


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, of whom, and as whom. pod: NAMESPACE/NAME; file: of a pod that is not there, instead."""

    server: str
    pod: str = ""
    namespace: str = "default"
    file: str | None = None
    node: str | None = None
    output: str = "table"
    changes: bool = True
    token: str = ""
    token_file: str | None = None
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False


class NoAnswerError(Exception):
    """The scheduler cannot be asked, or refuses; says which and why."""


def run_explain_on_server(options: ServerOptions, out: TextIO, err: TextIO) -> int:
    """Ask, and print to `out`; why there is no answer goes to `err`."""
    try:
        body = None if options.file is None else _submitted(options.file, options.namespace, err)
        found = asyncio.run(_ask(options, body))
    except (InputError, NoAnswerError) as mistake:
        print(mistake, file=err)
        return 1
    for note in found.notes:
        print(f"note: {note}", file=err)
    if options.node is not None:
        found = only_node(found, options.node)
    out.write(json_body(found).decode() if options.output == "json" else text(found, tried=options.changes and options.node is None))
    return 0


def _submitted(file: str, namespace: str, err: TextIO) -> Json:
    """Return the pod of a dry run. Which scheduler is responsible for it, that of the server says if the pod does not. InputError."""
    added = read_dry_run(file, namespace, [""])
    if added.rejected:
        raise InputError(added.rejected[0].line)
    print(*added.notes, sep="\n", end="\n" * bool(added.notes), file=err)
    body = added.arrivals[0].manifest.body
    spec = {key: value for key, value in body["spec"].items() if (key, value) != ("schedulerName", "")}
    classes = (each.body for each in added.existing if each.kind is PRIORITY_CLASS and each.body["metadata"]["name"] == spec.get(CLASS))
    for found in classes:  # the server's cluster does not have it yet
        spec = {"priority": found.get("value", 0), "preemptionPolicy": found.get("preemptionPolicy") or PREEMPTS, **spec}
    return {**body, "metadata": {"namespace": namespace, **body["metadata"]}, "spec": spec}


async def _ask(options: ServerOptions, body: Json | None) -> Explanation:
    base, changes = options.server.rstrip("/"), str(options.changes and options.node is None).lower()
    if "://" not in base:
        base = f"https://{base}"
    pod = options.pod if "/" in options.pod else f"{options.namespace}/{options.pod}"
    url = f"{base}{PATH}" if body is not None else f"{base}{PATH}/{pod}/changes"
    query = {"changes": changes} | ({"scores": "5000"} if options.output == "json" or options.node is not None else {})
    token = _token(options)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(SECONDS), trust_env=True) as session,
            session.request(
                "GET" if body is None else "POST",
                url,
                params=query,
                data=None if body is None else json.dumps(body).encode(),
                ssl=_tls(options),
                allow_redirects=False,
            ) as answer,
        ):
            content = await answer.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise NoAnswerError(f"{base} cannot be asked: {error or type(error).__name__}") from None
    if answer.status != OK:
        raise NoAnswerError(f"{base} answers {answer.status}: {_message(content)}")
    try:
        return msgspec.json.decode(content, type=Explanation)
    except JSON_ERRORS as error:
        raise NoAnswerError(f"{base} answers what is no explanation, is it this scheduler's port? {error}") from None


def _message(content: bytes) -> str:
    """Return the words of a refusal: those of JSON, else the text."""
    try:
        return str(msgspec.json.decode(content)["message"])
    except (*JSON_ERRORS, TypeError, KeyError):
        return content.decode(errors="replace").strip()


def _token(options: ServerOptions) -> str:
    if options.token_file is None:
        return options.token
    try:
        with open(options.token_file, encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise NoAnswerError(f"{options.token_file}: cannot be read: {error.strerror}") from None


def _tls(options: ServerOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.certificate_authority)
        if options.client_certificate is not None:
            context.load_cert_chain(options.client_certificate, options.client_key)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(file for file in (options.certificate_authority, options.client_certificate, options.client_key) if file)
        raise NoAnswerError(f"{named}: cannot be used: {error}") from None
    if options.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
