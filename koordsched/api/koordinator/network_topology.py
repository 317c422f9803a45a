"""How near each other the members of a gang have to be (coscheduling.md §2.3), and near which pods a pod wants to be (§4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from koordsched.api.koordinator.reading import read_annotation
from koordsched.api.meta import Api, Int32

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPOLOGY_SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"
TOPOLOGY_SELECTOR = "scheduling.koordinator.sh/network-topology-selector"

CLUSTER_LAYER, NODE_LAYER = "ClusterTopologyLayer", "NodeTopologyLayer"
"""The layers that every topology has: its root, and its nodes."""

MUST_GATHER, PREFER_GATHER = "MustGather", "PreferGather"


class _GatherRule(Api):
    layer: str = ""
    strategy: str = ""
    pod_count_multiple: Int32 = 0


class _NetworkTopologySpec(Api):
    gather_strategy: tuple[_GatherRule, ...] = ()


class TopologySpec(Struct, frozen=True):
    """must_gather: layers of which all members have to be in one domain; only the one nearest to the nodes counts. multiples: for layers,
    what the number of members in each domain has to be a multiple of, at least 2."""

    must_gather: tuple[str, ...] = ()
    multiples: tuple[tuple[str, int], ...] = ()


def topology_spec(annotations: Mapping[str, str]) -> tuple[TopologySpec | None, list[str]]:
    """Return what a gang's annotation says, None where it says nothing, and what of it cannot be used, a line each. Malformed."""
    if not annotations.get(TOPOLOGY_SPEC):
        return None, []
    found = read_annotation(annotations, TOPOLOGY_SPEC, _NetworkTopologySpec)
    if found is None:
        return None, []
    must: list[str] = []
    multiples: dict[str, int] = {}
    problems = []
    for rule in found.gather_strategy:
        if not rule.layer:
            problems.append(f"{TOPOLOGY_SPEC}: a rule names no layer; it does not count")
            continue
        if rule.strategy == MUST_GATHER:
            must.append(rule.layer)
        elif rule.strategy != PREFER_GATHER:
            problems.append(
                f"{TOPOLOGY_SPEC}: layer {rule.layer[:40]!r}: strategy {rule.strategy[:40]!r} is neither {MUST_GATHER} nor {PREFER_GATHER};"
                f" {PREFER_GATHER} counts"
            )
        if rule.pod_count_multiple > 1:
            multiples[rule.layer] = rule.pod_count_multiple
    return TopologySpec(tuple(must), tuple(multiples.items())), problems
