"""What `simulate` and `test` know of NodeNUMAResource: texts, CPU layouts in short, and the CPUs that pods hold.

Read from what a scheduler wrote on pods (nodenumaresource.md §1) and from NodeResourceTopologies (§2). An annotation that cannot be read
counts as nothing, as it does for the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.cpulist import cpu_ids, format_cpus, mask_of, parse_cpus
from koordsched.api.koordinator.nodes import node_policy
from koordsched.api.koordinator.pods import RESOURCE_STATUS, PodNumaStatus, resource_status
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.koordinator.topology import CPU_TOPOLOGY, CpuDetail, cpu_details
from koordsched.api.meta import Object
from koordsched.cache.cache import Cache
from koordsched.cluster.object_store import object_key
from koordsched.framework.tooling import (
    ExclusiveResource,
    Json,
    NodeOption,
    ObjectCheck,
    PluginReport,
    PodCheck,
    Report,
    Section,
    ShortForm,
    Tooling,
    bar,
    percent,
)
from koordsched.manifests.strict import StrictReader, join
from koordsched.plugins.nodenumaresource.layouts import SHORT_FORM, CpuLayout, complete_topology, layout_doubt, node_topology
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.yamltext.documents import shown

LAYOUTS = 64
"""Different cpu-topology texts that are kept: nodes of one hardware share one."""


def numa_status(annotations: Mapping[str, str] | None) -> PodNumaStatus | None:
    """Return what a pod holds; None when nothing is recorded, or nothing that can be read."""
    try:
        return resource_status(annotations or {})
    except Malformed:
        return None


@lru_cache(LAYOUTS)
def cpu_places(text: str) -> Mapping[int, CpuDetail]:
    """Return where each CPU is, by its id, as a cpu-topology annotation says."""
    try:
        details = cpu_details(text) if text else ()
    except Malformed:
        return {}
    return {detail.id: detail for detail in details if min(detail.id, detail.node) >= 0}


# Scenarios: `cpuset`, and CPUs that no two pods share


def cpus_of(pod: Json) -> int:
    """Return the CPUs that the pod holds, as a set: bit i is CPU i."""
    status = numa_status(pod.get("metadata", {}).get("annotations"))
    return 0 if status is None else status.cpus


class CpusetRule(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the CPUs a pod holds; None: not asked. Sets of CPUs are ints, bit i being CPU i."""

    count: int | None = None
    numa: frozenset[int] | None = None
    within: int | None = None  # `from`
    without: int | None = None  # `not`
    equals: int | None = None
    full_cores: bool | None = None


def read_cpuset(reader: StrictReader, value: Any, path: str) -> CpusetRule:
    """Read the value of `cpuset`."""

    def cpus(key: str) -> int | None:
        """Read a CPU list, where one CPU may also be written as a number."""
        found, where = fields.get(key), join(path, key)
        if found is None:
            return None
        try:
            return parse_cpus(str(found) if isinstance(found, int) and not isinstance(found, bool) else reader.text(found, where))
        except ValueError as mistake:
            reader.mistake(where, f"{shown(found)}: {mistake}")
            return 0

    fields = reader.mapping(value, path, ("count", "numa", "from", "not", "fullCores", "equals"))
    if isinstance(value, dict) and not fields:
        reader.mistake(path, "expects nothing")
    return CpusetRule(
        count=reader.number(fields["count"], join(path, "count")) if "count" in fields else None,
        numa=frozenset(reader.numbers(fields["numa"], join(path, "numa"))) if "numa" in fields else None,
        full_cores=reader.flag(fields["fullCores"], join(path, "fullCores")) if "fullCores" in fields else None,
        within=cpus("from"),
        without=cpus("not"),
        equals=cpus("equals"),
    )


