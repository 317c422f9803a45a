"""What the embedded cluster does with custom resources; tests/e2e/test_custom_resources.py says that an API server does the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.custom_resources import COMPLETED, EXAMPLES, REFUSED, TIME, Json, device, quota, reservation

from koordsched import crds
from koordsched.api.kinds import (
    CLUSTER_COLOCATION_PROFILE,
    DEVICE,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_PROFILE,
    KINDS,
    NODE_METRIC,
    NODE_RESOURCE_TOPOLOGY,
    NODE_SLO,
    POD_GROUP,
    RESERVATION,
    Kind,
)
from koordsched.cluster.memory.schemas import Schema, definition_of
from koordsched.cluster.port import Invalid, NotFound, Patch, PatchType, Ref

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster

STATUS_WITHIN = {DEVICE, POD_GROUP, ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE, NODE_RESOURCE_TOPOLOGY}
RESERVED = "Reservation.scheduling.koordinator.sh"
X = Ref(RESERVATION, "", "x")
GROUP = Ref(POD_GROUP, "default", "x")
METRIC = Ref(NODE_METRIC, "", "x")


@pytest.mark.parametrize(
    ("why", "message"),
    [
        ("a field is missing", f'{RESERVED} "x" is invalid: spec.owners: Required value'),
        (
            "a list is too short",
            f'{RESERVED} "x" is invalid: spec.owners: Invalid value: 0: spec.owners in body should have at least 1 items',
        ),
        (
            "an item says nothing",
            f'{RESERVED} "x" is invalid: spec.owners[0]: Invalid value: 0: spec.owners[0] in body should have at least 1 properties',
        ),
        (
            "not one of the values",
            f'{RESERVED} "x" is invalid: spec.allocatePolicy: Unsupported value: "Sometimes": supported values: "Aligned", "Restricted"',
        ),
        (
            "a text for a number",
            'PodGroup.scheduling.sigs.k8s.io "x" is invalid: spec.minMember: Invalid value: "string": '
            'spec.minMember in body must be of type integer: "string"',
        ),
        (
            "a text that is too long",
            'Device.scheduling.koordinator.sh "x" is invalid: spec.devices[0].conditions[0].type: Too long: may not be more than 316 bytes',
        ),
        (
            "a topology without policies",
            'NodeResourceTopology.topology.node.k8s.io "x" is invalid: topologyPolicies: Required value',
        ),
    ],
)
async def test_what_is_refused_is_named_with_path_value_and_rule(cluster: MemoryCluster, why: str, message: str) -> None:
    kind, body = REFUSED[why]
    with pytest.raises(Invalid) as refused:
        await cluster.create(kind, body)
    assert refused.value.message == message


@pytest.mark.parametrize("why", REFUSED)
async def test_what_is_refused_leaves_nothing(cluster: MemoryCluster, why: str) -> None:
    kind, body = REFUSED[why]
    with pytest.raises(Invalid):
        await cluster.create(kind, body)
    assert cluster.raws(kind) == []


async def spec_of(cluster: MemoryCluster, why: str) -> Json:
    kind, body = COMPLETED[why]
    await cluster.create(kind, body)
    [raw] = cluster.raws(kind)
    found: Json = raw["spec"]
    return found


async def test_defaults_are_filled_in(cluster: MemoryCluster) -> None:
    assert await spec_of(cluster, "defaults of a Reservation") == {**reservation()["spec"], "ttl": "24h", "allocateOnce": True}


async def test_defaults_of_a_part_come_with_the_part(cluster: MemoryCluster) -> None:
    spec = await spec_of(cluster, "defaults in a given part")
    assert spec["preAllocationPolicy"] == {"mode": "Default", "enableMultiple": False}


async def test_a_null_is_absent_and_makes_room_for_the_default(cluster: MemoryCluster) -> None:
    spec = await spec_of(cluster, "a null where a default is")
    assert (spec["ttl"], spec["allocateOnce"], "expires" in spec) == ("24h", True, False)


async def test_unknown_fields_go(cluster: MemoryCluster) -> None:
    assert "colour" not in await spec_of(cluster, "an unknown field")
    assert "more" not in cluster.raw(X)


async def test_a_part_that_may_say_anything_is_kept_as_it_is(cluster: MemoryCluster) -> None:
    kept = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": None, "anything": {"deep": None}}}
    assert (await spec_of(cluster, "nulls and unknown fields where anything is kept"))["template"] == kept


async def test_a_template_that_is_no_pods_is_refused_here_since_it_cannot_be_read(cluster: MemoryCluster) -> None:
    with pytest.raises(
        Invalid, match=r'Reservation.* "x" is invalid: spec.template.spec.priority: Invalid value: "high": must be an integer'
    ):
        await cluster.create(RESERVATION, reservation(template={"spec": {"priority": "high"}}))


async def test_whole_numbers_lose_their_point(cluster: MemoryCluster) -> None:
    assert (await spec_of(cluster, "whole numbers with a point"))["minMember"] == 3


async def test_a_status_of_its_own_is_written_to_its_own_resource_only(cluster: MemoryCluster) -> None:
    await cluster.create(NODE_METRIC, {"metadata": {"name": "x"}, "spec": {}, "status": {"updateTime": TIME}})
    assert "status" not in cluster.raw(METRIC)
    await cluster.patch(METRIC, Patch({"spec": {"a": 1}, "status": {"updateTime": TIME}}, subresource="status"))
    assert (cluster.raw(METRIC)["spec"], cluster.raw(METRIC)["status"]) == ({}, {"updateTime": TIME})
    await cluster.patch(METRIC, Patch({"metadata": {"labels": {"a": "b"}}, "status": None}))
    assert cluster.raw(METRIC)["status"] == {"updateTime": TIME}
    assert cluster.raw(METRIC)["metadata"]["generation"] == 1


async def test_a_status_that_is_part_of_the_object_is_written_with_it(cluster: MemoryCluster) -> None:
    await cluster.create(POD_GROUP, quota(spec={"minMember": 2}, status={"phase": "Pending"}))
    assert cluster.raw(GROUP)["status"] == {"phase": "Pending"}
    with pytest.raises(NotFound, match=r'podgroups.scheduling.sigs.k8s.io "x" not found'):
        await cluster.patch(GROUP, Patch({"status": {"phase": "Running"}}, subresource="status"))
    await cluster.patch(GROUP, Patch({"status": {"phase": "Running"}}))
    assert cluster.raw(GROUP)["status"] == {"phase": "Running"}
    assert cluster.raw(GROUP)["metadata"]["generation"] == 2


async def test_a_refused_status_changes_nothing(cluster: MemoryCluster) -> None:
    await cluster.create(NODE_METRIC, {"metadata": {"name": "x"}})
    before = cluster.raw(METRIC)
    with pytest.raises(Invalid) as refused:
        await cluster.patch(METRIC, Patch({"status": {"updateTime": "noon"}}, subresource="status"))
    assert refused.value.message == (
        'NodeMetric.slo.koordinator.sh "x" is invalid: status.updateTime: Invalid value: "noon": '
        'updateTime in body must be of type date-time: "noon"'
    )
    assert cluster.raw(METRIC) is before


async def test_a_patch_that_says_what_is_there_already_makes_no_new_version(cluster: MemoryCluster) -> None:
    await cluster.create(RESERVATION, reservation())
    before = cluster.raw(X)
    await cluster.patch(X, Patch({"spec": {"ttl": None, "colour": "red"}}))  # the default takes the place of what is taken away
    assert cluster.raw(X) == before
    assert cluster.raw(X)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_custom_resources_take_no_strategic_patches_and_no_update_without_a_version(cluster: MemoryCluster) -> None:
    await cluster.create(RESERVATION, reservation())
    with pytest.raises(Invalid, match="unknown format"):
        await cluster.patch(X, Patch({"spec": {"ttl": "1h"}}, PatchType.STRATEGIC))
    with pytest.raises(Invalid, match=r"metadata.resourceVersion: Invalid value: 0: must be specified for an update"):
        await cluster.update(X, reservation(ttl="1h"))
    version = cluster.raw(X)["metadata"]["resourceVersion"]
    await cluster.update(X, {**reservation(ttl="1h"), "metadata": {"name": "x", "resourceVersion": version}})
    assert cluster.raw(X)["spec"]["ttl"] == "1h"


async def test_equal_parts_of_many_objects_are_looked_at_and_kept_once(cluster: MemoryCluster) -> None:
    for name in ("a", "b"):
        await cluster.create(
            NODE_RESOURCE_TOPOLOGY, {"metadata": {"name": name}, "topologyPolicies": [], "zones": [{"name": "n", "type": "Node"}]}
        )
    first, second = cluster.raws(NODE_RESOURCE_TOPOLOGY)
    assert first["zones"] is second["zones"]


async def test_a_custom_resource_without_a_definition_is_kept_as_it_is(cluster: MemoryCluster) -> None:
    body: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"a": None, "b": 1}, "status": {"c": 2}}
    await cluster.create(CLUSTER_COLOCATION_PROFILE, body)
    [raw] = cluster.raws(CLUSTER_COLOCATION_PROFILE)
    assert (raw["spec"], raw["status"]) == (body["spec"], body["status"])


@pytest.mark.parametrize("kind", [*EXAMPLES, NODE_RESOURCE_TOPOLOGY], ids=lambda kind: kind.kind)
def test_every_keyword_of_the_definitions_is_known(kind: Kind) -> None:
    definition = definition_of(kind)
    assert definition is not None
    assert (
        definition.has_status is (kind not in {DEVICE, POD_GROUP, ELASTIC_QUOTA, NODE_RESOURCE_TOPOLOGY})
        or kind.kind == "ElasticQuotaProfile"
    )


def test_only_koordinators_kinds_have_definitions() -> None:
    defined = {kind for kind in KINDS.values() if definition_of(kind) is not None}
    assert defined == {*EXAMPLES, NODE_RESOURCE_TOPOLOGY}
    assert crds.read_definition(NODE_SLO.plural, "example.com") is None


def test_a_keyword_that_is_not_known_is_an_error_of_the_definition() -> None:
    with pytest.raises(ValueError, match="keywords of a schema that are not known here: maxProperties, uniqueItems"):
        Schema({"type": "array", "uniqueItems": True, "maxProperties": 2})
    with pytest.raises(ValueError, match="only an integer or a string"):
        Schema({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]})


async def test_an_object_of_another_version_of_a_definition_is_what_that_version_says(cluster: MemoryCluster) -> None:
    newer = Kind("topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies", False, NODE_RESOURCE_TOPOLOGY.struct)
    await cluster.create(newer, {"metadata": {"name": "x"}, "zones": []})  # topologyPolicies may be missing there
    with pytest.raises(Invalid, match="must be of type boolean"):
        await cluster.create(DEVICE, device(health="yes"))
