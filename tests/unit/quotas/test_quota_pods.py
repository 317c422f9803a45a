"""What admission says of pods: their quota, parents of quotas, quota admission, and the nodes of their tree (elasticquota.md §15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace
from support.builders import pod, requirement
from support.quotas import of_quota, quota

from koordsched.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm
from koordsched.api.kinds import ELASTIC_QUOTA_PROFILE
from koordsched.api.koordinator.quota_definitions import PREFIX
from koordsched.api.validation import decode
from koordsched.quotas.pods import (
    admitted_child_request,
    affinity_of_tree,
    pod_change,
    pod_creation,
    quota_for_admission,
    quota_name_of,
)
from koordsched.quotas.rules import QuotaGates
from koordsched.quotas.topology import QuotaTopology

if TYPE_CHECKING:
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile

NO_GATES = QuotaGates()


def topology(*known: ElasticQuota) -> QuotaTopology:
    made = QuotaTopology()
    for each in known:
        made.set(each)
    return made


def profile(name: str, tree: str, **selector: object) -> ElasticQuotaProfile:
    metadata = {"name": name, "namespace": "default", "labels": {PREFIX + "tree-id": tree}}
    spec = {"quotaName": f"{name}-root", "nodeSelector": selector}
    body = {"apiVersion": ELASTIC_QUOTA_PROFILE.api_version, "kind": "ElasticQuotaProfile", "metadata": metadata, "spec": spec}
    return cast("ElasticQuotaProfile", decode(ELASTIC_QUOTA_PROFILE, body))


def test_the_label_decides_then_the_namespace_then_lists_then_the_default() -> None:
    known = topology(
        quota("team", namespace="team"),
        quota("other", namespace="elsewhere"),
        quota("z", annotations={"namespaces": '["shop"]'}),
        quota("b", annotations={"namespaces": '["shop", "team"]'}),
    )
    named = [
        quota_name_of(each.build(), known, NO_GATES)
        for each in (of_quota(pod("x", "team"), "gone"), pod("x", "team"), pod("x", "other"), pod("x", "shop"))
    ]
    assert named == ["gone", "team", "koordinator-default-quota", "b"]
    assert quota_name_of(pod("x", "team").build(), known, QuotaGates(disable_default_quota=True)) == ""


def test_pods_are_not_of_quotas_with_children() -> None:
    known = topology(quota("p", is_parent="true"), quota("c", parent="p"), quota("team", namespace="team", is_parent="true"))
    (refusal,) = pod_creation(of_quota(pod("x"), "p").build(), known, NO_GATES)
    assert refusal.message == "pod can not be linked to a parentQuotaGroup,quota:p, pod:x"
    (refusal,) = pod_creation(pod("x", "team").build(), known, NO_GATES)
    assert str(refusal) == 'metadata.namespace: Invalid value: "team": pod can not be linked to a parentQuotaGroup,quota:team, pod:x'
    for allowed in (of_quota(pod("x"), "c"), of_quota(pod("x"), "gone"), pod("x")):
        assert list(pod_creation(allowed.build(), known, NO_GATES)) == []
    gate = QuotaGates(support_parent_quota_submit_pod=True)
    assert list(pod_creation(of_quota(pod("x"), "p").build(), known, gate)) == []


def test_whether_a_pod_is_preemptible_stays() -> None:
    before, after = pod("x").build(), pod("x").label(PREFIX + "preemptible", "false").build()
    assert [refusal.message for refusal in pod_change(before, after, topology(), NO_GATES)] == [
        "Preemptible label is forbidden modify now."
    ]
    assert list(pod_change(after, after, topology(), NO_GATES)) == []


# Quota admission


def test_quota_admission_concerns_pods_of_quotas_that_are_not_built_in() -> None:
    gate, quotas = QuotaGates(enable_quota_admission=True), [quota("a"), quota("b"), quota("b", namespace="other")]
    known = topology(*quotas)
    assert quota_for_admission(of_quota(pod("x"), "a").build(), quotas, known, gate) == quotas[0]
    assert quota_for_admission(of_quota(pod("x"), "a").build(), quotas, known, NO_GATES) is None
    assert quota_for_admission(pod("x").build(), quotas, known, gate) is None
    assert quota_for_admission(of_quota(pod("x"), "gone").build(), quotas, known, gate) == "elastic quota gone not found"
    assert quota_for_admission(of_quota(pod("x"), "b").build(), quotas, known, gate) == "more than one elastic quota b found"


def admitting(child_request: str = "", admission: str = "", **most: str) -> ElasticQuota:
    annotations = {"child-request": child_request, "admission": admission}
    return quota("a", most=most, namespace="ns", annotations={key: text for key, text in annotations.items() if text})


def test_an_admitted_pod_is_counted_in_the_child_request() -> None:
    asks = pod("x").cpu("1500m").memory("1Gi").request("example.com/x", 2).build()
    assert admitted_child_request(admitting(cpu="2", memory="4Gi"), asks) == '{"cpu":"1500m","memory":"1Gi"}'
    assert admitted_child_request(admitting('{"cpu": "500m", "old": 1}', cpu="2"), asks) == '{"cpu":"2","old":"1"}'


def test_a_pod_that_exceeds_what_its_quota_admits_is_refused() -> None:
    asks = pod("x").cpu("1500m").memory("1Gi").build()
    with pytest.raises(ValueError, match="exceeded quota: ns/a, requested: cpu=1500m, used: cpu=1, limited: cpu=2") as refused:
        admitted_child_request(admitting('{"cpu": "1", "memory": "9Gi"}', cpu="2", memory="10Gi"), asks)
    assert "memory" not in str(refused.value)
    with pytest.raises(ValueError, match="exceeded quota: ns/a, requested: cpu=1500m, used: , limited: cpu=1"):
        admitted_child_request(admitting(cpu="1", memory="10Gi"), asks)


def test_the_annotation_admission_stands_for_max() -> None:
    asks = pod("x").cpu("2").memory("1Gi").build()
    assert admitted_child_request(admitting(admission='{"cpu": "3"}', cpu="1", memory="0"), asks) == '{"cpu":"2","memory":"1Gi"}'
    assert admitted_child_request(admitting(admission="{}", cpu="2"), asks) == '{"cpu":"2"}'
    with pytest.raises(ValueError, match="limited: cpu=1"):
        admitted_child_request(admitting(admission='{"cpu": "1"}', cpu="9"), asks)
    with pytest.raises(ValueError, match="sh/admission: "):
        admitted_child_request(admitting(admission="{", cpu="9"), asks)


def test_a_pod_that_asks_for_nothing_that_counts_needs_no_admission() -> None:
    assert admitted_child_request(admitting(cpu="0"), pod("x").memory("1Gi").build()) is None
    assert admitted_child_request(admitting(cpu="0"), pod("x").cpu("0").build()) is None
    ended = pod("x").cpu("1").build()
    assert admitted_child_request(admitting(cpu="0"), replace(ended, status=replace(ended.status, phase="Failed"))) is None
    uncounted = quota("a", most={"example.com/x": "0"})
    assert admitted_child_request(uncounted, pod("x").request("example.com/x", 1).build()) is None


# Trees

GATE = QuotaGates(multi_quota_tree=True)
TREE = topology(
    quota("root", tree_id="t", is_root="true"),
    quota("a", parent="root", tree_id="t"),
    quota("plain"),
    quota("listing", tree_id="u", annotations={"namespaces": '["shop"]'}),
)
POOL = profile("pool", "t", matchLabels={"pool": "a", "arch": "x"}, matchExpressions=[{"key": "gpu", "operator": "Exists"}])
ADDED = (requirement("arch", "In", "x"), requirement("pool", "In", "a"), requirement("gpu", "Exists"))


def required(affinity: Affinity | None) -> list[tuple[object, ...]]:
    assert affinity is not None
    assert affinity.node_affinity is not None
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert selector is not None
    return [term.match_expressions for term in selector.node_selector_terms]


def test_a_new_pod_is_kept_to_the_nodes_of_its_tree() -> None:
    assert required(affinity_of_tree(of_quota(pod("x"), "a").build(), TREE, [POOL], GATE)) == [ADDED]


def test_the_nodes_of_a_tree_become_part_of_every_required_term() -> None:
    own = requirement("zone", "In", "z")
    wants = of_quota(pod("x"), "a").requires(own).requires(requirement("disk", "Exists")).build()
    made = affinity_of_tree(wants, TREE, [POOL], GATE)
    assert required(made) == [(own, *ADDED), (requirement("disk", "Exists"), *ADDED)]
    empty = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector()))
    none = of_quota(pod("x"), "a").build()
    none = replace(none, spec=replace(none.spec, affinity=empty))
    assert required(affinity_of_tree(none, TREE, [POOL], GATE)) == [ADDED]
    by_name = NodeSelectorTerm(match_fields=(requirement("metadata.name", "In", "n"),))
    kept = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector((by_name,))))
    made = affinity_of_tree(replace(none, spec=replace(none.spec, affinity=kept)), TREE, [POOL], GATE)
    assert made is not None
    assert made.node_affinity is not None
    assert made.node_affinity.required_during_scheduling_ignored_during_execution == NodeSelector(
        (replace(by_name, match_expressions=ADDED),)
    )


def test_pods_without_a_tree_or_its_profile_go_anywhere() -> None:
    in_tree = of_quota(pod("x"), "a").build()
    assert affinity_of_tree(in_tree, TREE, [POOL], NO_GATES) is None
    assert affinity_of_tree(of_quota(pod("x"), "plain").build(), TREE, [POOL], GATE) is None
    assert affinity_of_tree(of_quota(pod("x"), "gone").build(), TREE, [POOL], GATE) is None
    assert affinity_of_tree(in_tree, TREE, [profile("other", "u")], GATE) is None
    without = replace(POOL, spec=replace(POOL.spec, node_selector=None))
    assert affinity_of_tree(in_tree, TREE, [without], GATE) is None


def test_the_namespace_leads_to_a_tree_too_and_the_first_profile_of_a_tree_counts() -> None:
    profiles = [profile("z", "u", matchLabels={"pool": "z"}), profile("b", "u", matchLabels={"pool": "b"})]
    assert required(affinity_of_tree(pod("x", "shop").build(), TREE, profiles, GATE)) == [(requirement("pool", "In", "b"),)]
    assert required(affinity_of_tree(pod("x", "a").build(), TREE, [POOL], GATE)) == [ADDED]
