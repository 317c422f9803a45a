"""Each row of elasticquota.md §15 on quotas refuses what it is about and lets pass what is right (elasticquota.md §19.34)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.builders import pod
from support.quotas import of_quota, quota

from koordsched.api.koordinator.quota_definitions import PREFIX
from koordsched.quotas.defaults import QuotaDefaults, defaults_of
from koordsched.quotas.rules import QuotaGates, QuotaRefusal, QuotaRules, unread_refusals
from koordsched.quotas.topology import PodsOfQuotas, QuotaTopology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quotas import ElasticQuota

KEYS = "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: "
ROOT = "koordinator-root-quota"
PARENT = quota("p", most={"cpu": "40", "memory": "80Gi"}, least={"cpu": "10", "memory": "20Gi"}, is_parent="true")
CHILD = quota("c", most={"cpu": "40", "memory": "80Gi"}, least={"cpu": "6"}, parent="p")


def rules(*known: ElasticQuota, pods: Iterable[Pod] = (), gates: QuotaGates | None = None) -> QuotaRules:
    topology = QuotaTopology()
    for each in known:
        topology.set(each)
    return QuotaRules(topology, PodsOfQuotas(pods), gates or QuotaGates())


def messages(refusals: Iterable[QuotaRefusal]) -> list[str]:
    return [refusal.message for refusal in refusals]


def created(new: ElasticQuota, *known: ElasticQuota, gates: QuotaGates | None = None) -> list[str]:
    return messages(rules(*known, gates=gates).creation(new))


def changed(old: ElasticQuota, new: ElasticQuota, *known: ElasticQuota, pods: Iterable[Pod] = ()) -> list[str]:
    return messages(rules(old, *known, pods=pods).change(old, new))


# Its name and namespaces


def test_a_name_is_given_once() -> None:
    assert created(quota("a", namespace="other"), quota("a")) == ["AddQuota quota already exist:a"]
    assert created(quota("b", namespace="other"), quota("a")) == []


def test_a_namespace_is_listed_by_one_quota_only() -> None:
    lists = {"namespaces": '["x", "y"]'}
    assert created(quota("b", annotations={"namespaces": '["y"]'}), quota("a", annotations=lists)) == [
        "AddQuota quota b's annotation namespace y is already bound to quota a"
    ]
    assert created(quota("b", annotations={"namespaces": '["z"]'}), quota("a", annotations=lists)) == []
    assert changed(quota("b"), quota("b", annotations={"namespaces": '["x"]'}), quota("a", annotations=lists)) == [
        "UpdadteQuota, quota b update namespaces, but namespace x is already bound to quota a"
    ]
    assert changed(quota("a", annotations=lists), quota("a", annotations={"namespaces": '["y", "z"]'})) == []


@pytest.mark.parametrize("name", ["koordinator-system-quota", ROOT])
def test_the_system_and_the_root_quota_are_not_changed(name: str) -> None:
    assert changed(quota(name), quota(name, most={"cpu": "1"})) == [f"invalid quota {name}"]
    assert changed(quota("koordinator-default-quota"), quota("koordinator-default-quota", most={"cpu": "1"})) == []


def test_a_quota_that_is_changed_has_to_be_known() -> None:
    assert messages(rules().change(quota("a"), quota("a", most={"cpu": "1"}))) == ["UpdateQuota quota not exist in quotaInfoMap:a"]


def test_a_change_of_nothing_that_matters_passes_even_if_the_quota_is_wrong() -> None:
    wrong = quota("a", most={"cpu": "1"}, least={"cpu": "2"}, parent="gone")
    annotated = quota("a", most={"cpu": "1"}, least={"cpu": "2"}, parent="gone", annotations={"runtime": "{}", "shared-weight": "x"})
    assert changed(wrong, annotated) == []
    assert changed(wrong, quota("a", most={"cpu": "1"}, least={"cpu": "3"}, parent="gone")) != []


# Its amounts


def test_amounts_are_not_negative() -> None:
    assert created(quota("a", most={"memory": "-1", "cpu": "-2"})) == ["a quota.Spec.Max's value < 0, in dimensions :[cpu memory]"]
    assert created(quota("a", most={"cpu": "1"}, least={"cpu": "-1"})) == ["a quota.Spec.Min's value < 0, in dimensions :[cpu]"]
    weight = '{"memory": "-1", "cpu": "1"}'
    assert created(quota("a", most={"cpu": "1"}, annotations={"shared-weight": weight})) == [
        f"a quota.Annotation[{PREFIX}shared-weight]'s value < 0, in dimension :[memory]"
    ]
    assert created(quota("a", most={"cpu": "0"}, least={"cpu": "0"}, annotations={"shared-weight": '{"cpu": 0}'})) == []


def test_amounts_are_quantities() -> None:
    (refusal,) = rules().creation(quota("a", most={"cpu": "many"}))
    assert str(refusal) == (
        'spec.max[cpu]: "many" is not a quantity: expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent'
    )


def test_min_is_not_more_than_max() -> None:
    (refusal,) = rules().creation(quota("a", most={"cpu": "1500m"}, least={"cpu": 2}))
    assert refusal.message == "resourceKey cpu of quota a min 2 > max 1500m"
    assert str(refusal) == "spec.min[cpu]: Invalid value: 2: resourceKey cpu of quota a min 2 > max 1500m"
    assert created(quota("a", most={"cpu": "2000m"}, least={"cpu": 2})) == []


def test_min_names_no_resource_that_max_does_not_name() -> None:
    assert created(quota("a", most={"cpu": "1"}, least={"memory": "1"})) == [
        "resourceKey memory of quota a is included in min, which is not included in max"
    ]


def test_what_is_used_of_strict_resources_stays_within_max() -> None:
    def strict(most: dict[str, str], keys: str = '["cpu", "memory"]') -> list[str]:
        old = quota("a", most={"cpu": "9"}, annotations={"max-strict-check-resource-keys": keys})
        used = replace(old.status, used={"cpu": "3500m"})
        old = replace(old, status=used)
        return changed(old, replace(old, spec=replace(old.spec, max=most)))

    assert strict({"cpu": "3"}) == ["resourceKey cpu of quota a max 3 < used 3500m"]
    assert strict({"memory": "3"}) == [
        "resourceKey cpu of quota a is included in used, which is not included in max but should check max >= used"
    ]
    assert strict({"cpu": "3500m"}) == []
    assert strict({"cpu": "3"}, '["memory"]') == []  # nothing is used of it
    (text,) = strict({"cpu": "3"}, '"cpu"')
    assert text.startswith(f"a quota.Annotation[{PREFIX}max-strict-check-resource-keys]'s value is invalid: ")


# Its parent and its children


def test_a_quota_with_children_stays_a_parent() -> None:
    plain = replace(PARENT, metadata=replace(PARENT.metadata, labels={}))
    assert changed(PARENT, plain, CHILD) == ["quota has children, isParent is forbidden to modify as false, quotaName:p"]
    assert changed(PARENT, plain) == []


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (of_quota(pod("x"), "a"), "quota has bound pods, isParent is forbidden to modify as true, quotaName: a"),
        (pod("x", "a"), "quota has bound pods, isParent is forbidden to modify as true, quotaName: a"),
        (pod("x", "team"), "quota has bound pods, isParent is forbidden to modify as true, quotaName: a"),
        (of_quota(pod("x", "shop"), "b"), ""),
    ],
)
def test_a_quota_with_pods_becomes_no_parent(there: object, message: str) -> None:
    old = quota("a", annotations={"namespaces": '["team"]'})
    new = quota("a", annotations={"namespaces": '["team"]'}, is_parent="true")
    assert changed(old, new, pods=[there.build()]) == ([message] if message else [])  # type: ignore[attr-defined]


def test_the_tree_of_a_quota_stays() -> None:
    assert changed(quota("a", tree_id="t"), quota("a", tree_id="u")) == ["a tree id changed [t] vs [u]"]
    assert changed(quota("a", tree_id="t"), quota("a", tree_id="t", most={"cpu": "1"})) == []


def test_a_quota_is_in_the_tree_of_its_parent_and_of_its_children() -> None:
    parent = quota("p", tree_id="t", is_parent="true")
    assert created(quota("c", parent="p", tree_id="u"), parent) == ["c tree id is different from parent p, [u] vs [t]"]
    assert created(quota("p", tree_id="u", is_parent="true"), quota("c", parent="p", tree_id="t")) == [
        "p tree id is different from child c, [u] vs [t]"
    ]
    assert created(quota("c", parent="p", tree_id="t"), parent) == []


def test_a_parent_has_to_be_there_and_be_one() -> None:
    assert created(CHILD) == ["c has parentName p but not find parentInfo in quotaInfoMap"]
    plain = quota("p", most=PARENT.spec.max, least=PARENT.spec.min)
    assert created(CHILD, plain) == ["c has parentName p but the parentQuotaInfo's IsParent is false"]
    assert created(CHILD, PARENT) == []


def test_a_parent_and_its_children_limit_the_same_resources() -> None:
    child = quota("c", most={"cpu": "1"}, parent="p")
    assert created(child, PARENT) == [f"{KEYS}p's max keys are not the same with c's"]
    parent = quota("p", most={"cpu": "1", "memory": "1"}, is_parent="true")
    assert created(parent, quota("c", most={"cpu": "1"}, parent="p")) == [f"{KEYS}c's max keys are not the same with p's"]


def test_with_a_gate_a_child_may_limit_fewer_resources_than_its_parent() -> None:
    child = quota("c", most={"cpu": "1"}, parent="p")
    assert created(child, PARENT, gates=QuotaGates(update_resource_key=True)) == []
    more = quota("c", most={"cpu": "1", "gpu": "1"}, parent="p")
    assert created(more, PARENT, gates=QuotaGates(update_resource_key=True)) == [f"{KEYS}c's max keys are not all included in p's"]
    assert created(PARENT, more, gates=QuotaGates(update_resource_key=True)) == [f"{KEYS}c's max keys are not all included in p's"]


def test_min_of_a_child_names_no_resource_that_its_parents_does_not_name() -> None:
    parent = quota("p", most={"cpu": "9", "memory": "9"}, least={"cpu": "9"}, is_parent="true")
    child = quota("c", most={"cpu": "9", "memory": "9"}, least={"memory": "0"}, parent="p")
    assert created(child, parent) == [f"{KEYS}c's min keys are not all included in p's"]
    assert created(parent, child) == [f"{KEYS}c's min keys are not all included in p's"]


def test_children_have_no_more_min_together_than_their_parent() -> None:
    sibling = quota("d", most=CHILD.spec.max, least={"cpu": "5"}, parent="p")
    (refusal,) = rules(PARENT, CHILD).creation(sibling)
    assert refusal.message == "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: p"
    assert refusal.detail == "cpu: 11 > 10"
    assert created(replace(sibling, spec=replace(sibling.spec, min={"cpu": "4"})), PARENT, CHILD) == []
    less = replace(PARENT, spec=replace(PARENT.spec, min={"cpu": "5500m", "memory": "20Gi"}))
    assert changed(PARENT, less, CHILD) == ["checkMinQuotaSum all children's MinQuota > current MinQuota, current: p"]
    assert changed(PARENT, replace(PARENT, spec=replace(PARENT.spec, min={"cpu": "6"})), CHILD) == []


@pytest.mark.parametrize("label", ["allow_force_update", "is_root"])
def test_a_forced_quota_and_the_root_of_a_tree_need_no_min_of_their_parent(label: str) -> None:
    assert created(quota("d", most=CHILD.spec.max, least={"cpu": "40"}, parent="p"), PARENT, CHILD) != []
    assert (
        created(quota("d", most=CHILD.spec.max, least={"cpu": "40"}, parent="p", annotations=None, **{label: "true"}), PARENT, CHILD) == []
    )


def test_quotas_below_the_root_are_compared_with_no_parent() -> None:
    assert created(quota("a", most={"cpu": "9"}, least={"cpu": "9"}), quota("b", most={"memory": "1"})) == []
    assert created(quota("a", most={"cpu": "9"}, least={"cpu": "9"}, is_parent="true"), quota("b", most={"memory": "1"})) == []


def test_with_guarantees_an_ancestor_has_to_guarantee_a_min() -> None:
    def of_tree(name: str, guaranteed: str, least: str, **labels: str) -> ElasticQuota:
        annotations = {"guaranteed": f'{{"cpu": "{guaranteed}"}}'}
        return quota(name, most={"cpu": "90"}, least={"cpu": least}, annotations=annotations, tree_id="t", **labels)

    root = of_tree("r", "20", "20", is_parent="true", is_root="true")
    middle = of_tree("m", "8", "20", is_parent="true", parent="r")
    sibling = of_tree("s", "3", "3", parent="m")
    fits, large = (of_tree("a", "0", least, parent="m") for least in ("17", "18"))
    gate = QuotaGates(guarantee_usage=True)
    assert created(fits, root, middle, sibling, gates=gate) == []  # m would be guaranteed 17 + 3 = 20, as r is
    forced = replace(large, metadata=replace(large.metadata, labels={**large.metadata.labels, PREFIX + "allow-force-update": "true"}))
    assert created(forced, root, middle, sibling, gates=gate) == []
    assert messages(rules(root, middle, sibling, gates=gate).creation(large))[1:] == ["tree root quota r can't guarantee for min a"]
    outside = replace(large, metadata=replace(large.metadata, labels={}))
    assert created(outside, root, middle, sibling, gates=gate) == []
    covered = of_tree("a", "18", "17", parent="m")
    assert created(covered, root, middle, sibling, gates=gate) == []


# Deleting


def test_a_quota_with_children_or_pods_and_built_in_ones_are_not_deleted() -> None:
    pods = [of_quota(pod(name), "c").build() for name in ("y", "x")]
    assert messages(rules(PARENT, CHILD).deletion("p")) == ["delete quota failed, quota p has 1 child quotas"]
    assert messages(rules(CHILD, pods=pods).deletion("c")) == ["delete quota failed, quota c has 2 child pods: x, y"]
    more = [*pods, of_quota(pod("z"), "c").build()]
    assert messages(rules(CHILD, pods=more).deletion("c")) == ["delete quota failed, quota c has 3 child pods: x, y, ..."]
    assert messages(rules(PARENT).deletion("gone")) == ["not found quota:gone"]
    for name in (ROOT, "koordinator-system-quota", "koordinator-default-quota"):
        assert messages(rules(quota(name)).deletion(name)) == [f"can not delete quotaGroup :{name}"]
    assert messages(rules(CHILD, pods=[pod("x").build()]).deletion("c")) == []


def test_what_was_removed_is_not_known_any_more() -> None:
    topology = QuotaTopology()
    for each in (PARENT, CHILD, quota("a", annotations={"namespaces": '["x"]'})):
        topology.set(each)
    topology.remove("c")
    topology.remove("a")
    topology.remove("a")
    known = QuotaRules(topology, PodsOfQuotas(), QuotaGates())
    assert messages(known.deletion("p")) == []
    assert messages(known.creation(quota("b", annotations={"namespaces": '["x"]'}))) == []
    assert [each.name for each in topology] == ["p"]


# What the webhook lets pass


def test_a_quota_above_itself_and_texts_that_cannot_be_read_are_named() -> None:
    topology = QuotaTopology()
    for name, parent in (("a", "b"), ("b", "a"), ("c", "a")):
        topology.set(quota(name, parent=parent, is_parent="true"))
    assert messages(unread_refusals(quota("a", parent="b"), topology)) == ["the quota is its own ancestor"]
    assert messages(unread_refusals(quota("c", parent="a"), topology)) == []
    assert messages(unread_refusals(quota("d", parent="d"), topology)) == ["the quota is its own ancestor"]
    (refusal,) = unread_refusals(quota("e", annotations={"namespaces": "x"}), topology)
    assert (refusal.path, refusal.value) == (f"metadata.annotations[{PREFIX}namespaces]", "x")
    (refusal,) = unread_refusals(quota("e", annotations={"total-resource": '{"cpu": "x"}'}), topology)
    assert refusal.path == f"metadata.annotations[{PREFIX}total-resource][cpu]"


def test_a_circle_of_quotas_is_looked_at_once() -> None:
    circle = [
        quota(name, most={"cpu": "9"}, least={"cpu": "1"}, parent=parent, is_parent="true", tree_id="t")
        for name, parent in (("a", "b"), ("b", "a"))
    ]
    new = quota("c", most={"cpu": "9"}, least={"cpu": "2"}, parent="a", tree_id="t")
    assert created(new, *circle, gates=QuotaGates(guarantee_usage=True)) == [
        "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: a",
        "parent a not found c",
    ]


# Defaults


def filled_in(new: ElasticQuota, *known: ElasticQuota) -> tuple[dict[str, str], dict[str, str]]:
    topology = QuotaTopology()
    for each in known:
        topology.set(each)
    made = defaults_of(new, topology)
    assert isinstance(made, QuotaDefaults), made
    return made.labels, made.annotations


def test_a_new_quota_gets_the_root_as_parent_and_max_as_weight() -> None:
    assert filled_in(quota("a", most={"memory": "2048Mi", "cpu": "1500m"})) == (
        {PREFIX + "parent": ROOT},
        {PREFIX + "shared-weight": '{"cpu":"1500m","memory":"2Gi"}'},
    )
    assert filled_in(quota("a", most={"cpu": 1}, parent="p", annotations={"shared-weight": '{"cpu":"3"}'}), PARENT) == ({}, {})
    assert filled_in(quota(ROOT)) == ({}, {})


def test_a_new_quota_is_in_the_tree_of_its_parent() -> None:
    parent = quota("p", tree_id="t", is_parent="true")
    weight = {"shared-weight": "{}"}
    assert filled_in(quota("a", parent="p", annotations=weight), parent) == ({PREFIX + "tree-id": "t"}, {})
    assert filled_in(quota("a", parent="p", tree_id="u", annotations=weight), parent) == ({}, {})
    refused = defaults_of(quota("a", parent="gone"), QuotaTopology())
    assert isinstance(refused, QuotaRefusal)
    assert refused.message == "fill quota a failed, parent not exist"


def test_a_weight_has_the_resources_of_max() -> None:
    weight = {"shared-weight": '{"cpu": "3", "gpu": 1}'}
    _, annotations = filled_in(quota("a", most={"cpu": "1", "memory": "1Gi"}, annotations=weight))
    assert annotations == {PREFIX + "shared-weight": '{"cpu":"3","memory":"1Gi"}'}
    for text in ("{", '{"cpu": "x"}', "[]"):
        refused = defaults_of(quota("a", annotations={"shared-weight": text}), QuotaTopology())
        assert isinstance(refused, QuotaRefusal)
        assert refused.message.startswith("fillDefaultQuotaInfo unmarshal sharedWeight failed:")


def test_defaults_are_applied_beside_what_is_there() -> None:
    new = quota("a", most={"cpu": "1"}, is_parent="true", annotations={"x": "y"})
    made = defaults_of(new, QuotaTopology())
    assert isinstance(made, QuotaDefaults)
    applied = made.applied(new)
    assert applied.metadata.labels == {PREFIX + "is-parent": "true", PREFIX + "parent": ROOT}
    assert applied.metadata.annotations == {PREFIX + "x": "y", PREFIX + "shared-weight": '{"cpu":"1"}'}
