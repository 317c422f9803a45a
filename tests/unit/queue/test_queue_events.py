"""The matching rule of registered and incoming events, and the labels (framework.md §3.5, §12)."""

from __future__ import annotations

import pytest
from support.builders import pod

from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    ClusterEvent,
    EventResource,
    Scope,
    cluster_event,
)

NODE_LABEL = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
RESERVATION_ADD = cluster_event(EventResource.CUSTOM, ActionType.ADD, "reservations.scheduling.koordinator.sh")


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        pytest.param(ClusterEvent(EventResource.NODE, ActionType.ADD), NODE_ADD, True, id="the label does not matter"),
        pytest.param(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), NODE_LABEL, True, id="one of several bits"
        ),
        pytest.param(ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT), NODE_LABEL, False, id="another bit"),
        pytest.param(ClusterEvent(EventResource.CSI_NODE, ActionType.ALL), NODE_ADD, False, id="another kind"),
        pytest.param(ClusterEvent(EventResource.POD, ActionType.DELETE), ASSIGNED_POD_DELETE, True, id="Pod covers assigned pods"),
        pytest.param(ClusterEvent(EventResource.POD, ActionType.ADD), UNSCHEDULABLE_POD_ADD, True, id="Pod covers pending pods"),
        pytest.param(ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD), UNSCHEDULABLE_POD_ADD, False, id="assigned is not pending"),
        pytest.param(ClusterEvent(EventResource.WILDCARD, ActionType.ALL), NODE_ADD, True, id="a wildcard covers everything"),
        pytest.param(ClusterEvent(EventResource.WILDCARD, ActionType.ADD), NODE_ADD, True, id="any kind, one action"),
        pytest.param(ClusterEvent(EventResource.WILDCARD, ActionType.ADD), NODE_LABEL, False, id="any kind, another action"),
        pytest.param(
            ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL),
            ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
            False,
            id="an incoming mask larger than the registered one",
        ),
        pytest.param(
            ClusterEvent(EventResource.CUSTOM, ActionType.ADD, kind="reservations.scheduling.koordinator.sh"),
            RESERVATION_ADD,
            True,
            id="the same custom kind",
        ),
        pytest.param(
            ClusterEvent(EventResource.CUSTOM, ActionType.ADD, kind="devices.scheduling.koordinator.sh"),
            RESERVATION_ADD,
            False,
            id="another custom kind",
        ),
    ],
)
def test_a_registered_event_covers_an_incoming_one(registered: ClusterEvent, incoming: ClusterEvent, matches: bool) -> None:
    assert registered.matches(incoming) is matches


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (NODE_ADD, "NodeAdd"),
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (UNSCHEDULABLE_POD_ADD, "UnschedulablePodAdd"),
        (cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE), "NodeUpdateNodeAllocatable"),
        (cluster_event(EventResource.CSI_NODE, ActionType.UPDATE_OTHER), "storage.k8s.io/CSINodeUpdate"),
        (cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_OTHER), "UnschedulablePodUpdate"),
        (RESERVATION_ADD, "reservations.scheduling.koordinator.shAdd"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_the_metric_label_is_resource_and_action(event: ClusterEvent, label: str) -> None:
    assert event.label == label


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (Scope(), True),
        (Scope(max_priority=5), True),
        (Scope(max_priority=4), False),
        (Scope(exclude_uid="uid-default-p"), False),
        (Scope(exclude_uid="other"), True),
        (Scope(only_uid="uid-default-p"), True),
        (Scope(only_uid="other"), False),
    ],
)
def test_a_scope_says_which_pods_an_event_concerns(scope: Scope, covered: bool) -> None:
    assert scope.covers(pod("p").priority(5).info()) is covered
