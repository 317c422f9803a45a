"""Who binds CPUs, how, and what a node's own policy makes of it (nodenumaresource.md §4)."""

import json

import pytest
from support.builders import PodBuilder, pod
from support.numa import lsr

from koordsched.api.koordinator.pods import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, PodResourceSpec
from koordsched.api.koordinator.policies import CpuBindPolicy, CpuExclusivePolicy, NumaExclusive, NumaTopologyPolicy
from koordsched.framework.status import Code, Status
from koordsched.plugins.nodenumaresource.pod_demand import (
    EffectivePolicy,
    PodDemand,
    binds_on,
    effective_policy,
    merged_policy,
    resolve,
    signature,
    written_back,
)
from koordsched.plugins.nodenumaresource.reasons import FRACTIONAL_CPUS, POLICY_MISMATCH

NONE, FULL, SPREAD = CpuBindPolicy
QOS, PRIORITY_CLASS = "koordinator.sh/qosClass", "koordinator.sh/priority-class"


def spec(builder: PodBuilder, **fields: str) -> PodBuilder:
    return builder.annotation(RESOURCE_SPEC, json.dumps(fields))


def demand(builder: PodBuilder, default: str = "FullPCPUs") -> PodDemand:
    found = resolve(builder.info(), default)
    assert isinstance(found, PodDemand), found
    return found


def refusal(builder: PodBuilder, default: str = "FullPCPUs") -> Status:
    found = resolve(builder.info(), default)
    assert isinstance(found, Status), found
    return found


def test_an_lsr_pod_binds_whole_cpus_by_the_default_policy() -> None:
    found = demand(lsr(cpus=4))
    assert (found.milli_cpu, found.num_cpus, found.binds, found.required, found.policy) == (4000, 4, True, NONE, FULL)


def test_an_ls_pod_does_not_bind() -> None:
    found = demand(pod().cpu("2500m").label(QOS, "LS"))
    assert (found.milli_cpu, found.num_cpus, found.binds, found.policy) == (2500, 2, False, NONE)


def test_an_lse_pod_binds_as_an_lsr_pod_does() -> None:
    assert demand(pod().cpu("1").label(QOS, "LSE")).binds


@pytest.mark.parametrize(
    ("builder", "binds"),
    [
        (lsr().priority(9500), True),
        (lsr().priority(0), True),  # no band: the class that is usual for LSR, prod
        (lsr().priority(7500), False),
        (lsr().priority(9500).label(PRIORITY_CLASS, "koord-mid"), False),
        (lsr().priority(7500).label(PRIORITY_CLASS, "koord-prod"), True),
        (lsr().priority(7500).label(PRIORITY_CLASS, "koord-foo"), True),  # no class: that of LSR
    ],
)
def test_only_pods_of_class_prod_bind(builder: PodBuilder, binds: bool) -> None:
    assert demand(builder).binds is binds


def test_a_fraction_of_a_cpu_cannot_be_bound() -> None:
    assert refusal(lsr(cpus="2500m")) is FRACTIONAL_CPUS
    assert Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("the requested CPUs must be integer",)) == FRACTIONAL_CPUS


def test_a_pod_without_cpu_binds_nothing() -> None:
    assert not demand(pod().memory("1Gi").label(QOS, "LSR")).binds
    assert not demand(pod().request("kubernetes.io/batch-cpu", "4000").label(QOS, "LSR")).binds


def test_without_a_default_policy_only_who_asks_is_bound() -> None:
    assert not demand(lsr(), "").binds
    assert not demand(lsr(cpus="2500m"), "").binds
    assert not demand(spec(lsr(), preferredCPUBindPolicy="Default"), "").binds
    found = demand(spec(lsr(), preferredCPUBindPolicy="SpreadByPCPUs"), "")
    assert (found.binds, found.policy, found.required) == (True, SPREAD, NONE)