def cpuset_differences(rule: CpusetRule, pod: Json, topology: Json | None) -> Iterator[str]:
    """Yield what is expected of the cpuset and does not hold. For a pod without CPUs of its own `numa` means the NUMA nodes recorded."""
    status = numa_status(pod["metadata"].get("annotations"))
    cpus, amounts = (0, frozenset[int]()) if status is None else (status.cpus, frozenset(status.amounts))
    places = _places_of(topology or {})
    if rule.count is not None and cpus.bit_count() != rule.count:
        yield f"a cpuset of {rule.count} CPUs"
    if rule.numa is not None and rule.numa != (frozenset(places[cpu].node for cpu in cpu_ids(cpus) if cpu in places) or amounts):
        yield f"CPUs of NUMA node {','.join(map(str, sorted(rule.numa)))}"
    if rule.within is not None and (not cpus or cpus & ~rule.within):
        yield f"CPUs from {format_cpus(rule.within)}"
    if rule.without is not None and cpus & rule.without:
        yield f"CPUs not of {format_cpus(rule.without)}"
    if rule.equals is not None and cpus != rule.equals:
        yield f"cpuset equals {format_cpus(rule.equals)}"
    if rule.full_cores is not None and _has_full_cores(cpus, places) is not rule.full_cores:
        yield "full physical cores" if rule.full_cores else "partly used physical cores"


def _places_of(topology: Json) -> Mapping[int, CpuDetail]:
    text = (topology.get("metadata", {}).get("annotations") or {}).get(CPU_TOPOLOGY)
    return cpu_places(text) if isinstance(text, str) else {}


def _has_full_cores(cpus: int, places: Mapping[int, CpuDetail]) -> bool:
    """Answer whether there are CPUs, all of them known, and no core of theirs has a CPU outside the set. Core ids may repeat per socket."""
    ids = set(cpu_ids(cpus))
    if not ids or not ids <= places.keys():
        return False
    cores = {(places[cpu].socket, places[cpu].core) for cpu in ids}
    return all(cpu in ids for cpu, place in places.items() if (place.socket, place.core) in cores)


def describe_cpuset(pod: Json, state: str) -> str:
    status = (pod["metadata"].get("annotations") or {}).get(RESOURCE_STATUS)
    return f"cpuset {format_cpus(cpus_of(pod))!r} ({state}; resource-status {status})"


# Simulations: CPUs summed up for the JSON, and one by one for the table


class NumaSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """NUMA node `node` of all nodes: how many CPUs it has there, and how many of them pods have for themselves."""

    node: int
    cpus: int
    bound: int


class CpuSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """CPUs of all nodes with a topology, and what pods have of them for themselves at the end. pods: how many have CPUs."""

    total: int
    bound: int
    pods: int
    pods_on_one_numa_node: int
    numa_nodes: list[NumaSummary]


class PodCpus(msgspec.Struct, frozen=True):
    """What one pod holds, as texts: `cpus` is "" when only its NUMA nodes are recorded."""

    pod: str
    node: str
    cpus: str
    numa_nodes: str


class CpuUse(msgspec.Struct, frozen=True):
    """The sums, and every pod that holds CPUs or whose NUMA nodes are recorded, in the order of creation."""

    summary: CpuSummary
    pods: list[PodCpus]


def cpu_use(pods: Iterable[Pod], topologies: Iterable[Object]) -> CpuUse | None:
    """Sum up what pods on nodes hold; None when no node has a topology."""
    layouts = {topology.metadata.name: _numa_cpus(topology.metadata.annotations.get(CPU_TOPOLOGY, "")) for topology in topologies}
    if not any(layouts.values()):
        return None
    total: dict[int, int] = {}
    for layout in layouts.values():
        for numa, cpus in layout.items():
            total[numa] = total.get(numa, 0) + cpus.bit_count()
    bound = dict.fromkeys(total, 0)
    holding, on_one, held = 0, 0, []
    for pod in pods:
        status = numa_status(pod.metadata.annotations)
        if status is None or not (status.cpus or status.amounts):
            continue
        layout = layouts.get(pod.spec.node_name, {})
        numa_nodes = {numa for numa, cpus in layout.items() if cpus & status.cpus} or set(status.amounts)
        held.append(PodCpus(object_key(pod), pod.spec.node_name, format_cpus(status.cpus), format_cpus(mask_of(numa_nodes))))
        if status.cpus:
            holding += 1
            on_one += len(numa_nodes) == 1
        for numa, cpus in layout.items():
            bound[numa] += (cpus & status.cpus).bit_count()
    numa_nodes_used = [NumaSummary(node=numa, cpus=total[numa], bound=bound[numa]) for numa in sorted(total)]
    summary = CpuSummary(
        total=sum(total.values()), bound=sum(bound.values()), pods=holding, pods_on_one_numa_node=on_one, numa_nodes=numa_nodes_used
    )
    return CpuUse(summary, held)


