"""What a pod asks for, against a second formulation: the largest need over the moments of the pod's life."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koordsched.api.core import Pod
from koordsched.api.resources import pod_resources

RESOURCES = ("cpu", "memory", "example.com/gpu")

quantities = st.sampled_from(["0", "1", "3", "250m", "0.5m", "1500u", "1Gi", "0.1", 2, 0.5])
requests = st.dictionaries(st.sampled_from(RESOURCES), quantities)
containers = st.builds(lambda asked: {"resources": {"requests": asked}}, requests)
init_containers = st.builds(lambda c, sidecar: c | ({"restartPolicy": "Always"} if sidecar else {}), containers, st.booleans())
specs = st.fixed_dictionaries(
    {
        "containers": st.lists(containers, min_size=1, max_size=3),
        "initContainers": st.lists(init_containers, max_size=4),
        "overhead": requests,
    }
)

AMOUNTS = {"m": Fraction(1, 1000), "u": Fraction(1, 10**6), "Gi": Fraction(2**30), "": Fraction(1)}


def amount(quantity: Any) -> Fraction:
    text = str(quantity)
    suffix = next(suffix for suffix in AMOUNTS if text.endswith(suffix))
    return Fraction(text.removesuffix(suffix)) * AMOUNTS[suffix]


def need(spec: dict[str, Any], resource: str, default: Fraction) -> int:
    def asked(container: dict[str, Any]) -> Fraction:
        found = container["resources"]["requests"]
        return amount(found[resource]) if resource in found else default

    moments = []
    sidecars = Fraction(0)
    for init in spec["initContainers"]:
        moments.append(sidecars + asked(init))
        if init.get("restartPolicy"):
            sidecars += asked(init)
    moments.append(sidecars + sum(map(asked, spec["containers"])))
    total = max(moments) + amount(spec["overhead"].get(resource, "0"))
    return math.ceil(total * 1000) if resource == "cpu" else math.ceil(total)


def made(spec: dict[str, Any]) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


@given(specs)
def test_a_pod_asks_for_the_most_that_it_needs_at_any_moment(spec: dict[str, Any]) -> None:
    found = pod_resources(made(spec), counted_on_node=False)
    assert found.requests == {name: need(spec, name, Fraction(0)) for name in RESOURCES if need(spec, name, Fraction(0))}
    assert found.scoring_cpu == found.nonzero_cpu == need(spec, "cpu", Fraction(1, 10))
    assert found.scoring_memory == found.nonzero_memory == need(spec, "memory", Fraction(200 * 2**20))


@given(specs)
def test_the_order_in_which_requests_are_written_does_not_matter(spec: dict[str, Any]) -> None:
    turned = msgspec.json.decode(msgspec.json.encode(spec))
    for container in [*turned["containers"], *turned["initContainers"]]:
        asked = container["resources"]["requests"]
        container["resources"]["requests"] = dict(reversed(asked.items()))
    one, other = (pod_resources(made(version), counted_on_node=False) for version in (spec, turned))
    assert one is other


@given(specs, specs)
def test_pods_share_one_answer_exactly_when_they_ask_for_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    left, right = (pod_resources(made(spec), counted_on_node=False) for spec in (one, other))
    assert (left is right) is (msgspec.structs.astuple(left) == msgspec.structs.astuple(right))


@given(specs)
def test_a_running_pod_without_status_resources_counts_as_the_incoming_one(spec: dict[str, Any]) -> None:
    pod = msgspec.convert({"spec": spec, "status": {"containerStatuses": [{"name": ""}]}}, Pod)
    assert pod_resources(pod, counted_on_node=True) == pod_resources(pod, counted_on_node=False)
