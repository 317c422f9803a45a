"""What a NodeResourceTopology says, and what is left of one with mistakes (nodenumaresource.md §2, D4, D5, D11)."""

from typing import Any

import pytest
from support.numa import GIB, topology

from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.policies import NumaTopologyPolicy
from koordsched.api.koordinator.topology import KubeletPolicy
from koordsched.api.quantity import QuantityFormat
from koordsched.plugins.nodenumaresource.node_topology import TopologyOptions, read_options

CPUS = "node.koordinator.sh/cpu-topology"
KUBELET = "kubelet.koordinator.sh/cpu-manager-policy"
ALLOCS = "node.koordinator.sh/pod-cpu-allocs"
SYSTEM = "node.koordinator.sh/system-qos-resource"
RESERVATION = "node.koordinator.sh/reservation"
RATIO = "node.koordinator.sh/resource-amplification-ratio"

FOUR_SOURCES: dict[str, Any] = {
    KUBELET: {"policy": "static", "reservedCPUs": "0-1"},
    ALLOCS: [{"uid": "u", "cpuset": "0-3", "managedByKubelet": True}],
    SYSTEM: {"cpuset": "4-5"},
    RESERVATION: {"reservedCPUs": "6-7", "resources": {"cpu": "2"}},
}


def read(layout: str = "2x1x4x2", **fields: Any) -> TopologyOptions:
    return read_options(topology("n1", layout, **fields))


def cpu_of_zones(options: TopologyOptions) -> dict[int, int]:
    return {numa: zone.amounts["cpu"] for numa, zone in options.zones.items()}


def zone(name: str, *, kind: str = "Node", **resources: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "resources": [{"name": key, "allocatable": amount} for key, amount in resources.items()]}


