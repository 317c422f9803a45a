"""What must hold whenever nothing is under way, from nothing but what the API server says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from support.controlplane.rest import Rest
from support.placements import Placements
from support.recount import Recount, recount

from churn.cluster import Json
from churn.shapes import EXCLUSIVE, PLAIN


def violations(rest: Rest, placements: Placements) -> list[str]:
    """Return what does not hold, as sentences."""
    found = recount(rest)
    return [*overcommitted(found), *strayed(placements), *together(found), *forgotten(found)]


def overcommitted(found: Recount) -> Iterator[str]:
    for node, free in found.overcommitted().items():
        yield f"{node} is overcommitted: {free} left"


def strayed(placements: Placements) -> Iterator[str]:
    for story in placements.strayed():
        yield f"{story.name} was on {' then '.join(node or 'no node' for node in story.nodes)}"


def together(found: Recount) -> Iterator[str]:
    """Name nodes with two pods that exclude each other."""
    there = Counter(
        (pod["spec"]["nodeName"], pod["metadata"]["labels"]["group"])
        for pod in found.pods
        if pod["spec"].get("nodeName") and pod["metadata"]["labels"]["shape"] == EXCLUSIVE
    )
    for (node, group), count in there.items():
        if count > 1:
            yield f"{node} has {count} pods of {group}, which exclude each other"


def forgotten(found: Recount) -> Iterator[str]:
    """Name plain pods that are pending though a node without cordon and taints has room."""
    open_nodes = {name: node for name, node in found.nodes.items() if is_open(node)}
    plain = [pod for pod in found.pods if pod["metadata"]["labels"]["shape"] == PLAIN]
    for pod, node in Recount(open_nodes, plain, found.free).pending_though_it_fits():
        yield f"{pod} is pending though {node} has room for it"


def is_open(node: Json) -> bool:
    return not node["spec"].get("unschedulable") and not node["spec"].get("taints")
