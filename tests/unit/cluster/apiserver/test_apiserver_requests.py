"""What the verbs of the port send, and what they make of the answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from koordsched import __version__
from koordsched.api.core import Pod
from koordsched.api.kinds import EVENT, NODE, NODE_METRIC, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.api.meta import Unstructured
from koordsched.cluster.apiserver import RawRequest
from koordsched.cluster.port import Binding, Invalid, NotLeading, Patch, PatchType, Ref, TooManyRequests

if TYPE_CHECKING:
    from koordsched.cluster.apiserver import ApiServer

NGINX = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "nginx", "namespace": "web", "uid": "u1", "resourceVersion": "7"}}

NGINX_PATH = "/api/v1/namespaces/web/pods/nginx"


async def test_a_binding_is_posted_with_name_uid_and_node(api: ApiServer, server: Any) -> None:
    server.answers((201, {"kind": "Status", "status": "Success"}))
    await api.bind(Binding("web", "nginx", "u1", "node-1"))
    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/web/pods/nginx/binding")
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "nginx", "namespace": "web", "uid": "u1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    assert seen.headers["Content-Type"] == "application/json"


async def test_a_binding_whose_answer_is_malformed_is_done(api: ApiServer, server: Any) -> None:
    server.answers((201, b"<html>"))
    await api.bind(Binding("web", "nginx", "u1", "node-1"))


async def test_every_request_asks_for_uncompressed_json_and_says_who_sends_it(api: ApiServer, server: Any) -> None:
    server.answers((200, NGINX))
    await api.get(Ref(POD, "web", "nginx"))
    headers = server.seen[0].headers
    assert (headers["Accept"], headers["Accept-Encoding"]) == ("application/json", "identity")
    assert re.fullmatch(rf"koord-scheduler/v{re.escape(__version__)} \(\w+/\w+\)", headers["User-Agent"])
    assert "Authorization" not in headers


async def test_get_decodes_the_object(api: ApiServer, server: Any) -> None:
    server.answers((200, NGINX))
    pod = await api.get(Ref(POD, "web", "nginx"))
    assert isinstance(pod, Pod)
    assert (pod.api_version, pod.kind, pod.metadata.uid) == ("v1", "Pod", "u1")
    assert server.seen[0].path == "/api/v1/namespaces/web/pods/nginx"


async def test_names_are_quoted_in_paths(api: ApiServer, server: Any) -> None:
    server.answers((200, NGINX))
    await api.get(Ref(NODE, "", "a/../b?c"))
    assert server.seen[0].path == "/api/v1/nodes/a/../b?c"
    assert server.seen[0].query == {}


async def test_create_posts_into_the_namespace_of_the_body_and_names_the_kind(api: ApiServer, server: Any) -> None:
    server.answers((201, {"metadata": {"name": "e", "namespace": "web"}, "reason": "Scheduled"}))
    created = await api.create(EVENT, {"metadata": {"name": "e", "namespace": "web"}, "reason": "Scheduled"})
    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/web/events")
    assert seen.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "web"},
        "reason": "Scheduled",
    }
    assert (created.api_version, created.kind) == ("events.k8s.io/v1", "Event")


async def test_create_without_a_namespace_is_refused_before_it_is_sent(api: ApiServer, server: Any) -> None:
    with pytest.raises(Invalid, match=r"metadata\.namespace"):
        await api.create(POD, {"metadata": {"name": "nginx"}})
    assert server.seen == []


async def test_a_cluster_wide_object_is_created_without_a_namespace(api: ApiServer, server: Any) -> None:
    server.answers((201, {"metadata": {"name": "n"}}))
    await api.create(NODE, {"metadata": {"name": "n"}})
    assert server.seen[0].path == "/api/v1/nodes"


@pytest.mark.parametrize(
    ("patch", "path", "content_type"),
    [
        (Patch({"a": None}), NGINX_PATH, "application/merge-patch+json"),
        (
            Patch({"a": None}, PatchType.STRATEGIC, "status"),
            "/api/v1/namespaces/web/pods/nginx/status",
            "application/strategic-merge-patch+json",
        ),
    ],
)
async def test_a_patch_is_sent_with_its_content_type(api: ApiServer, server: Any, patch: Patch, path: str, content_type: str) -> None:
    server.answers((200, NGINX))
    await api.patch(Ref(POD, "web", "nginx"), patch)
    [seen] = server.seen
    assert (seen.method, seen.path, seen.headers["Content-Type"], seen.body) == ("PATCH", path, content_type, {"a": None})


async def test_an_update_puts_the_whole_object(api: ApiServer, server: Any) -> None:
    server.answers((200, NGINX))
    await api.update(Ref(POD, "web", "nginx"), {"metadata": {"resourceVersion": "7"}, "spec": {"nodeName": "n"}})
    [seen] = server.seen
    assert (seen.method, seen.path, seen.headers["Content-Type"]) == ("PUT", NGINX_PATH, "application/json")
    metadata = {"name": "nginx", "namespace": "web", "resourceVersion": "7"}
    assert seen.body == {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}}
    assert api.traffic.requests == {("update", "pods"): 1}


async def test_delete_sends_its_conditions(api: ApiServer, server: Any) -> None:
    server.answers((200, {"kind": "Status"}))
    await api.delete(Ref(POD, "web", "nginx"), uid="u1", grace_period_seconds=0)
    await api.delete(Ref(POD, "web", "nginx"))
    first, second = server.seen
    assert (first.method, first.path) == ("DELETE", "/api/v1/namespaces/web/pods/nginx")
    assert first.body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}, "gracePeriodSeconds": 0}
    assert second.body == {"apiVersion": "v1", "kind": "DeleteOptions"}


async def test_an_eviction_is_posted_with_its_conditions(api: ApiServer, server: Any) -> None:
    server.answers((201, {"kind": "Status", "status": "Success"}))
    await api.evict(Ref(POD, "web", "nginx"), uid="u1", grace_period_seconds=5)
    [seen] = server.seen
    assert (seen.method, seen.path) == ("POST", "/api/v1/namespaces/web/pods/nginx/eviction")
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}, "gracePeriodSeconds": 5}
    metadata = {"name": "nginx", "namespace": "web"}
    assert seen.body == {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    assert api.traffic.requests == {("evict", "pods"): 1}


async def test_a_budget_that_forbids_an_eviction_is_named(api: ApiServer, server: Any) -> None:
    causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}]
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    server.answers((429, {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": message, "details": {"causes": causes}}))
    with pytest.raises(TooManyRequests) as refused:
        await api.evict(Ref(POD, "web", "nginx"))
    assert refused.value.message == f"{message} The disruption budget web needs 2 healthy pods and has 2 currently"
    assert refused.value.retry_after == 1.0


async def test_a_list_is_read_in_pages_of_all_namespaces(api: ApiServer, server: Any) -> None:
    server.answers(
        (200, {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "c1"}, "items": [{"metadata": {"name": "a"}}]}),
        (200, {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": ""}, "items": [{"metadata": {"name": "b"}}]}),
    )
    first = await api.list(POD, field_selector="status.phase!=Failed", limit=1)
    second = await api.list(POD, field_selector="status.phase!=Failed", limit=1, continue_token=first.continue_token)
    assert [(page.items[0].metadata.name, page.resource_version, page.continue_token) for page in (first, second)] == [
        ("a", "9", "c1"),
        ("b", "9", ""),
    ]
    assert [seen.path for seen in server.seen] == ["/api/v1/pods", "/api/v1/pods"]
    assert server.seen[0].query == {"fieldSelector": "status.phase!=Failed", "limit": "1"}
    assert server.seen[1].query == {"fieldSelector": "status.phase!=Failed", "limit": "1", "continue": "c1"}


async def test_items_of_a_list_know_their_kind(api: ApiServer, server: Any) -> None:
    server.answers((200, {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "a"}, "spec": {"x": 1}}]}))
    kind = NODE_RESOURCE_TOPOLOGY
    pods, topologies, metrics = await api.list(POD), await api.list(kind), await api.list(NODE_METRIC)
    assert (pods.items[0].api_version, pods.items[0].kind) == ("v1", "Pod")
    assert (metrics.items[0].api_version, metrics.items[0].kind) == ("slo.koordinator.sh/v1alpha1", "NodeMetric")
    topology = topologies.items[0]
    assert isinstance(topology, Unstructured)
    assert topology.raw == {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"}, "spec": {"x": 1}}


async def test_an_empty_list_may_be_null(api: ApiServer, server: Any) -> None:
    server.answers((200, {"metadata": {"resourceVersion": "9"}, "items": None}))
    assert list((await api.list(POD)).items) == []
    assert list((await api.list(NODE_METRIC)).items) == []


async def test_who_does_not_lead_sends_no_decision(server: Any, connected: Any) -> None:
    server.answers((200, NGINX))
    refusal = NotLeading("not sent")

    def may_decide() -> None:
        raise refusal

    api = await connected(master=server.url, may_decide=may_decide)
    ref = Ref(POD, "web", "nginx")
    decisions: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: api.bind(Binding("web", "nginx", "u1", "node-1")),
        lambda: api.patch(ref, Patch({}, subresource="status")),
        lambda: api.update(ref, {}),
        lambda: api.delete(ref),
        lambda: api.evict(ref),
    )
    for decision in decisions:
        with pytest.raises(NotLeading, match="not sent"):
            await decision()
    assert server.seen == []
    await api.get(ref)
    await api.create(EVENT, {"metadata": {"namespace": "web", "name": "e"}})
    await api.patch(Ref(EVENT, "web", "e"), Patch({}))
    assert [seen.method for seen in server.seen] == ["GET", "POST", "PATCH"]


async def test_whether_a_bind_may_be_sent_is_asked_when_it_is_its_turn(server: Any, connected: Any) -> None:
    server.answers((201, {"kind": "Status"}))
    asked: list[int] = []
    api = await connected(master=server.url, qps=20, burst=1, may_decide=lambda: asked.append(len(server.seen)))
    await asyncio.gather(*(api.bind(Binding("web", name, "u", "n")) for name in "abc"))
    assert asked == [0, 1, 2]


async def test_traffic_is_counted_by_verb_and_kind(api: ApiServer, server: Any) -> None:
    server.answers((201, b'{"kind":"Status"}'), (200, b'{"metadata":{"name":"x"}}'))
    await api.bind(Binding("web", "nginx", "u1", "node-1"))
    await api.patch(Ref(POD, "web", "nginx"), Patch({"a": 1}, subresource="status"))
    assert api.traffic.requests == {("bind", "pods"): 1, ("patch status", "pods"): 1}
    assert api.traffic.sent["patch status", "pods"] == len(b'{"a":1}')
    assert api.traffic.received == {("bind", "pods"): 17, ("patch status", "pods"): 25}
    assert api.traffic.retries == 0


async def test_a_raw_request_goes_out_as_it_is(api: ApiServer, server: Any) -> None:
    server.answers((200, b"ok"))
    assert await api.raw(RawRequest("PUT", "/x", {"a": "b c"}, b"{}", "application/apply-patch+yaml")) == b"ok"
    [seen] = server.seen
    assert (seen.method, seen.path, seen.query, seen.body) == ("PUT", "/x", {"a": "b c"}, {})
    assert seen.headers["Content-Type"] == "application/apply-patch+yaml"
    assert api.traffic.requests == {("put", ""): 1}


async def test_a_raw_request_without_a_body_names_no_content_type(api: ApiServer, server: Any) -> None:
    server.answers((200, b"ok"))
    await api.raw(RawRequest("GET", "/x"))
    [seen] = server.seen
    assert "Content-Type" not in seen.headers


async def test_a_path_in_the_server_address_is_kept(server: Any, connected: Any) -> None:
    api = await connected(master=f"{server.url}/k8s/clusters/c-1/")
    server.answers((200, NGINX))
    await api.get(Ref(POD, "web", "nginx"))
    assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/namespaces/web/pods/nginx"


async def test_a_proxy_gets_the_whole_address_and_its_own_credentials_apart(server: Any, connected: Any, kubeconfig: Any) -> None:
    proxy = server.url.replace("http://", "http://me:secret@")
    api = await connected(kubeconfig=kubeconfig("http://api.example.org:8080", {"token": "t"}, proxy_url=proxy))
    server.answers((201, b"{}"))
    await api.bind(Binding("web", "nginx", "u1", "node-1"))
    [seen] = server.seen
    assert seen.headers["Host"] == "api.example.org:8080"
    assert seen.headers["Authorization"] == "Bearer t"
    assert seen.path.endswith("/api/v1/namespaces/web/pods/nginx/binding")


async def test_impersonation_goes_with_every_request(server: Any, connected: Any, kubeconfig: Any) -> None:
    api = await connected(kubeconfig=kubeconfig(server.url, {"token": "t", "as": "root", "as-groups": ["g"]}))
    server.answers((200, NGINX))
    await api.get(Ref(POD, "web", "nginx"))
    assert [server.seen[0].headers[name] for name in ("Impersonate-User", "Impersonate-Group")] == ["root", "g"]


async def test_what_is_no_path_is_not_sent(api: ApiServer, server: Any) -> None:
    for path in ("/a b", "/a\r\nX: y", "/ä"):
        with pytest.raises(Invalid, match=r"^not a path: "):
            await api.raw(RawRequest("GET", path))
    assert server.seen == []
