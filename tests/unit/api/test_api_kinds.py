from __future__ import annotations

import pytest

from koordsched.api import kinds
from koordsched.api.core import Pod
from koordsched.api.kinds import KINDS, Kind, kind_of, unstructured_kind
from koordsched.api.meta import Unstructured


def test_a_core_kind_has_no_group_in_its_names() -> None:
    assert kinds.POD.api_version == "v1"
    assert kinds.POD.plural_group == "pods"
    assert kinds.POD.struct is Pod


def test_a_kind_of_a_group_carries_it_in_its_names() -> None:
    assert kinds.CSI_NODE.api_version == "storage.k8s.io/v1"
    assert kinds.RESERVATION.plural_group == "reservations.scheduling.koordinator.sh"


def test_an_object_finds_its_kind_by_what_it_says() -> None:
    assert kind_of("v1", "Node") is kinds.NODE
    assert kind_of("scheduling.sigs.k8s.io/v1alpha1", "PodGroup") is kinds.POD_GROUP
    assert kind_of("v2", "Node") is None


def test_every_kind_constant_is_in_the_table() -> None:
    constants = [found for found in vars(kinds).values() if isinstance(found, Kind)]
    assert sorted(map(repr, constants)) == sorted(map(repr, KINDS.values()))


# The scopes and plurals that Koordinator v1.8.0's config/crd/bases declare.
CRDS = [
    ("analysis.koordinator.sh/v1alpha1", "Recommendation", "recommendations", True),
    ("config.koordinator.sh/v1alpha1", "ClusterColocationProfile", "clustercolocationprofiles", False),
    ("quota.koordinator.sh/v1alpha1", "ElasticQuotaProfile", "elasticquotaprofiles", True),
    ("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "clusternetworktopologies", False),
    ("scheduling.koordinator.sh/v1alpha1", "Device", "devices", False),
    ("scheduling.koordinator.sh/v1alpha1", "PodMigrationJob", "podmigrationjobs", False),
    ("scheduling.koordinator.sh/v1alpha1", "Reservation", "reservations", False),
    ("scheduling.koordinator.sh/v1alpha1", "ScheduleExplanation", "scheduleexplanations", True),
    ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "elasticquotas", True),
    ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "podgroups", True),
    ("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", False),
    ("slo.koordinator.sh/v1alpha1", "NodeSLO", "nodeslos", False),
    ("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", "noderesourcetopologies", False),
]


@pytest.mark.parametrize(("api_version", "kind", "plural", "namespaced"), CRDS)
def test_koordinators_kinds_are_served_as_its_crds_say(api_version: str, kind: str, plural: str, namespaced: bool) -> None:
    found = kind_of(api_version, kind)
    assert found is not None
    assert (found.plural, found.namespaced) == (plural, namespaced)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [("Widget", "widgets"), ("Policy", "policies"), ("Gateway", "gateways"), ("Class", "classes"), ("Box", "boxes"), ("Batch", "batches")],
)
def test_an_unknown_kind_gets_an_english_plural(kind: str, plural: str) -> None:
    made = unstructured_kind("example.com/v1", kind)
    assert made == Kind("example.com", "v1", kind, plural, True, Unstructured)
    assert made.api_version == "example.com/v1"


def test_custom_are_the_kinds_of_groups_that_are_not_kubernetes_own() -> None:
    custom = {kind.plural_group for kind in KINDS.values() if kind.is_custom}
    assert custom == {f"{plural}.{api_version.partition('/')[0]}" for api_version, _, plural, _ in CRDS} | {
        "recommendations.analysis.koordinator.sh"
    }
