"""What each verb becomes on the wire, whole: nothing of a call may change unseen."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koordsched.api.kinds import EVENT, LEASE, NODE, POD
from koordsched.cluster.apiserver.calls import Call, Calls, Label, Pool
from koordsched.cluster.apiserver.limiter import Priority
from koordsched.cluster.apiserver.settings import ConnectionSettings
from koordsched.cluster.port import Binding, Invalid, Patch, PatchType, Ref

CALLS = Calls(ConnectionSettings(request_timeout=3.0, list_timeout=70.4, max_silence=50.0))
P = Ref(POD, "team", "p")
LEADER = Ref(LEASE, "kube-system", "leader")
JSON = "application/json"
LISTING = {"label": Label("list", "pods"), "method": "GET", "path": "/api/v1/pods", "seconds": 70.4}


def expected(body: Any = None, **fields: Any) -> Call:
    return Call(body=None if body is None else msgspec.json.encode(body), **fields)


def test_a_page_of_a_list() -> None:
    asked = CALLS.list_page(POD, field_selector="a=b", limit=5, continue_token="c")  # no password
    assert asked == expected(**LISTING, query={"fieldSelector": "a=b", "limit": "5", "continue": "c"})
    assert CALLS.list_page(POD, field_selector="", limit=0, continue_token="") == expected(**LISTING)


def test_a_list_as_the_beginning_of_a_watch() -> None:
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "70",
    }
    assert CALLS.streaming_list(POD, field_selector="") == expected(**LISTING, query=query, silence=30.0)
    assert CALLS.streaming_list(POD, field_selector="x").query == {**query, "fieldSelector": "x"}


def test_a_watch_has_connections_of_its_own_and_no_limit_but_silence() -> None:
    query = {"watch": "true", "resourceVersion": "9", "allowWatchBookmarks": "true", "timeoutSeconds": "300", "fieldSelector": "x"}
    assert CALLS.watch(NODE, 299.7, resource_version="9", field_selector="x") == expected(
        label=Label("watch", "nodes"), method="GET", path="/api/v1/nodes", query=query, pool=Pool.WATCH, silence=60.0
    )


def test_reading_one_object() -> None:
    path = "/api/v1/namespaces/team/pods/p"
    assert CALLS.get(P) == expected(label=Label("get", "pods"), method="GET", path=path, seconds=3.0)
    assert CALLS.get(LEADER).pool is Pool.LEASE


@pytest.mark.parametrize(("kind", "priority"), [(POD, Priority.HIGH), (EVENT, Priority.LOW)])
def test_a_creation_decides_nothing_and_events_come_last(kind: Any, priority: Priority) -> None:
    body = {"metadata": {"namespace": "team", "name": "x"}}
    assert CALLS.create(kind, body) == expected(
        {"apiVersion": kind.api_version, "kind": kind.kind, **body},
        label=Label("create", kind.plural),
        method="POST",
        path=f"{'/apis/events.k8s.io/v1' if kind is EVENT else '/api/v1'}/namespaces/team/{kind.plural}",
        content_type=JSON,
        priority=priority,
        seconds=3.0,
    )


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": {"namespace": ""}}])
def test_what_names_no_namespace_is_not_created(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=r"^pods: metadata\.namespace: Required value: must be given$"):
        CALLS.create(POD, body)
    assert CALLS.create(NODE, body).path == "/api/v1/nodes"


@pytest.mark.parametrize(
    ("ref", "subresource", "verb", "low", "decides"),
    [(P, "", "patch", False, True), (P, "status", "patch status", True, True), (Ref(EVENT, "team", "p"), "", "patch", True, False)],
)
def test_a_patch(ref: Ref, subresource: str, verb: str, *, low: bool, decides: bool) -> None:
    root = "/apis/events.k8s.io/v1" if ref.kind is EVENT else "/api/v1"
    assert CALLS.patch(ref, Patch({"a": 1}, PatchType.MERGE, subresource)) == expected(
        {"a": 1},
        label=Label(verb, ref.kind.plural),
        method="PATCH",
        path=f"{root}/namespaces/team/{ref.kind.plural}/p{'/' * bool(subresource)}{subresource}",
        content_type="application/merge-patch+json",
        priority=Priority.LOW if low else Priority.HIGH,
        seconds=3.0,
        decides=decides,
    )


def test_an_update_is_named_by_its_reference() -> None:
    body = {"metadata": {"resourceVersion": "5"}, "spec": {"holderIdentity": "me"}}
    named = {"name": "leader", "namespace": "kube-system", "resourceVersion": "5"}
    assert CALLS.update(LEADER, body) == expected(
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": named, "spec": {"holderIdentity": "me"}},
        label=Label("update", "leases"),
        method="PUT",
        path="/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader",
        content_type=JSON,
        pool=Pool.LEASE,
        seconds=3.0,
        decides=True,
    )
    assert msgspec.json.decode(CALLS.update(Ref(NODE, "", "n1"), {}).body or b"")["metadata"] == {"name": "n1"}


@pytest.mark.parametrize(
    ("uid", "grace", "options"),
    [("", None, {}), ("u", 0, {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0}), ("", 5, {"gracePeriodSeconds": 5})],
)
def test_a_deletion(uid: str, grace: int | None, options: dict[str, Any]) -> None:
    assert CALLS.delete(P, uid=uid, grace_period_seconds=grace) == expected(
        {"apiVersion": "v1", "kind": "DeleteOptions", **options},
        label=Label("delete", "pods"),
        method="DELETE",
        path="/api/v1/namespaces/team/pods/p",
        content_type=JSON,
        seconds=3.0,
        needs_answer=False,
        decides=True,
    )


@pytest.mark.parametrize("annotations", [{}, {"a": "1"}])
def test_a_binding_names_the_pods_uid_and_the_annotations_that_it_gets(annotations: dict[str, str]) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    metadata = {"name": "p", "namespace": "team", "uid": "u"} | ({"annotations": annotations} if annotations else {})
    assert CALLS.bind(Binding(namespace="team", name="p", uid="u", node="n1", annotations=annotations)) == expected(
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
        label=Label("bind", "pods"),
        method="POST",
        path="/api/v1/namespaces/team/pods/p/binding",
        content_type=JSON,
        pool=Pool.BIND,
        seconds=3.0,
        needs_answer=False,
        decides=True,
    )
