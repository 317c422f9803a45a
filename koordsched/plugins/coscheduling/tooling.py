"""What `validate` cannot use of PodGroups and of the pods of gangs, and what `simulate` reports on gangs at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import is_in_pod_group, spec_of_member, spec_of_pod_group
from koordsched.framework.tooling import Figure, ObjectCheck, PluginReport, Report, Section, Tooling
from koordsched.plugins.coscheduling.gangs import Gang, Gangs
from koordsched.plugins.coscheduling.topology import NetworkTopology

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.gangs import PodGroup
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache

ABSENT = "-"


def pod_group_problems(group: PodGroup) -> Sequence[str]:
    return spec_of_pod_group(group).problems


def member_problems(pod: Pod) -> Sequence[str]:
    """Return what is wrong with a pod's annotations about its gang, where they count."""
    spec = None if is_in_pod_group(pod.metadata) else spec_of_member(pod.metadata)
    return () if spec is None else spec.problems


class GangUse(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A gang at the end. group: the gangs that are placed together with it, itself included; empty for a gang alone. min: how many members
    it needs. waiting: members without a node, and `reason` what one of them says of that. domains: in how many domains of each layer of the
    network its members are, the highest layer first; empty where there is no network topology."""

    name: str
    group: list[str]
    min: int
    members: int
    placed: int
    waiting: int
    reason: str
    domains: dict[str, int]


class GangsSummary(msgspec.Struct, frozen=True):
    """All gangs, by name."""

    gangs: list[GangUse]


def gang_report(_placed: Iterable[Pod], pods: Iterable[Object], cache: Cache) -> PluginReport | None:
    """Return the report on the gangs of a cluster; None where there are none. pods: as the cluster has them, with their conditions."""
    gangs, network = cache.shared.find(Gangs), cache.shared.find(NetworkTopology)
    if gangs is None or not gangs.by_id:
        return None
    reasons = {f"{pod.metadata.namespace}/{pod.metadata.name}": _refusal(pod) for pod in pods}  # type: ignore[arg-type]
    found = []
    for _, gang in sorted(gangs.by_id.items()):
        waiting = sorted(gang.members.keys() - gang.bound)
        said = [text for key in waiting if (text := gangs.why_incomplete(gang, key) or reasons.get(key, ""))]
        found.append(_use_of(gang, said[0] if said else "", _domains(gang, cache, network)))
    figures = [Figure("gangs with waiting members", sum(gang.waiting > 0 for gang in found))]
    return PluginReport(GangsSummary(found), lambda limit: gang_sections(found, limit), figures)


def _refusal(pod: Pod) -> str:
    return next((each.message for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False"), "")


def _use_of(gang: Gang, reason: str, domains: dict[str, int]) -> GangUse:
    return GangUse(
        name=gang.id,
        group=list(gang.group.ids) if len(gang.group.ids) > 1 else [],
        min=0 if gang.spec is None else gang.spec.min_available,
        members=len(gang.members),
        placed=len(gang.bound),
        waiting=len(gang.members.keys() - gang.bound),
        reason=reason,
        domains=domains,
    )


def _domains(gang: Gang, cache: Cache, network: NetworkTopology | None) -> dict[str, int]:
    """Count the domains of each layer in which the gang's members are; nodes outside of the tree count in none."""
    tree = None if network is None else network.tree
    if tree is None:
        return {}
    nodes = {gang.members[key].spec.node_name for key in gang.bound}
    known = [info.node for name in nodes if (info := cache.node(name)) is not None and info.node is not None]
    paths = [path for node in known if (path := tree.path_of(node)) is not None]
    return {layer.name: len({path[:depth] for path in paths}) for depth, layer in enumerate(tree.layers, 1)}


def gang_sections(gangs: Sequence[GangUse], limit: int) -> Sequence[Section]:
    """Return the table of at most so many gangs: those with members that wait first."""
    if not limit:
        return []
    chosen = sorted(gangs, key=lambda gang: (not gang.waiting, gang.name))[:limit]
    has_domains = any(gang.domains for gang in gangs)
    columns = ("gang", "min", "members", "placed", "waiting", *(("domains",) if has_domains else ()), "why it waits")
    rows = [
        (
            gang.name,
            *(str(number) for number in (gang.min, gang.members, gang.placed, gang.waiting)),
            *((_domains_text(gang.domains),) if has_domains else ()),
            gang.reason,
        )
        for gang in chosen
    ]
    notes = [f"{len(gangs)} gangs, of which {sum(not gang.waiting for gang in gangs)} have all their members placed."]
    if has_domains:
        notes.append("domains: of the network, in which members are, by layer.")
    if len(gangs) > limit:
        notes.append(f"{len(gangs) - limit} more gangs; --show-gangs N lists more.")
    return [Section(title="Gangs", columns=columns, align="<>>>>" + "<" * (len(columns) - 5), rows=rows, notes=notes)]


def _domains_text(domains: dict[str, int]) -> str:
    return ", ".join(f"{count} {layer}" for layer, count in domains.items() if count) or ABSENT


TOOLING = Tooling(
    object_checks=(ObjectCheck(POD_GROUP, pod_group_problems), ObjectCheck(POD, member_problems)),
    reports=(Report("coscheduling", "--show-gangs", "gangs in the table (default 10)", POD, gang_report),),
)