def detail(**changed: Any) -> dict[str, Any]:
    """Return two CPUs of which the second is changed."""
    return {CPUS: {"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}, {"id": 1, "core": 1, "socket": 0, "node": 0} | changed]}}


def test_cpus_and_zones_are_read() -> None:
    options = read(memory=32 * GIB)
    assert options.topology is not None
    assert (options.topology.num_cpus, options.topology.num_cores, options.topology.num_nodes, options.topology.num_sockets) == (
        16,
        8,
        2,
        2,
    )
    assert {numa: zone.amounts for numa, zone in options.zones.items()} == {
        0: {"cpu": 8000, "memory": 16 * GIB},
        1: {"cpu": 8000, "memory": 16 * GIB},
    }
    assert (options.reserved, options.ratios, options.problems) == (0, None, ())


def test_nodes_of_equal_hardware_share_their_topology() -> None:
    assert read().topology is read().topology


def test_reserved_cpus_come_from_four_sources_and_leave_the_zones() -> None:
    options = read(annotations=FOUR_SOURCES)
    assert format_cpus(options.reserved) == "0-7"
    assert cpu_of_zones(options) == {0: 0, 1: 8000}


def test_what_kubelet_no_longer_binds_is_free() -> None:
    options = read(annotations=FOUR_SOURCES | {ALLOCS: "null"})
    assert format_cpus(options.reserved) == "0-1,4-7"
    assert cpu_of_zones(options) == {0: 2000, 1: 8000}


@pytest.mark.parametrize(
    ("annotations", "reserved"),
    [
        ({SYSTEM: {"cpuset": "4-5", "cpusetExclusive": True}}, "4-5"),
        ({SYSTEM: {"cpuset": "4-5", "cpusetExclusive": None}}, "4-5"),
        ({SYSTEM: {"cpuset": "4-5", "cpusetExclusive": False}}, ""),
        ({ALLOCS: [{"uid": "u", "cpuset": "0-3"}]}, ""),
        ({ALLOCS: [{"cpuset": "0-3", "managedByKubelet": True}]}, ""),
        ({ALLOCS: [{"uid": "u", "managedByKubelet": True}, {"uid": "v", "cpuset": "9", "managedByKubelet": True}]}, "9"),
        ({RESERVATION: {"resources": {"cpu": "2"}}}, ""),
        ({RESERVATION: ""}, ""),
        ({"node.koordinator.sh/cpu-shared-pools": [{"socket": 0, "node": 0, "cpuset": "0-7"}]}, ""),
    ],
)
def test_what_counts_as_reserved(annotations: dict[str, Any], reserved: str) -> None:
    options = read(annotations=annotations)
    assert (format_cpus(options.reserved), options.problems) == (reserved, ())


@pytest.mark.parametrize(
    ("policies", "expected", "pod_level"),
    [
        ([], "NONE", "NONE"),
        (["SingleNUMANodePodLevel"], "SINGLE_NUMA_NODE", "SINGLE_NUMA_NODE"),
        (["Foo", "Restricted", "BestEffort"], "RESTRICTED", "RESTRICTED"),
        (["BestEffort"], "BEST_EFFORT", "BEST_EFFORT"),
        (["RestrictedPodLevel"], "NONE", "RESTRICTED"),
        (["BestEffortPodLevel"], "NONE", "BEST_EFFORT"),
        (["SingleNUMANodeContainerLevel"], "NONE", "NONE"),
        (["None"], "NONE", "NONE"),
    ],
)
def test_the_first_policy_that_is_known_holds(policies: list[str], expected: str, pod_level: str) -> None:
    options = read(topologyPolicies=policies)
    assert (options.numa_policy, options.pod_level_policy) == (NumaTopologyPolicy[expected], NumaTopologyPolicy[pod_level])


def test_kubelets_policy_is_read() -> None:
    options = read(annotations={KUBELET: {"policy": "static", "options": {"full-pcpus-only": "true"}}})
    assert options.kubelet == KubeletPolicy("static", {"full-pcpus-only": "true"})
    assert options.kubelet.has("full-pcpus-only")
    assert not KubeletPolicy("none", {"full-pcpus-only": "true"}).has("full-pcpus-only")
    assert not KubeletPolicy("static", {"full-pcpus-only": "false"}).has("full-pcpus-only")


def test_zones_are_numa_nodes_only_and_in_order() -> None:
    zones = [zone("node-3", cpu="2"), zone("socket-0", kind="Socket", cpu="9"), zone("node-1", cpu="1500m", memory="1Gi")]
    options = read(zones=zones)
    assert list(options.zones) == [1, 3]
    assert options.zones[1].amounts == {"cpu": 1500, "memory": GIB}
    assert options.zones[1].formats == {"cpu": QuantityFormat.DECIMAL_SI, "memory": QuantityFormat.BINARY_SI}
    assert options.problems == ()


@pytest.mark.parametrize("name", ["node-64", "node--1", "node-99999999999", "node-x", "numa-0", "node-"])
def test_a_zone_outside_0_to_63_is_left_out_and_reported(name: str) -> None:
    options = read(zones=[zone("node-0", cpu="2"), zone(name, cpu="2")])
    assert list(options.zones) == [0]
    assert options.problems == (f'zones[1].name: expected node-0 to node-63, so it is ignored: "{name}"',)


def test_of_two_zones_of_one_name_the_first_holds() -> None:
    options = read(zones=[zone("node-0", cpu="2"), zone("node-0", cpu="20")])
    assert cpu_of_zones(options) == {0: 2000}
    assert options.problems == ('zones[1].name: given twice, so it is ignored: "node-0"',)


@pytest.mark.parametrize("amount", ["x", "-2", ["2"], True])
def test_an_amount_that_cannot_be_counts_as_nothing(amount: Any) -> None:
    options = read(zones=[zone("node-0", cpu=amount, memory="1Gi")])
    assert options.zones[0].amounts == {"cpu": 0, "memory": GIB}
    (problem,) = options.problems
    assert problem.startswith("zones[0].resources[0].allocatable: expected an amount of cpu, so it counts as 0: ")


def test_zones_that_are_no_list_are_reported() -> None:
    options = read(zones={"node-0": {}})
    assert options.zones == {}
    (problem,) = options.problems
    assert problem.startswith("zones: Expected `array`, got `object`")


def test_zones_keep_their_cpu_when_more_is_reserved_than_they_have() -> None:
    options = read(zones=[zone("node-0", cpu="1"), zone("node-1", memory="1Gi")], annotations={RESERVATION: {"reservedCPUs": "0-3,8"}})
    assert options.zones[0].amounts == {"cpu": 0}
    assert options.zones[1].amounts == {"memory": GIB}


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({CPUS: "{bad"}, "JSON is malformed"),
        ({CPUS: {"detail": [{"id": "x"}]}}, "Expected `int`, got `str` - at `$.detail[0].id`"),
        ({CPUS: {"detail": [{"core": 1}]}}, "missing required field `id`"),
        (detail(id=0), "0"),  # twice
        (detail(id=4096), "4096"),
        (detail(id=-1), "-1"),
        (detail(node=64), "64"),
        (detail(socket=-1), "-1"),
        ({CPUS: {"detail": [{"id": i, "core": i} for i in range(10_000)]}}, "4096"),
    ],
)
def test_a_node_with_an_impossible_topology_has_none(annotations: dict[str, Any], problem: str) -> None:
    options = read(annotations=annotations)
    assert options.topology is None
    (reported,) = options.problems
    assert reported.startswith(f"{CPUS}: ")
    assert problem in reported
    assert len(reported) < 400
    assert cpu_of_zones(options) == {0: 8000, 1: 8000}