@pytest.mark.parametrize(
    ("fields", "policy", "required"),
    [
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, SPREAD, NONE),
        ({"preferredCPUBindPolicy": "Default"}, FULL, NONE),
        ({"requiredCPUBindPolicy": "SpreadByPCPUs"}, SPREAD, SPREAD),
        ({"requiredCPUBindPolicy": "Default"}, FULL, FULL),
        ({"requiredCPUBindPolicy": "SpreadByPCPUs", "preferredCPUBindPolicy": "FullPCPUs"}, SPREAD, SPREAD),
        ({"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "Foo"}, FULL, FULL),
    ],
)
def test_the_required_policy_replaces_the_preferred_one(fields: dict[str, str], policy: CpuBindPolicy, required: CpuBindPolicy) -> None:
    found = demand(spec(lsr(), **fields))
    assert (found.binds, found.policy, found.required) == (True, policy, required)


@pytest.mark.parametrize(
    "fields",
    [
        {"preferredCPUBindPolicy": "ConstrainedBurst"},
        {"preferredCPUBindPolicy": "Foo"},
        {"requiredCPUBindPolicy": "Foo", "preferredCPUBindPolicy": "FullPCPUs"},
    ],
)
def test_a_policy_that_does_not_bind_leaves_the_pod_unbound_even_with_a_fraction(fields: dict[str, str]) -> None:
    found = demand(spec(lsr(cpus="1500m"), **fields))
    assert (found.binds, found.policy, found.required) == (False, NONE, NONE)


def test_the_exclusive_policy_counts_for_who_binds_only() -> None:
    assert demand(spec(lsr(), preferredCPUExclusivePolicy="PCPULevel")).exclusive == CpuExclusivePolicy.PCPU_LEVEL
    assert demand(spec(lsr(), preferredCPUExclusivePolicy="Foo")).exclusive == CpuExclusivePolicy.NONE
    assert demand(spec(pod().cpu("1"), preferredCPUExclusivePolicy="NUMANodeLevel")).exclusive == CpuExclusivePolicy.NONE


def test_numa_policies_of_the_pod() -> None:
    found = demand(pod().annotation(NUMA_TOPOLOGY_SPEC, '{"numaTopologyPolicy":"SingleNUMANode"}'))
    assert (found.numa_policy, found.numa_exclusive) == (NumaTopologyPolicy.SINGLE_NUMA_NODE, NumaExclusive.NONE)
    text = '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}'
    found = demand(pod().annotation(NUMA_TOPOLOGY_SPEC, text))
    assert (found.numa_policy, found.numa_exclusive) == (NumaTopologyPolicy.RESTRICTED, NumaExclusive.PREFERRED)


@pytest.mark.parametrize("text", ["Foo", "None"])
def test_an_unknown_numa_policy_refuses_the_pod(text: str) -> None:
    assert refusal(pod().annotation(NUMA_TOPOLOGY_SPEC, json.dumps({"numaTopologyPolicy": text}))) is POLICY_MISMATCH


@pytest.mark.parametrize("key", [RESOURCE_SPEC, NUMA_TOPOLOGY_SPEC])
def test_an_annotation_that_is_no_json_is_an_error(key: str) -> None:
    found = refusal(pod().annotation(key, "{bad"))
    assert found.code is Code.ERROR
    assert found.message.startswith(f"{key}: JSON is malformed")
    assert found.message.endswith('"{bad"')


def test_a_plain_pod_has_no_signature() -> None:
    assert signature(pod().cpu("4").label("app", "web").label(QOS, "LS").priority(9500).info()) is None


def test_pods_that_resolve_differently_have_different_signatures() -> None:
    builders = [
        pod(),
        lsr(),
        lsr().label(QOS, "LSE"),
        lsr().priority(7500),
        lsr().label(PRIORITY_CLASS, "koord-mid"),
        spec(lsr(), preferredCPUBindPolicy="SpreadByPCPUs"),
        spec(pod(), preferredCPUBindPolicy="SpreadByPCPUs"),
        pod().annotation(NUMA_TOPOLOGY_SPEC, "{}"),
    ]
    assert len({signature(builder.info()) for builder in builders}) == len(builders)


@pytest.mark.parametrize(
    ("builder", "policy", "expected"),
    [
        (lsr(), NONE, True),
        (lsr(), FULL, True),
        (pod().cpu("2"), NONE, False),
        (pod().cpu("2"), SPREAD, True),
        (pod().cpu("2500m"), NONE, False),
        (pod().cpu("2500m"), SPREAD, FRACTIONAL_CPUS),
        (pod().memory("1Gi"), FULL, False),
        (pod().request("kubernetes.io/batch-cpu", "1500"), FULL, False),
    ],
)
def test_a_node_with_a_policy_binds_every_pod_that_requests_cpu(
    builder: PodBuilder, policy: CpuBindPolicy, expected: bool | Status
) -> None:
    assert binds_on(demand(builder), policy) == expected


@pytest.mark.parametrize(
    ("fields", "policy", "expected"),
    [
        ({}, NONE, EffectivePolicy(FULL, required=False)),
        ({}, SPREAD, EffectivePolicy(SPREAD, required=True)),
        ({"requiredCPUBindPolicy": "FullPCPUs"}, SPREAD, EffectivePolicy(FULL, required=True)),
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, FULL, EffectivePolicy(FULL, required=True)),
    ],
)
def test_the_effective_policy(fields: dict[str, str], policy: CpuBindPolicy, expected: EffectivePolicy) -> None:
    assert effective_policy(demand(spec(lsr(), **fields)), policy) == expected


def test_numa_policies_of_pod_and_node_must_not_differ() -> None:
    none, best_effort, restricted, _single = NumaTopologyPolicy
    plain, asking = PodDemand(), PodDemand(numa_policy=restricted)
    assert merged_policy(plain, none) is none
    assert merged_policy(plain, best_effort) is best_effort
    assert merged_policy(asking, none) is restricted
    assert merged_policy(asking, restricted) is restricted
    assert merged_policy(asking, best_effort) is POLICY_MISMATCH
    assert Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) NUMA Topology policy not match",)) == POLICY_MISMATCH


@pytest.mark.parametrize(
    ("spec_written", "effective", "expected"),
    [
        (PodResourceSpec(), EffectivePolicy(FULL, required=False), PodResourceSpec(preferred_cpu_bind_policy="FullPCPUs")),
        (PodResourceSpec(), EffectivePolicy(FULL, required=True), PodResourceSpec(required_cpu_bind_policy="FullPCPUs")),
        (
            PodResourceSpec("", "SpreadByPCPUs", "PCPULevel"),
            EffectivePolicy(FULL, required=True),
            PodResourceSpec("FullPCPUs", "SpreadByPCPUs", "PCPULevel"),
        ),
        (PodResourceSpec("", "Default", "PCPULevel"), EffectivePolicy(FULL, required=False), PodResourceSpec("", "FullPCPUs", "PCPULevel")),
        (PodResourceSpec("Default", "Default"), EffectivePolicy(SPREAD, required=True), PodResourceSpec("SpreadByPCPUs", "SpreadByPCPUs")),
        (PodResourceSpec("FullPCPUs"), EffectivePolicy(FULL, required=True), None),
        (PodResourceSpec("", "SpreadByPCPUs"), EffectivePolicy(SPREAD, required=False), None),
    ],
)
def test_what_was_left_open_is_written_back(
    spec_written: PodResourceSpec, effective: EffectivePolicy, expected: PodResourceSpec | None
) -> None:
    assert written_back(spec_written, effective) == expected
