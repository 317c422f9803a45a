"""Feature gates of Kubernetes 1.35 and Koordinator v1.8.0: defaults, locks, groups, dependencies.

Sources: framework.md §1.7, frameworkext.md §1.3.
"""

from __future__ import annotations

import pytest

from koordsched.config import DEFAULT_GATES, FeatureGateError, parse_feature_gates
from koordsched.config.features import ALPHA, BETA, DEFAULTS, LOCKED

LOCKED_ON = [
    "SchedulerQueueingHints",
    "InPlacePodVerticalScaling",
    "SidecarContainers",
    "DynamicResourceAllocation",
    "PodSchedulingReadiness",
]
ON = [
    "SchedulerPopFromBackoffQ",
    "SchedulerAsyncPreemption",
    "OpportunisticBatching",
    "NominatedNodeNameForExpectation",
    "PodLevelResources",
    "MatchLabelKeysInPodTopologySpread",
    "DRAPrioritizedList",
    "DRAAdminAccess",
    "DRASchedulerFilterTimeout",
    "DynamicSchedulerCheck",
    "CSIStorageCapacity",
    "GenericEphemeralVolume",
    "PodDisruptionBudget",
]
OFF = [
    "SchedulerAsyncAPICalls",
    "GangScheduling",
    "GenericWorkload",
    "NodeDeclaredFeatures",
    "TaintTolerationComparisonOperators",
    "StorageCapacityScoring",
    "VolumeLimitScaling",
    "DRAExtendedResource",
    "CoordinatedLeaderElection",
    *["CompatibleCSIStorageCapacity", "DisableCSIStorageCapacityInformer", "CompatiblePodDisruptionBudget"],
    *["DisablePodDisruptionBudgetInformer", "DisableDynamicResourceAllocationInformer", "ResizePod", "MultiQuotaTree"],
    *["ElasticQuotaIgnorePodOverhead", "ElasticQuotaIgnoreTerminatingPod", "ElasticQuotaImmediateIgnoreTerminatingPod"],
    *["ElasticQuotaGuaranteeUsage", "DisableDefaultQuota", "SupportParentQuotaSubmitPod", "LazyReservationRestore"],
    *["OmitNodeLabelsForReservation", "SkipReservationFitsNode", "DevicePluginAdaption", "CleanExpiredReservationAllocated"],
    *["SyncBarrier", "PriorityTransformer", "PreemptionPolicyTransformer", "ReplaceResourcesTransformer"],
]


def problems(*values: str) -> tuple[str, ...]:
    with pytest.raises(FeatureGateError) as refused:
        parse_feature_gates(values)
    return refused.value.problems


def test_the_gates_that_change_scheduling_have_the_reference_s_defaults() -> None:
    assert all(DEFAULT_GATES[name] for name in [*LOCKED_ON, *ON])
    assert not any(DEFAULT_GATES[name] for name in OFF)
    assert LOCKED.issuperset(LOCKED_ON)
    assert not LOCKED.intersection([*ON, *OFF])


def test_the_table_holds_every_gate_once() -> None:
    assert len(DEFAULTS) == 244  # as many as koord-scheduler v1.8.0 registers, AllAlpha and AllBeta among them


def test_gates_are_switched_in_the_order_given() -> None:
    gates = parse_feature_gates(["SyncBarrier=true, ResizePod=T", "kube:SyncBarrier=false,,MultiQuotaTree=1"])
    assert (gates["SyncBarrier"], gates["ResizePod"], gates["MultiQuotaTree"]) == (False, True, True)
    assert parse_feature_gates([""]) == DEFAULT_GATES


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("SyncBarier=true", 'unrecognized feature gate: SyncBarier, did you mean "SyncBarrier"?'),
        ("SidecarContainers=false", "cannot set feature gate SidecarContainers to false, feature is locked to true"),
        ("SyncBarrier", "missing bool value for SyncBarrier"),
        ("SyncBarrier=yes", 'invalid value of SyncBarrier=yes, err: strconv.ParseBool: parsing "yes": invalid syntax'),
        ("wardle:A=true", "component not registered: wardle"),
        ("GangScheduling=true", "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"),
    ],
)
def test_what_cannot_be_set_is_refused_in_the_words_of_component_base(value: str, problem: str) -> None:
    assert problems(value)[0] == problem


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert parse_feature_gates(["SidecarContainers=true"]) == DEFAULT_GATES


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems("Foo=true,SidecarContainers=false", "Bar")) == 3


def test_groups_switch_what_is_not_named_itself() -> None:
    gates = parse_feature_gates(["AllBeta=false,SchedulerAsyncPreemption=true"])
    assert gates["SchedulerAsyncPreemption"] is True
    assert not any(gates[name] for name in BETA if name != "SchedulerAsyncPreemption")
    assert parse_feature_gates(["AllAlpha=true,AllBeta=true,SyncBarrier=false"])["SyncBarrier"] is False
    assert all(parse_feature_gates(["AllAlpha=true,AllBeta=true"])[name] for name in ALPHA | BETA)


def test_asking_for_a_gate_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(KeyError):
        DEFAULT_GATES["NoSuchGate"]
