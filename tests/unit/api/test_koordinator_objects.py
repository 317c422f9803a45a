"""Koordinator's custom resources as Structs: field names and types are those of the CRDs, and what cannot be read is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from support.controlplane.definitions import definitions
from support.custom_resources import EXAMPLES, example

from koordsched.api import kinds
from koordsched.api.kinds import KINDS, Kind
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.meta import Object, Unstructured
from koordsched.api.validation import InvalidObject, decode

SCHEMAS: dict[tuple[str, str], Any] = {
    (f"{definition['spec']['group']}/{version['name']}", definition["spec"]["names"]["kind"]): version["schema"]["openAPIV3Schema"]
    for definition in definitions()
    for version in definition["spec"]["versions"]
}
HEAD = {"apiVersion", "kind", "metadata"}
KEPT_WHOLE = (inspect.AnyType, inspect.DictType)

UNREAD: dict[Kind, set[str]] = {
    kinds.DEVICE: {"status", "spec.devices.conditions.observedGeneration"},
    kinds.POD_GROUP: {"spec.minResources"},
    kinds.ELASTIC_QUOTA_PROFILE: {"status"},
    kinds.NODE_METRIC: {
        *(f"status.nodeMetric.{usage}.devices" for usage in ("nodeUsage", "systemUsage")),
        *(f"status.nodeMetric.{usages}.usage.devices" for usages in ("aggregatedNodeUsages", "aggregatedSystemUsages")),
        "status.podsMetric.podUsage.devices",
        "status.podsMetric.extensions",
        "status.hostApplicationMetric",
        "status.prodReclaimableMetric",
    },
    kinds.NODE_SLO: {"status", "spec.hostApplications.strategy", "spec.hostApplications.cgroupPath"},
    kinds.POD_MIGRATION_JOB: {
        "spec.reservationOptions.preemptionOptions",
        *(
            f"spec.deleteOptions.{field}"
            for field in ("apiVersion", "kind", "dryRun", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents")
        ),
    },
}
"""What the CRDs have and the scheduler does not look at; an object's fieldPath it never looks at."""


def compared(wanted: inspect.Type, schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield what differs between a Struct's field and the schema: its path, and how."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return  # any field of a pod template, or of koordlet's strategies
    if isinstance(wanted, inspect.UnionType):
        [wanted] = [option for option in wanted.types if not isinstance(option, inspect.NoneType)] if "type" in schema else [wanted]
    if isinstance(wanted, inspect.StructType):
        fields = {field.encode_name: field for field in wanted.fields}
        for name in fields.keys() - schema["properties"].keys() - HEAD:
            yield f"{path}.{name}".lstrip("."), "not in the schema"
        for name, below in schema["properties"].items():
            where = f"{path}.{name}".lstrip(".")
            if name in fields and not (not path and name in HEAD):
                yield from compared(fields[name].type, below, where)
            elif path or name not in HEAD:
                yield where, "not read"
    elif isinstance(wanted, inspect.VarTupleType):
        assert schema["type"] == "array", path
        yield from compared(wanted.item_type, schema["items"], path)
    elif isinstance(wanted, inspect.DictType) and "additionalProperties" in schema:
        yield from compared(wanted.value_type, schema["additionalProperties"], path)
    elif not isinstance(wanted, KEPT_WHOLE):
        expected = {
            inspect.StrType: "string",
            inspect.BoolType: "boolean",
            inspect.IntType: "integer",
            inspect.UnionType: "int-or-string",
        }[type(wanted)]
        found = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema["type"]
        if found != expected:
            yield path, f"{found}, read as {expected}"
        if isinstance(wanted, inspect.IntType):
            assert wanted.le == {"int32": 2**31 - 1, "int64": 2**63 - 1}[schema["format"]], path


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.kind)
def test_fields_are_those_of_the_crd(kind: Kind) -> None:
    schema = SCHEMAS[kind.api_version, kind.kind]
    found = {path: how for path, how in compared(inspect.type_info(kind.struct), schema) if not path.endswith(".fieldPath")}
    assert found == dict.fromkeys(UNREAD.get(kind, set()), "not read")


def test_every_kind_of_the_crds_but_nodes_topologies_is_typed() -> None:
    typed = {KINDS[key] for key in SCHEMAS if key in KINDS and KINDS[key].struct is not Unstructured}
    assert typed == set(EXAMPLES)
    assert {key for key in SCHEMAS if key not in KINDS} == {("topology.node.k8s.io/v1alpha2", "NodeResourceTopology")}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.kind)
def test_an_object_is_written_as_it_was_read(kind: Kind) -> None:
    body = example(kind)
    found = decode(kind, body)
    assert type(found) is kind.struct
    assert msgspec.json.decode(msgspec.json.encode(found)) == body
    assert msgspec.json.decode(msgspec.json.encode(body), type=kind.struct) == found


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.kind)
def test_an_object_may_say_nothing_but_its_name(kind: Kind) -> None:
    found: Object = decode(
        kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": None, "status": None}
    )
    assert (type(found), found.metadata.name) == (kind.struct, "x")


def test_a_reservation_that_says_nothing_is_for_one_owner_and_aligned_with_nothing() -> None:
    found = decode(kinds.RESERVATION, {"metadata": {"name": "r"}, "spec": {"allocateOnce": None}})
    assert isinstance(found, Reservation)
    spec = found.spec
    assert (spec.allocate_once, spec.allocate_policy, spec.pre_allocation, spec.pre_allocation_policy.mode) == (True, "", False, "Default")
    assert (spec.ttl, spec.expires, found.status.phase) == (None, None, "")


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        (
            kinds.POD_GROUP,
            {"spec": {"minMember": "3"}},
            'PodGroup "ns/x" is invalid: spec.minMember: Invalid value: "3": must be an integer',
        ),
        (
            kinds.NODE_METRIC,
            {"status": {"nodeMetric": {"nodeUsage": {"resources": {"cpu": [1]}}}}},
            'NodeMetric "x" is invalid: status.nodeMetric.nodeUsage.resources[cpu]: '
            "Invalid value: [1]: must be an integer or a number or a string",
        ),
        (
            kinds.DEVICE,
            {"spec": {"devices": [{"health": True, "topology": {"socketID": 0, "nodeID": 2**31, "pcieID": ""}}]}},
            'Device "x" is invalid: spec.devices[0].topology.nodeID: Invalid value: 2147483648: must be <= 2147483647',
        ),
        (
            kinds.RESERVATION,
            {"spec": {"template": {"spec": {"priority": "high"}}}},
            'Reservation "x" is invalid: spec.template.spec.priority: Invalid value: "high": must be an integer',
        ),
        (
            kinds.CLUSTER_NETWORK_TOPOLOGY,
            {"spec": {"networkTopologySpec": [{"labelKey": ["a"]}]}},
            'ClusterNetworkTopology "x" is invalid: spec.networkTopologySpec[0].topologyLayer: Required value: must be given',
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_object_path_and_value(kind: Kind, body: dict[str, Any], problem: str) -> None:
    metadata = {"name": "x", "namespace": "ns"} if kind.namespaced else {"name": "x"}
    with pytest.raises(InvalidObject) as caught:
        decode(kind, {"metadata": metadata, **body})
    assert str(caught.value) == problem
