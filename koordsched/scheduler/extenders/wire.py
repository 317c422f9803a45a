"""What is said to an extender and what it answers: JSON whose keys are Go field names (k8s.io/kube-scheduler/extender/v1).

Keys of an answer are read as Go reads them, without regard to case; objects inside are read for their names only. Every answer is checked
here, so that nobody behind this file meets anything but values of the right kind: `Nonsense` says what was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from koordsched.api.core import Node, Pod
from koordsched.api.meta import Int64
from koordsched.framework.extenders import Victims

T = TypeVar("T")

MAX_PRIORITY = 10
"""The largest score that an extender may give a node."""
MAX_QUOTED = 200
"""How much of what an extender says is repeated in a pod's condition."""


class Nonsense(Exception):
    """An answer that cannot be used; the text says why."""


class Chosen(msgspec.Struct, frozen=True):
    """The victims of one node as an extender names them: by uid."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


class Filtered(msgspec.Struct, frozen=True):
    """An answer to filter: the nodes that remain, by name in the extender's order, and what is said of others."""

    remaining: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class _Answer(msgspec.Struct):
    """Base of answers; keys in lower case, as `_fold` makes them."""

    error: str | None = None


class _FilterAnswer(_Answer):
    nodes: dict[str, Any] | None = None
    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None


class _HostPriority(msgspec.Struct):
    host: str = ""
    score: Int64 = 0


class _MetaPod(msgspec.Struct):
    uid: str = ""


class _MetaVictims(msgspec.Struct):
    pods: list[_MetaPod] | None = None
    numpdbviolations: Int64 = 0


# Requests


def nodes_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """Write the arguments of filter and prioritize."""
    names = [node.metadata.name for node in nodes] if names_only else None
    items = None if names_only else {"metadata": {}, "items": list(nodes)}
    return msgspec.json.encode({"Pod": pod, "Nodes": items, "NodeNames": names})


def preemption_args(pod: Pod, victims: Mapping[str, Victims], *, uids_only: bool) -> bytes:
    """Write the arguments of preempt: victims by node name."""
    whole = meta = None
    if uids_only:
        meta = {node: _victims([{"UID": victim.uid} for victim in found.pods], found) for node, found in victims.items()}
    else:
        whole = {node: _victims([victim.pod for victim in found.pods], found) for node, found in victims.items()}
    return msgspec.json.encode({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def _victims(pods: Sequence[Any], found: Victims) -> dict[str, Any]:
    return {"Pods": pods, "NumPDBViolations": found.pdb_violations}


def binding_args(pod: Pod, node: str) -> bytes:
    meta = pod.metadata
    return msgspec.json.encode({"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node})


# Answers


def read_filtered(body: bytes, *, names_only: bool) -> Filtered:
    """Read the answer to filter. Nodes that come back whole count by their names alone: what we know of them stays."""
    answer = _convert(_fold(_decode(body)), _FilterAnswer)
    if answer.error:
        raise Nonsense(quoted(answer.error))
    remaining: Sequence[str] = ()
    if names_only and answer.nodenames is not None:
        remaining = answer.nodenames
    elif answer.nodes is not None:
        remaining = _names(answer.nodes)
    return Filtered(tuple(remaining), answer.failednodes or {}, answer.failedandunresolvablenodes or {})


def read_priorities(body: bytes) -> dict[str, int]:
    """Read the answer to prioritize: scores by node name."""
    items = _decode(body)
    if items is None:
        return {}
    if not isinstance(items, list):
        raise Nonsense("the answer is no list of scores")
    scores: dict[str, int] = {}
    for item in items:
        priority = _convert(_fold(item), _HostPriority)
        if not 0 <= priority.score <= MAX_PRIORITY:
            raise Nonsense(
                f"the score of node {quoted(priority.host)!r} is {priority.score}, it should be in the range of [0, {MAX_PRIORITY}]"
            )
        scores[priority.host] = scores.get(priority.host, 0) + priority.score
    return scores


def read_preempted(body: bytes) -> dict[str, Chosen]:
    """Read the answer to preempt: the nodes that remain as candidates, each with its victims."""
    found = _fold(_decode(body)).get("nodenametometavictims")
    if not isinstance(found, dict | None):
        raise Nonsense("NodeNameToMetaVictims is no object")
    chosen = {}
    for node, entry in (found or {}).items():
        folded = _fold(entry)
        if isinstance(folded.get("pods"), list):
            folded["pods"] = [_fold(pod) for pod in folded["pods"] if pod is not None]
        victims = _convert(folded, _MetaVictims)
        uids = tuple(pod.uid for pod in victims.pods or ())
        chosen[node] = Chosen(uids, victims.numpdbviolations)
    return chosen


def read_bound(body: bytes) -> None:
    """Read the answer to bind; Nonsense with what the extender says went wrong."""
    answer = _convert(_fold(_decode(body)), _Answer)
    if answer.error:
        raise Nonsense(quoted(answer.error))


def quoted(text: str) -> str:
    """Return what an extender said as one line of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTED else f"{line[:MAX_QUOTED]} ..."


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Nonsense(f"the answer is no JSON: {error}: {quoted(body[:MAX_QUOTED].decode(errors='replace'))!r}") from None


def _fold(value: Any) -> dict[str, Any]:
    """Return the object with its keys in lower case; null is an empty one, as in Go."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Nonsense(f"the answer has {type(value).__name__} where an object is expected")
    return {key.lower(): item for key, item in value.items()}


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Nonsense(f"the answer is not what it must be: {error}") from None


def _names(nodes: Mapping[str, Any]) -> list[str]:
    items = _fold(nodes).get("items")
    if not isinstance(items, list | None):
        raise Nonsense("the nodes of the answer are no list")
    return [_name(item) for item in items or ()]


def _name(node: Any) -> str:
    name = _fold(_fold(node).get("metadata")).get("name")
    if not isinstance(name, str):
        raise Nonsense("a node of the answer has no name")
    return name
