"""Annotations of pods about CPUs and NUMA nodes are read and written as Koordinator does."""

import json

import pytest
from support.builders import pod

from koordsched.api.koordinator.pods import (
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    NumaTopologySpec,
    PodNumaStatus,
    PodResourceSpec,
    numa_topology_spec,
    request_format,
    resource_spec,
    resource_spec_text,
    resource_status,
    resource_status_text,
)
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.quantity import QuantityFormat

GIB = 2**30


def decimal(_node: int, _resource: str) -> QuantityFormat:
    return QuantityFormat.DECIMAL_SI


def binary(_node: int, resource: str) -> QuantityFormat:
    return QuantityFormat.BINARY_SI if resource == "memory" else QuantityFormat.DECIMAL_SI


def test_a_pod_without_annotations_says_nothing() -> None:
    assert resource_spec({}) == PodResourceSpec()
    assert numa_topology_spec({}) == NumaTopologySpec()
    assert resource_status({}) is None


def test_policies_are_kept_as_written() -> None:
    text = '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUBindPolicy":"Default","preferredCPUExclusivePolicy":"Foo","more":1}'
    assert resource_spec({RESOURCE_SPEC: text}) == PodResourceSpec("FullPCPUs", "Default", "Foo")
    text = '{"numaTopologyPolicy":"Foo","singleNUMANodeExclusive":"Preferred"}'
    assert numa_topology_spec({NUMA_TOPOLOGY_SPEC: text}) == NumaTopologySpec("Foo", "Preferred")


def test_nulls_count_as_absent() -> None:
    assert resource_spec({RESOURCE_SPEC: '{"requiredCPUBindPolicy":null}'}) == PodResourceSpec()
    assert resource_spec({RESOURCE_SPEC: "null"}) == PodResourceSpec()
    assert resource_status({RESOURCE_STATUS: "null"}) is None
    assert resource_status({RESOURCE_STATUS: '{"cpuset":"1","numaNodeResources":null}'}) == PodNumaStatus(0b10, {})


def test_keys_may_be_spelled_in_any_case() -> None:
    """As Go's encoding/json reads them; a pod whose CPUs were written so holds them."""
    assert resource_spec({RESOURCE_SPEC: '{"PreferredCpuBindPolicy":"SpreadByPCPUs","more":{"a":[1]}}'}) == PodResourceSpec(
        "", "SpreadByPCPUs"
    )
    assert numa_topology_spec({NUMA_TOPOLOGY_SPEC: '{"numatopologypolicy":"Restricted"}'}) == NumaTopologySpec("Restricted")
    text = '{"CPUSet":"1","NUMANodeResources":[{"Node":1,"RESOURCES":{"cpu":"2","CPU":"7"}}]}'
    assert resource_status({RESOURCE_STATUS: text}) == PodNumaStatus(0b10, {1: {"cpu": 2000, "CPU": 7}})  # names of resources are no keys


def test_of_two_spellings_of_a_key_the_later_holds() -> None:
    assert resource_status({RESOURCE_STATUS: '{"cpuset":"1","cpuSet":"2"}'}) == PodNumaStatus(0b100, {})
    assert resource_status({RESOURCE_STATUS: '{"cpuSet":"2","cpuset":"1"}'}) == PodNumaStatus(0b10, {})


def test_a_key_in_another_spelling_is_named_as_it_should_be_when_its_value_is_wrong() -> None:
    with pytest.raises(Malformed, match="cpuset"):
        resource_status({RESOURCE_STATUS: '{"CPUSET":5}'})


def test_what_a_pod_was_given_is_read_in_milli_and_whole_units() -> None:
    resources = [{"node": 1, "resources": {"cpu": "1500m", "memory": "8Gi", "vendor.com/x": "0"}}]
    text = json.dumps({"cpuset": "0-2,8", "numaNodeResources": resources})
    assert resource_status({RESOURCE_STATUS: text}) == PodNumaStatus(0b100000111, {1: {"cpu": 1500, "memory": 8 * GIB}})


def test_a_numa_node_that_is_named_twice_counts_twice() -> None:
    text = '{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}},{"node":0,"resources":{"cpu":"2"}}]}'
    assert resource_status({RESOURCE_STATUS: text}) == PodNumaStatus(0, {0: {"cpu": 3000}})


def test_an_empty_status_is_something_other_than_none() -> None:
    assert resource_status({RESOURCE_STATUS: "{}"}) == PodNumaStatus(0, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{bad", "scheduling.koordinator.sh/resource-status: JSON is malformed"),
        ('{"cpuset":3}', "`$.cpuset`"),
        ('{"cpuset":"0-3,x"}', "'x' is not a CPU"),
        ('{"cpuset":"0-5000"}', "'0-5000'"),
        ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"x"}}]}', 'numaNodeResources[0].resources[cpu]: "x" is not a quantity'),
        ('{"numaNodeResources":[{"node":0,"resources":{"cpu":"-1"}}]}', "numaNodeResources[0].resources[cpu]: '-1' is less than 0"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_status_is_named_with_key_place_and_value(text: str, problem: str) -> None:
    with pytest.raises(Malformed) as caught:
        resource_status({RESOURCE_STATUS: text})
    message = str(caught.value)
    assert message.startswith(RESOURCE_STATUS)
    assert problem in message
    assert "\n" not in message
    assert len(message) < 400


def test_a_malformed_spec_is_named() -> None:
    with pytest.raises(Malformed, match="resource-spec: JSON is malformed"):
        resource_spec({RESOURCE_SPEC: "{bad"})
    with pytest.raises(Malformed, match=r"numa-topology-spec: Expected `str`, got `int` - at `\$\.numaTopologyPolicy`"):
        numa_topology_spec({NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":1}'})


def test_empty_fields_are_not_written() -> None:
    assert resource_spec_text(PodResourceSpec(required_cpu_bind_policy="FullPCPUs")) == '{"requiredCPUBindPolicy":"FullPCPUs"}'
    assert resource_status_text(0, {}, decimal) == "{}"
    assert resource_status_text(0b1111, {}, decimal) == '{"cpuset":"0-3"}'


def test_amounts_are_written_by_numa_node_in_their_formats() -> None:
    written = resource_status_text(0b100001111, {1: {"memory": 8 * GIB, "cpu": 38500}, 0: {"cpu": 22000}}, binary)
    assert json.loads(written) == {
        "cpuset": "0-3,8",
        "numaNodeResources": [{"node": 0, "resources": {"cpu": "22"}}, {"node": 1, "resources": {"cpu": "38500m", "memory": "8Gi"}}],
    }
    assert resource_status({RESOURCE_STATUS: written}) == PodNumaStatus(
        0b100001111, {0: {"cpu": 22000}, 1: {"cpu": 38500, "memory": 8 * GIB}}
    )


def test_a_sum_is_written_as_its_first_quantity_that_is_not_zero() -> None:
    several = pod().memory("0").container({"memory": "1G"}).container({"memory": "1Gi"})
    assert request_format(several.build(), "memory") is QuantityFormat.DECIMAL_SI
    assert request_format(pod().memory("8Gi").build(), "memory") is QuantityFormat.BINARY_SI
    assert request_format(pod().memory("1G").pod_level({"memory": "4Gi"}).build(), "memory") is QuantityFormat.BINARY_SI
    assert request_format(pod().init_container({"memory": "1e9"}).build(), "memory") is QuantityFormat.DECIMAL_EXPONENT
    assert request_format(pod().build(), "memory") is QuantityFormat.DECIMAL_SI
