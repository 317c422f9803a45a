"""Bytes of a kind into Structs: the fast path, nulls, and what cannot be read."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from koordsched.api.core import Pod
from koordsched.api.kinds import CSI_NODE, NODE, NODE_METRIC, NODE_RESOURCE_TOPOLOGY, POD, RESERVATION
from koordsched.api.meta import Unstructured
from koordsched.api.storage import CSINode
from koordsched.cluster.apiserver.decoding import ITEMS_A_TURN, KindDecoder
from koordsched.cluster.apiserver.watch import LineBuffer
from koordsched.cluster.port import ADDED, BOOKMARK, DELETED, MODIFIED


def pod(name: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "web", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def line(event_type: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": event_type, "object": obj}) + b"\n"


def page(*items: Any) -> bytes:
    return msgspec.json.encode({"kind": "List", "metadata": {"resourceVersion": "9"}, "items": items})


def test_events_of_whole_lines_are_decoded_in_order() -> None:
    batch = KindDecoder(POD).batch(line("ADDED", pod("a", "1")) + line("MODIFIED", pod("a", "2")) + line("DELETED", pod("a", "3")))
    assert [(event.type, event.object.metadata.resource_version) for event in batch.events] == [
        (ADDED, "1"),
        (MODIFIED, "2"),
        (DELETED, "3"),
    ]
    assert all(type(event.object) is Pod for event in batch.events)


async def test_nulls_where_lists_are_expected_count_as_absent() -> None:
    raw = {"metadata": {"name": "n"}, "spec": {"drivers": None}}
    listed = (await KindDecoder(CSI_NODE).page(page(raw))).items[0]
    watched = KindDecoder(CSI_NODE).batch(line("ADDED", raw)).events[0].object
    for node in (listed, watched):
        assert isinstance(node, CSINode)
        assert (node.api_version, node.kind, node.spec.drivers) == ("storage.k8s.io/v1", "CSINode", ())


def test_a_bookmark_carries_the_version_and_annotations_only() -> None:
    obj = {"kind": "Pod", "metadata": {"resourceVersion": "12", "annotations": {"a": "b"}}, "spec": {"containers": None}, "status": {}}
    [event] = KindDecoder(POD).batch(line("BOOKMARK", obj)).events
    assert event.type is BOOKMARK
    assert (event.object.metadata.resource_version, event.object.metadata.annotations) == ("12", {"a": "b"})


def test_an_error_event_ends_the_batch_after_what_came_before_it() -> None:
    error = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
    for kind in (POD, NODE, RESERVATION, NODE_RESOURCE_TOPOLOGY):
        batch = KindDecoder(kind).batch(line("ADDED", pod("a")) + line("ERROR", error) + line("ADDED", pod("b")))
        assert [event.object.metadata.name for event in batch.events] == ["a"]
        assert batch.status is not None
        assert (batch.status.code, batch.status.reason, batch.status.message) == (410, "Expired", "too old")


async def test_an_item_that_cannot_be_read_is_logged_with_path_and_value_and_left_out() -> None:
    with capture_logs() as logs:
        found = await KindDecoder(POD).page(page(pod("a"), pod("b", nodeName=5), pod("c")))
    assert [item.metadata.name for item in found.items] == ["a", "c"]
    assert found.unreadable == ["web/b"]
    assert [(log["kind"], log["object"]) for log in logs] == [("pods", "web/b")]
    assert logs[0]["error"] == 'Pod "web/b" is invalid: spec.nodeName: Invalid value: 5: must be a string'


async def test_a_page_is_decoded_in_slices() -> None:
    turns: list[int] = []

    async def count() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    items = (await KindDecoder(POD).page(page(*(pod(f"p{i}") for i in range(3 * ITEMS_A_TURN))))).items
    counting.cancel()
    assert len(items) == 3 * ITEMS_A_TURN
    assert len(turns) == 2  # one turn of the others after each slice but the last


def test_an_event_whose_object_cannot_be_read_still_moves_the_version() -> None:
    lines = line("ADDED", pod("a", "1")) + line("MODIFIED", pod("b", "2", nodeName=5)) + line("MODIFIED", pod("a", "3"))
    unreadable: Counter[str] = Counter()
    with capture_logs() as logs:
        events = KindDecoder(POD, unreadable).batch(lines).events
    assert unreadable == {"pods": 1}
    assert [(event.type, event.object.metadata.resource_version) for event in events] == [(ADDED, "1"), (BOOKMARK, "2"), (MODIFIED, "3")]
    assert [log["object"] for log in logs] == ["web/b"]


def test_a_deletion_that_cannot_be_read_ends_the_watch_because_history_is_not_whole() -> None:
    with capture_logs():
        batch = KindDecoder(POD).batch(line("ADDED", pod("a")) + line("DELETED", pod("b", "2", nodeName=5)) + line("ADDED", pod("c", "3")))
    assert [event.object.metadata.name for event in batch.events] == ["a"]
    assert batch.lost == 'pods "web/b" was deleted, but how it was last cannot be read'


@pytest.mark.parametrize(
    "malformed", [b"{\n", b'"x"\n', b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":7}\n', b'{"type":"NEW","object":{}}\n']
)
@pytest.mark.parametrize("kind", [POD, RESERVATION, NODE_RESOURCE_TOPOLOGY])
def test_a_line_that_is_no_event_is_logged_and_left_out(malformed: bytes, kind: Any) -> None:
    with capture_logs() as logs:
        events = KindDecoder(kind).batch(line("ADDED", pod("a")) + malformed + b"\n" + line("ADDED", pod("b"))).events
    assert [event.object.metadata.name for event in events] == ["a", "b"]
    assert logs


def test_an_event_of_an_unknown_type_moves_the_version() -> None:
    with capture_logs() as logs:
        [event] = KindDecoder(POD).batch(line("RENAMED", pod("a", "4"))).events
    assert (event.type, event.object.metadata.resource_version) == (BOOKMARK, "4")
    assert logs[0]["type"] == "RENAMED"


def test_an_unstructured_object_keeps_its_json() -> None:
    kind = NODE_RESOURCE_TOPOLOGY
    raw = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "r"}, "spec": {"a": [1, {"b": 2}]}}
    decoder = KindDecoder(kind)
    [event] = decoder.batch(line("ADDED", raw)).events
    for obj in (event.object, decoder.object(msgspec.json.encode(raw))):
        assert isinstance(obj, Unstructured)
        assert obj.raw == raw
        assert obj.metadata.name == "r"


def test_a_custom_resource_that_cannot_be_read_is_named_and_does_not_end_the_watch() -> None:
    def metric(name: str, version: str, cpu: Any) -> dict[str, Any]:
        usage = {"nodeUsage": {"resources": {"cpu": cpu}}}
        return {"metadata": {"name": name, "resourceVersion": version}, "status": {"nodeMetric": usage}}

    lines = line("ADDED", metric("n1", "1", "1")) + line("MODIFIED", metric("n2", "2", ["x"])) + line("ADDED", metric("n3", "3", 2))
    with capture_logs() as logs:
        events = KindDecoder(NODE_METRIC).batch(lines).events
    assert [(event.type.value, event.object.metadata.resource_version) for event in events] == [
        ("ADDED", "1"),
        ("BOOKMARK", "2"),
        ("ADDED", "3"),
    ]
    [seen] = logs
    assert (seen["kind"], seen["object"]) == ("nodemetrics.slo.koordinator.sh", "n2")
    assert 'status.nodeMetric.nodeUsage.resources[cpu]: Invalid value: ["x"]: must be' in seen["error"]


def test_an_unstructured_object_does_not_keep_who_wrote_its_fields() -> None:
    raw = {"metadata": {"name": "r", "managedFields": [{"manager": "kubectl"}]}, "spec": {"a": 1}}
    found = KindDecoder(NODE_RESOURCE_TOPOLOGY).object(msgspec.json.encode(raw))
    assert isinstance(found, Unstructured)
    assert (found.raw["metadata"], found.raw["spec"]) == ({"name": "r"}, {"a": 1})


def test_lines_are_put_together_wherever_they_were_cut() -> None:
    text = b"one\ntwo\nthree\n"
    for size in range(1, len(text) + 1):
        buffer = LineBuffer(100)
        pieces = [buffer.feed(text[start : start + size]) for start in range(0, len(text), size)]
        assert b"".join(pieces) == text
        assert all(piece.endswith(b"\n") for piece in pieces if piece)


def test_a_line_without_an_end_is_kept_back() -> None:
    buffer = LineBuffer(100)
    assert [buffer.feed(b"a\nb"), buffer.feed(b""), buffer.feed(b"c"), buffer.feed(b"\n")] == [b"a\n", b"", b"", b"bc\n"]
