"""The bodies of requests to an extender and of its responses: JSON whose keys are Go field names (k8s.io/kube-scheduler/extender/v1).

Keys of a response are read as Go reads them, without regard to case. A response is decoded key by key into the types that are expected;
what is not needed (all of a whole node but its name) is never built. Every other module sees values of the right kind only:
`MalformedResponse` says what was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from koordsched.api.core import Node, Pod
from koordsched.api.koordinator.reserve_pods import shown_pod
from koordsched.api.meta import JSON_ERRORS, Int64
from koordsched.framework.handle import Victims

T = TypeVar("T")

MAX_PRIORITY = 10
"""The largest score that an extender may give a node."""
MAX_QUOTED = 200
"""How many characters of an extender's text are repeated in a pod's condition."""


class MalformedResponse(Exception):
    """A response that cannot be used; the text says why."""


class ExtenderVictims(msgspec.Struct, frozen=True):
    """The victims of one node as an extender names them: by uid."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class FilteredNodes(msgspec.Struct, frozen=True):
    """An answer to filter: the nodes that remain, by name in the extender's order, and what is said of others."""

    remaining: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


_Object = dict[str, msgspec.Raw]
"""A JSON object whose values are not looked at yet: whole nodes come back, of which only the names are read."""

_OBJECT: msgspec.json.Decoder[_Object | None] = msgspec.json.Decoder(_Object | None)
_ITEMS: msgspec.json.Decoder[list[msgspec.Raw] | None] = msgspec.json.Decoder(list[msgspec.Raw] | None)
_TEXT: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_TEXTS: msgspec.json.Decoder[list[str] | None] = msgspec.json.Decoder(list[str] | None)
_REASONS: msgspec.json.Decoder[dict[str, str] | None] = msgspec.json.Decoder(dict[str, str] | None)
_NUMBER: msgspec.json.Decoder[int | None] = msgspec.json.Decoder(Int64 | None)


# Requests


def nodes_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """Write the arguments of filter and prioritize."""
    names = [node.metadata.name for node in nodes] if names_only else None
    items = None if names_only else {"metadata": {}, "items": list(nodes)}
    return msgspec.json.encode({"Pod": shown_pod(pod), "Nodes": items, "NodeNames": names})


def preemption_args(pod: Pod, victims: Mapping[str, Victims], *, uids_only: bool) -> bytes:
    """Write the arguments of preempt: victims by node name."""
    whole = meta = None
    if uids_only:
        meta = {node: _victims([{"UID": victim.uid} for victim in found.pods], found) for node, found in victims.items()}
    else:
        whole = {node: _victims([victim.pod for victim in found.pods], found) for node, found in victims.items()}
    return msgspec.json.encode({"Pod": shown_pod(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def _victims(pods: Sequence[Any], found: Victims) -> dict[str, Any]:
    return {"Pods": pods, "NumPDBViolations": found.pdb_violations}


def binding_args(pod: Pod, node: str) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode({"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node})


# Answers


def read_filtered(body: bytes, *, names_only: bool) -> FilteredNodes:
    """Read the answer to filter. Of nodes that come back whole only the names are read: the cache knows the rest."""
    answer = _fold(body)
    _raise_error(answer)
    names = _field(answer, "nodenames", _TEXTS)
    nodes = _field(answer, "nodes", _OBJECT)
    remaining: Sequence[str] = ()
    if names_only and names is not None:
        remaining = names
    elif nodes is not None:
        remaining = [_node_name(node) for node in _field(_lower(nodes), "items", _ITEMS) or ()]
    failed, unresolvable = _field(answer, "failednodes", _REASONS), _field(answer, "failedandunresolvablenodes", _REASONS)
    return FilteredNodes(tuple(remaining), failed or {}, unresolvable or {})


def read_priorities(body: bytes) -> dict[str, int]:
    """Read the answer to prioritize: scores by node name."""
    scores: dict[str, int] = {}
    for item in _decode(body, _ITEMS) or ():
        priority = _fold(item)
        host, score = _field(priority, "host", _TEXT) or "", _field(priority, "score", _NUMBER) or 0
        if not 0 <= score <= MAX_PRIORITY:
            raise MalformedResponse(f"the score of node {quoted(host)!r} is {score}, it should be in the range of [0, {MAX_PRIORITY}]")
        scores[host] = scores.get(host, 0) + score
    return scores


def read_preempted(body: bytes) -> dict[str, ExtenderVictims]:
    """Read the answer to preempt: the nodes that remain as candidates, each with its victims."""
    chosen = {}
    for node, entry in (_field(_fold(body), "nodenametometavictims", _OBJECT) or {}).items():
        victims = _fold(entry)
        pods = [_fold(pod) for pod in _field(victims, "pods", _ITEMS) or () if bytes(pod) != b"null"]
        uids = tuple(_field(pod, "uid", _TEXT) or "" for pod in pods)
        chosen[node] = ExtenderVictims(uids, _field(victims, "numpdbviolations", _NUMBER) or 0)
    return chosen


def read_bound(body: bytes) -> None:
    """Read the answer to bind; MalformedResponse with what the extender says went wrong."""
    _raise_error(_fold(body))


def quoted(text: str) -> str:
    """Return what an extender said as one line of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]} ..."


def _decode(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T | None]) -> T | None:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedResponse(f"the answer is not what it must be: {error}: {_quoted(body)}") from None
    except JSON_ERRORS as error:
        raise MalformedResponse(f"the answer is no JSON: {error}: {_quoted(body)}") from None


def _quoted(body: bytes | msgspec.Raw) -> str:
    return repr(quoted(bytes(body)[:MAX_QUOTED].decode(errors="replace")))


def _fold(body: bytes | msgspec.Raw) -> _Object:
    """Return the object with its keys in lower case; null is an empty one, as in Go."""
    return _lower(_decode(body, _OBJECT) or {})


def _lower(found: _Object) -> _Object:
    return {key.lower(): item for key, item in found.items()}


def _field(found: _Object, key: str, decoder: msgspec.json.Decoder[T | None]) -> T | None:
    if key not in found:
        return None
    try:
        return _decode(found[key], decoder)
    except MalformedResponse as malformed:
        raise MalformedResponse(f"{key}: {malformed}") from None


def _raise_error(answer: _Object) -> None:
    error = _field(answer, "error", _TEXT)
    if error:
        raise MalformedResponse(quoted(error))


def _node_name(node: msgspec.Raw) -> str:
    name = _field(_lower(_field(_fold(node), "metadata", _OBJECT) or {}), "name", _TEXT)
    if name is None:
        raise MalformedResponse("a node of the answer has no name")
    return name