@pytest.mark.parametrize("annotations", [{CPUS: None}, {CPUS: "null"}, {CPUS: {}}, {CPUS: {"detail": []}}])
def test_a_node_that_does_not_name_its_cpus_has_no_topology(annotations: dict[str, Any]) -> None:
    options = read(annotations=annotations)
    assert (options.topology, options.problems) == (None, ())


def test_cpus_of_one_kubelet_pod_that_cannot_be_read_leave_those_of_others_reserved() -> None:
    """They are bound already: giving them away would bind them twice."""
    listed = [{"uid": name, "cpuset": cpuset, "managedByKubelet": True} for name, cpuset in (("a", "0-1"), ("b", "x"), ("c", "6"))]
    options = read(annotations={ALLOCS: listed})
    (problem,) = options.problems
    assert format_cpus(options.reserved) == "0-1,6"
    assert problem.startswith(f"{ALLOCS}: [1].cpuset: 'x' is not a CPU")


def test_keys_of_annotations_may_be_spelled_in_any_case() -> None:
    written = {KUBELET: {"Policy": "static", "ReservedCpus": "0-1"}, SYSTEM: {"CPUSet": "4", "cpusetexclusive": False}}
    options = read(annotations={**written, CPUS: {"Detail": [{"ID": 0, "Core": 0}, {"Id": 1, "core": 0, "Node": 1}]}})
    assert (options.kubelet.policy, format_cpus(options.reserved), options.problems) == ("static", "0-1", ())
    assert options.topology is not None
    assert options.topology.node_ids == (0, 1)


@pytest.mark.parametrize("key", [KUBELET, ALLOCS, SYSTEM, RESERVATION, RATIO])
def test_a_malformed_annotation_is_reported_once_and_the_others_hold(key: str) -> None:
    options = read(annotations=FOUR_SOURCES | {key: "{bad"})
    (problem,) = options.problems
    assert problem.startswith(f"{key}: JSON is malformed")
    assert options.topology is not None
    left = {KUBELET: "0-7", ALLOCS: "0-1,4-7", SYSTEM: "0-3,6-7", RESERVATION: "0-5", RATIO: "0-7"}
    assert format_cpus(options.reserved) == left[key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KUBELET, {"reservedCPUs": "0-x"}),
        (SYSTEM, {"cpuset": "3-1"}),
        (RESERVATION, {"reservedCPUs": "0-5000"}),
        (ALLOCS, [{"uid": "u", "cpuset": "a", "managedByKubelet": True}]),
    ],
)
def test_a_cpu_list_that_is_none_reserves_nothing_and_is_reported(key: str, value: Any) -> None:
    options = read(annotations={key: value})
    assert options.reserved == 0
    (problem,) = options.problems
    assert problem.startswith(f"{key}: ")


def test_reserved_cpus_that_the_node_lacks_are_reported() -> None:
    options = read(annotations={RESERVATION: {"reservedCPUs": "0,100-101"}})
    assert options.problems == ("reserved CPUs that the node does not have: 100-101",)
    assert cpu_of_zones(options) == {0: 7000, 1: 8000}


@pytest.mark.parametrize(
    ("text", "ratios", "problems"),
    [
        ('{"cpu":1.5}', {"cpu": 1.5}, ()),
        ("{}", {}, ()),
        ("null", None, ()),
        ('{"cpu":-1}', {"cpu": -1.0}, (f"{RATIO}: the ratio of cpu, -1, is ignored: expected 1 or more",)),
    ],
)
def test_ratios_of_the_topology(text: str, ratios: dict[str, float] | None, problems: tuple[str, ...]) -> None:
    options = read(annotations={RATIO: text})
    assert (options.ratios, options.problems) == (ratios, problems)


def test_core_ids_may_repeat_from_socket_to_socket() -> None:
    cpus = [{"id": i, "core": i // 2 % 2, "socket": i // 4, "node": i // 4} for i in range(8)]
    options = read(annotations={CPUS: {"detail": cpus}})
    assert options.topology is not None
    assert (options.topology.num_cores, options.topology.cpus_per_core) == (4, 2)


def test_the_sibling_of_an_offline_thread_is_a_whole_core() -> None:
    cpus = [{"id": i, "core": i // 2, "socket": 0, "node": 0} for i in (0, 2, 3)]  # CPU 1 is offline
    options = read(annotations={CPUS: {"detail": cpus}})
    assert options.topology is not None
    assert options.topology.cpus_per_core == 2
    assert format_cpus(options.topology.full_cores(0b1101)) == "0,2-3"