@lru_cache(LAYOUTS)
def _numa_cpus(text: str) -> Mapping[int, int]:
    """Return the CPUs of each NUMA node, as sets."""
    cpus: dict[int, list[int]] = {}
    for cpu, detail in cpu_places(text).items():
        cpus.setdefault(detail.node, []).append(cpu)
    return {numa: mask_of(ids) for numa, ids in cpus.items()}


def cpu_report(pods: Iterable[Pod], topologies: Iterable[Object], _cache: Cache) -> PluginReport | None:
    use = cpu_use(pods, topologies)
    return None if use is None else PluginReport(use.summary, lambda limit: cpu_sections(use, limit))


def cpu_sections(use: CpuUse, limit: int) -> Sequence[Section]:
    """Return the table of NUMA nodes and that of the first pods with CPUs."""
    found = use.summary
    numbers = [(str(numa.node), numa.bound, numa.cpus) for numa in found.numa_nodes] + [("all", found.bound, found.total)]
    rows = [(name, str(cpus), str(bound), percent(bound, cpus), bar(bound / cpus if cpus else 0.0)) for name, bound, cpus in numbers]
    notes = ["CPUs that pods have for themselves at the end, by the number of the NUMA node, over all nodes."]
    if found.pods:
        notes.append(f"Pods with CPUs of their own: {found.pods}, of these on a single NUMA node: {found.pods_on_one_numa_node}.")
    columns = ("NUMA node", "CPUs", "bound", "share", "of the CPUs")
    made = [Section(title="CPUs", columns=columns, align="<>>><", rows=rows, notes=notes)]
    if use.pods and limit:
        listed = [(held.pod, held.node, held.cpus or "-", held.numa_nodes or "-") for held in use.pods[:limit]]
        more = len(use.pods) - len(listed)
        notes = [f"{more} more pods; --show-cpus N lists more, -o json lists every pod."] if more else []
        made.append(Section(title="CPUs of pods", columns=("pod", "node", "CPUs", "NUMA nodes"), align="<<<<", rows=listed, notes=notes))
    return made


TOOLING = Tooling(
    explanations=(
        (r"the requested CPUs must be integer", "pods that bind CPUs must ask for whole ones"),
        (
            r"node\(s\) invalid CPU Topology",
            "nothing says which CPUs these nodes have; --cpu-topology, or NodeResourceTopologies, would",
        ),
        (r"not enough cpus available to satisfy request", "these nodes have too few CPUs that no other pod has for itself"),
        (r"Insufficient amplified cpu", "a pod's own CPUs count as often as these nodes are amplified, and that is too much"),
        (r"(?:Insufficient|Unsatisfied) NUMA (.+)", "no choice of NUMA nodes there has enough {0}"),
        (
            r"Unaligned NUMA Hint cause .*",
            "there is room, but on more NUMA nodes together than the policy allows, or with pods that keep apart",
        ),
        (r"node\(s\) NUMA Topology policy not match", "these nodes have another NUMA policy than the pod asks for"),
    ),
    short_forms=(ShortForm(NODE_RESOURCE_TOPOLOGY, SHORT_FORM, lambda value: CpuLayout.parse(str(value)), complete_topology),),
    node_options=(
        NodeOption(
            "--cpu-topology",
            "SxNxCxT[,linux]",
            "CPUs of nodes that the input has no NodeResourceTopology for: sockets x NUMA nodes x cores x threads, such as 2x2x26x2",
            NODE_RESOURCE_TOPOLOGY,
            CpuLayout.parse,
            node_topology,
            layout_doubt,
        ),
    ),
    exclusive=(ExclusiveResource("CPUs", lambda pod: frozenset(cpu_ids(cpus_of(pod))), lambda cpus: [format_cpus(mask_of(cpus))]),),
    pod_checks=(PodCheck("cpuset", read_cpuset, NODE_RESOURCE_TOPOLOGY, cpuset_differences, describe_cpuset),),
    reports=(Report("cpus", "--show-cpus", "pods with CPUs of their own in the table (default 10)", NODE_RESOURCE_TOPOLOGY, cpu_report),),
    object_checks=(
        ObjectCheck(NODE_RESOURCE_TOPOLOGY, lambda nrt: read_options(nrt).problems),
        ObjectCheck(NODE, lambda node: node_policy(node).problems),
    ),
    pod_annotations=(RESOURCE_STATUS,),
)
