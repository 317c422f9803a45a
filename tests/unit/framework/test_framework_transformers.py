"""How transformers are applied: in order, to the objects that concern them, and what becomes of one that fails."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import node, pod

from koordsched.api.core import Namespace, Pod
from koordsched.api.kinds import NAMESPACE, NODE, POD
from koordsched.api.meta import ObjectMeta
from koordsched.framework.transformers import Transformer, Transformers


class Seen:
    """A transformer that writes down the objects it is called for, and labels them with its number."""

    def __init__(self, name: str, into: list[str]) -> None:
        self._name, self._into = name, into

    def __call__(self, obj: Any) -> Any:
        self._into.append(f"{self._name} {obj.metadata.name}")
        return obj


@pytest.fixture
def calls() -> list[str]:
    return []


def test_they_are_applied_in_the_order_in_which_they_are_listed(calls: list[str]) -> None:
    transformers = Transformers([Transformer(name=name, kind=POD, transform=Seen(name, calls)) for name in ("a", "b")])
    transformers.add(Transformer(name="c", kind=POD, transform=Seen("c", calls)))
    transform = transformers.of(POD)
    assert transform is not None
    transform(pod("p").build())
    assert calls == ["a p", "b p", "c p"]


def test_one_of_a_name_that_is_listed_already_is_left_out(calls: list[str]) -> None:
    transformers = Transformers([Transformer(name="a", kind=POD, transform=Seen("first", calls))])
    transformers.add(Transformer(name="a", kind=POD, transform=Seen("second", calls)))
    assert [each.name for each in transformers] == ["a"]


def test_only_objects_with_one_of_the_keys_are_looked_at(calls: list[str]) -> None:
    transform = Transformers(
        [
            Transformer(name="l", kind=POD, transform=Seen("l", calls), labels=frozenset({"label"})),
            Transformer(name="a", kind=POD, transform=Seen("a", calls), annotations=frozenset({"annotation"})),
            Transformer(name="r", kind=POD, transform=Seen("r", calls), resources=frozenset({"x/y"})),
        ]
    ).of(POD)
    assert transform is not None
    transform(pod("plain").cpu("1").label("app", "web").annotation("a", "b").init_container({"cpu": "1"}).overhead({"cpu": "1"}).build())
    assert calls == []
    labelled = pod("labelled").label("label", "").build()
    for each in (
        labelled,
        pod("annotated").annotation("annotation", "").build(),
        pod("requests").request("x/y", 1).build(),
        pod("init").init_container({"x/y": 1}).build(),
        pod("overhead").overhead({"x/y": 1}).build(),
    ):
        calls.clear()
        transform(each)
        assert calls == [f"{name} {each.metadata.name}" for name in "lar"]


def test_nodes_and_other_kinds_are_looked_at_alike(calls: list[str]) -> None:
    transformers = Transformers(
        [
            Transformer(name="node", kind=NODE, transform=Seen("node", calls), resources=frozenset({"x/y"}), labels=frozenset({"l"})),
            Transformer(name="namespace", kind=NAMESPACE, transform=Seen("namespace", calls), annotations=frozenset({"a"})),
        ]
    )
    of_node, of_namespace = transformers.of(NODE), transformers.of(NAMESPACE)
    assert of_node is not None
    assert of_namespace is not None
    of_node(node("plain").build())
    of_namespace(Namespace(metadata=ObjectMeta(name="plain")))
    assert calls == []
    of_node(node("labelled").label("l", "").build())
    of_node(node("offers").allocatable("x/y", "1").build())
    of_namespace(Namespace(metadata=ObjectMeta(name="annotated", annotations={"a": ""})))
    assert calls == ["node labelled", "node offers", "namespace annotated"]


def test_objects_of_other_kinds_have_no_resources_to_look_for(calls: list[str]) -> None:
    seen = Seen("namespace", calls)
    transform = Transformers([Transformer(name="n", kind=NAMESPACE, transform=seen, resources=frozenset({"x/y"}))]).of(NAMESPACE)
    assert transform is not None
    made = Namespace(metadata=ObjectMeta(name="plain"))
    assert transform(made) is made
    assert calls == []


def test_one_that_names_no_keys_is_called_for_every_object(calls: list[str]) -> None:
    transform = Transformers(
        [
            Transformer(name="l", kind=POD, transform=Seen("l", calls), labels=frozenset({"label"})),
            Transformer(name="all", kind=POD, transform=Seen("all", calls)),
        ]
    ).of(POD)
    assert transform is not None
    transform(pod("p").build())
    assert calls == ["l p", "all p"]


def test_one_that_fails_is_left_out_and_the_others_are_applied(calls: list[str], caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Pod) -> Pod:
        raise RuntimeError("no")

    transform = Transformers(
        [Transformer(name="bad", kind=POD, transform=fails), Transformer(name="good", kind=POD, transform=Seen("good", calls))]
    ).of(POD)
    assert transform is not None
    made = pod("p").build()
    assert transform(made) is made
    assert calls == ["good p"]


def test_one_that_fails_is_logged_with_the_object_and_its_kind() -> None:
    def fails(_: Any) -> Any:
        raise RuntimeError("no")

    of_pod = Transformers([Transformer(name="bad", kind=POD, transform=fails)]).of(POD)
    of_node = Transformers([Transformer(name="worse", kind=NODE, transform=fails)]).of(NODE)
    assert of_pod is not None
    assert of_node is not None
    with capture_logs() as logs:
        of_pod(pod("p", "team").build())
        of_node(node("n").build())
    assert [(said["transformer"], said["kind"], said["object"], said["log_level"], said["exc_info"]) for said in logs] == [
        ("bad", "Pod", "team/p", "error", True),
        ("worse", "Node", "n", "error", True),
    ]
    assert {said["event"] for said in logs} == {"a transformer failed and is left out"}


def test_a_kind_without_transformers_costs_nothing() -> None:
    assert Transformers().of(POD) is None
