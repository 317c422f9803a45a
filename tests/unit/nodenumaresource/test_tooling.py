"""Which CPUs pods hold, for the report."""

from __future__ import annotations

from support.builders import pod

from koordsched.api.core import Pod
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.api.koordinator.topology import CPU_TOPOLOGY
from koordsched.api.meta import ObjectMeta, Unstructured
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.tooling import CpuSummary, CpuUse, NumaSummary, PodCpus, cpu_sections, cpu_use
from koordsched.simulate.summary import render


def topology(name: str, layout: str) -> Unstructured:
    made = topology_manifest(name, CpuLayout.parse(layout))
    return Unstructured(metadata=ObjectMeta(name=name, annotations=made["metadata"]["annotations"]), raw=made)


def holder(name: str, node: str, status: str) -> Pod:
    return pod(name).annotation(RESOURCE_STATUS, status).on(node).build()


def test_cpus_are_counted_by_numa_node_over_all_nodes() -> None:
    use = cpu_use(
        [
            holder("one", "n1", '{"cpuset":"0-1"}'),
            holder("two", "n1", '{"cpuset":"2,4-5"}'),
            holder("other", "n2", '{"cpuset":"0"}'),
            holder("share", "n1", '{"numaNodeResources":[{"node":1,"resources":{"cpu":"1"}}]}'),
            holder("empty", "n1", "{}"),
            holder("junk", "n1", '{"cpuset":"x"}'),
            pod("plain").on("n1").build(),
        ],
        [topology("n1", "2x1x2x2"), topology("n2", "1x1x1x2")],
    )
    assert use is not None
    numa_nodes = [NumaSummary(node=0, cpus=6, bound=4), NumaSummary(node=1, cpus=4, bound=2)]
    assert use.summary == CpuSummary(total=10, bound=6, pods=3, pods_on_one_numa_node=2, numa_nodes=numa_nodes)
    assert use.pods == [
        PodCpus("default/one", "n1", "0-1", "0"),
        PodCpus("default/two", "n1", "2,4-5", "0-1"),
        PodCpus("default/other", "n2", "0", "0"),
        PodCpus("default/share", "n1", "", "1"),
    ]


def test_without_a_readable_topology_there_is_nothing_to_say() -> None:
    broken = Unstructured(metadata=ObjectMeta(name="n1", annotations={CPU_TOPOLOGY: '{"detail":['}))
    assert cpu_use([holder("a", "n1", '{"cpuset":"0"}')], []) is None
    assert cpu_use([holder("a", "n1", '{"cpuset":"0"}')], [broken, Unstructured(metadata=ObjectMeta(name="n2"))]) is None


def test_the_table_shows_numa_nodes_and_the_first_pods() -> None:
    numa_nodes = [NumaSummary(node=0, cpus=8, bound=4), NumaSummary(node=1, cpus=8, bound=0)]
    use = CpuUse(
        CpuSummary(total=16, bound=4, pods=2, pods_on_one_numa_node=1, numa_nodes=numa_nodes),
        [PodCpus("default/a", "n1", "0-3", "0"), PodCpus("default/b", "n1", "", "1")],
    )
    text = render(cpu_sections(use, 1))
    assert text == (
        "CPUs\n"
        "----\n"
        "NUMA node  CPUs  bound   share  of the CPUs\n"
        "0             8      4  50.0 %  ###############...............\n"
        "1             8      0   0.0 %  ..............................\n"
        "all          16      4  25.0 %  ########......................\n"
        "CPUs that pods have for themselves at the end, by the number of the NUMA node, over all nodes.\n"
        "Pods with CPUs of their own: 2, of these on a single NUMA node: 1.\n"
        "\n"
        "CPUs of pods\n"
        "------------\n"
        "pod        node  CPUs  NUMA nodes\n"
        "default/a  n1    0-3   0\n"
        "1 more pods; --show-cpus N lists more, -o json lists every pod.\n"
    )
    assert [section.title for section in cpu_sections(use, 0)] == ["CPUs"]
