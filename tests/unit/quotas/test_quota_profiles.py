"""The root quota that a profile makes of nodes (elasticquota.md §14, §19.33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec.structs import replace
from support.builders import node
from support.quotas import quota

from koordsched.api.core import NodeCondition
from koordsched.api.kinds import ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE
from koordsched.api.koordinator.quota_definitions import PREFIX
from koordsched.api.selectors import SelectorError
from koordsched.api.validation import decode
from koordsched.quotas.profiles import profile_refusals, profile_writes, tree_of

if TYPE_CHECKING:
    from koordsched.api.core import Node
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile

MOST = "4611686018427387"  # MaxInt64 / 2000


def profile(*, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> ElasticQuotaProfile:
    metadata = {"name": "pool", "namespace": "ops", "labels": labels or {}, "annotations": annotations or {}}
    spec = {"quotaName": "pool-root", "nodeSelector": {"matchLabels": {"pool": "a"}}, **spec}
    body = {"apiVersion": ELASTIC_QUOTA_PROFILE.api_version, "kind": "ElasticQuotaProfile", "metadata": metadata, "spec": spec}
    return cast("ElasticQuotaProfile", decode(ELASTIC_QUOTA_PROFILE, body))


def ready(name: str, *, status: str = "True", cordoned: bool = False, **allocatable: str) -> Node:
    made = node(name).label("pool", "a").build()
    given = replace(made.status, allocatable=allocatable, conditions=(NodeCondition(type="Ready", status=status),))
    return replace(made, status=given, spec=replace(made.spec, unschedulable=cordoned))


def made_of(writes: Any) -> ElasticQuota:
    assert writes.create is not None
    return cast("ElasticQuota", decode(ELASTIC_QUOTA, writes.create))


def test_half_of_7_and_of_9_cores_one_of_them_cordoned() -> None:
    nodes = [ready("n1", cpu="7"), ready("n2", cpu="9", cordoned=True)]
    made = made_of(profile_writes(profile(resourceRatio="0.5", labels={PREFIX + "tree-id": "t"}), nodes, None))
    assert made.metadata.annotations == {PREFIX + "total-resource": '{"cpu":"8"}', PREFIX + "unschedulable-resource": '{"cpu":"4500m"}'}
    assert made.spec.min == {"cpu": "8", "memory": "0"}
    assert made.spec.max == {"cpu": MOST, "memory": MOST}


def test_the_quota_is_the_root_of_the_profiles_tree() -> None:
    writes = profile_writes(profile(quotaLabels={PREFIX + "is-parent": "true", PREFIX + "tree-id": "mine"}), [], None)
    made = made_of(writes)
    assert (made.metadata.namespace, made.metadata.name) == ("ops", "pool-root")
    assert made.metadata.labels == {
        PREFIX + "is-parent": "true",
        PREFIX + "profile": "pool",
        PREFIX + "tree-id": "9537950906163892098",
        PREFIX + "is-root": "true",
    }
    assert writes.profile_labels == {PREFIX + "tree-id": "9537950906163892098"}
    named = profile(labels={PREFIX + "tree-id": "t"})
    assert (tree_of(named), profile_writes(named, [], None).profile_labels) == ("t", None)


def test_nodes_that_are_not_selected_do_not_count_and_those_not_ready_count_as_unschedulable() -> None:
    other = node("n4").cpu("100").build()
    nodes = [
        ready("n1", cpu="1500m", memory="2Gi"),
        ready("n2", status="Unknown", cpu="2", memory="1Gi"),
        replace(ready("n3", cpu="4"), status=replace(ready("n3", cpu="4").status, conditions=())),
        other,
    ]
    made = made_of(profile_writes(profile(), nodes, None))
    assert made.metadata.annotations[PREFIX + "total-resource"] == '{"cpu":"7500m","memory":"3Gi"}'
    assert made.metadata.annotations[PREFIX + "unschedulable-resource"] == '{"cpu":"6","memory":"1Gi"}'


def test_a_ratio_cuts_off_and_one_that_is_none_counts_as_1() -> None:
    nodes = [ready("n1", cpu="1", memory="1001", gpu="3")]
    totals = {
        ratio: made_of(profile_writes(profile(resourceRatio=ratio), nodes, None)).metadata.annotations[PREFIX + "total-resource"]
        for ratio in ("0.3333", "1", "0", "1.5", "-1", "half", "nan", "1e-1", " 0.5")
    }
    whole = '{"cpu":"1","gpu":"3","memory":"1001"}'
    assert totals == {
        "0.3333": '{"cpu":"333m","gpu":"0","memory":"333"}',
        "1e-1": '{"cpu":"100m","gpu":"0","memory":"100"}',
        **dict.fromkeys(("1", "0", "1.5", "-1", "half", "nan", " 0.5"), whole),
    }


@pytest.mark.parametrize(
    ("text", "keys"), [('["gpu"]', ["gpu"]), ("[", ["cpu", "memory"]), ("null", []), ('["cpu","gpu"]', ["cpu", "gpu"])]
)
def test_the_profile_says_which_resources_are_limited(text: str, keys: list[str]) -> None:
    made = made_of(profile_writes(profile(annotations={PREFIX + "resource-keys": text}), [ready("n", cpu="1", gpu="2")], None))
    assert list(made.spec.max) == list(made.spec.min) == keys
    assert made.spec.min.get("gpu", "2") == "2"


def test_a_quota_that_is_right_is_not_written() -> None:
    nodes = [ready("n1", cpu="7", memory="1Gi")]
    there = made_of(profile_writes(profile(), nodes, None))
    writes = profile_writes(profile(), nodes, there)
    assert (writes.create, writes.patch) == (None, None)
    spelled = replace(there, spec=replace(there.spec, min={"cpu": "7000m", "memory": 1073741824}))
    assert profile_writes(profile(), nodes, spelled).patch is None


def test_only_what_differs_is_patched() -> None:
    there = quota("pool-root", most={"cpu": MOST, "disk": "1"}, least={"cpu": "3"}, namespace="ops", annotations={"runtime": "{}"}, x="y")
    writes = profile_writes(profile(labels={PREFIX + "tree-id": "t"}), [ready("n1", cpu="3")], there)
    assert writes.create is None
    assert writes.patch == {
        "metadata": {
            "labels": {PREFIX + "profile": "pool", PREFIX + "tree-id": "t", PREFIX + "is-root": "true"},
            "annotations": {PREFIX + "total-resource": '{"cpu":"3"}', PREFIX + "unschedulable-resource": "{}"},
        },
        "spec": {"min": {"memory": "0"}, "max": {"disk": None, "memory": MOST}},
    }


def test_a_node_selector_that_cannot_be_understood_is_an_error_and_none_selects_nothing() -> None:
    wrong = profile(nodeSelector={"matchExpressions": [{"key": "a", "operator": "Likes"}]})
    with pytest.raises(SelectorError):
        profile_writes(wrong, [], None)
    without = replace(profile(), spec=replace(profile().spec, node_selector=None))
    assert made_of(profile_writes(without, [ready("n", cpu="1")], None)).spec.min == {"cpu": "0", "memory": "0"}


def test_what_cannot_be_used_of_a_profile_is_named() -> None:
    wrong = profile(quotaName="", resourceRatio="1.1", annotations={PREFIX + "resource-keys": "cpu"})
    assert [refusal.path for refusal in profile_refusals(wrong)] == [
        "spec.quotaName",
        "spec.resourceRatio",
        f"metadata.annotations[{PREFIX}resource-keys]",
    ]
    right = profile(resourceRatio="0.9", annotations={PREFIX + "resource-keys": '["cpu"]'})
    assert list(profile_refusals(right)) == []
