"""What is read of a live cluster, in which requests, and what is said of what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from koordsched.api.kinds import CONFIG_MAP, DEVICE, NODE, NODE_METRIC, POD, SERVICE, Kind
from koordsched.apiclient import snapshot
from koordsched.apiclient.client import ApiException
from koordsched.apiclient.snapshot import AskedKind, Reader, Snapshot
from koordsched.cluster.port import Forbidden

PODS, NODES, SERVICES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/services"


class PagedServer:
    """Answers lists page by page. `lists`: the names of objects by path. forbidden: paths that are refused. Others are not served."""

    server = "https://cluster"

    def __init__(
        self, lists: Mapping[str, list[str]], forbidden: tuple[str, ...] = (), groups: Mapping[str, list[str]] | None = None
    ) -> None:
        self.asked: list[str] = []
        self.expire_once = ""  # the continue token that is answered by 410, once
        self._lists = lists
        self._forbidden = forbidden
        self._groups = groups or {}

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        self.asked.append(f"{method} {path}")
        path, _, text = path.partition("?")
        query = {key: values[0] for key, values in parse_qs(text).items()}
        if path in self._groups:
            return {"kind": "APIResourceList", "resources": [{"name": name} for name in self._groups[path]]}
        if path in self._forbidden:
            raise refused(403, "Forbidden", f"{path} is forbidden")
        if path not in self._lists:
            raise refused(404, "NotFound", "the server could not find the requested resource")
        token = query.get("continue", "")
        if token and token == self.expire_once:
            self.expire_once = ""
            raise refused(410, "Expired", "The provided continue parameter is too old")
        names, begin, limit = self._lists[path], int(token or 0), int(query.get("limit", 10_000))
        end = begin + limit
        items = [{"metadata": {"name": name}} for name in names[begin:end]]
        return {"items": items, "metadata": {"continue": str(end)} if end < len(names) else {}}


def refused(code: int, reason: str, message: str) -> ApiException:
    error = ApiException(code, reason)
    error.body = msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": message})
    return error


def names_of(found: Snapshot) -> dict[str, list[str]]:
    return {document.value["kind"]: [item["metadata"]["name"] for item in document.value["items"]] for document in found.documents}


async def read(server: PagedServer, *kinds: Kind, namespaces: tuple[str, ...] = ()) -> Snapshot:
    return await Reader(server, namespaces).read([AskedKind(kind) for kind in kinds])


async def test_lists_are_read_page_by_page_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAGE_SIZE", 2)
    server = PagedServer({PODS: ["a", "b", "c", "d", "e"]})
    counts: list[int] = []
    found = await Reader(server, report=counts.append).read([AskedKind(POD, "status.phase!=Failed")])
    assert names_of(found) == {"PodList": ["a", "b", "c", "d", "e"]}
    selected = f"GET {PODS}?limit=2&fieldSelector=status.phase%21%3DFailed"
    assert server.asked == [selected, f"{selected}&continue=2", f"{selected}&continue=4"]
    assert counts == [2, 4, 5]
    assert [document.origin for document in found.documents] == ["https://cluster/api/v1/pods"]
    assert found.notes == []


async def test_a_list_that_expires_between_pages_is_read_again_in_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAGE_SIZE", 2)
    server = PagedServer({PODS: ["a", "b", "c"]})
    server.expire_once = "2"
    assert names_of(await read(server, POD)) == {"PodList": ["a", "b", "c"]}
    assert server.asked == [f"GET {PODS}?limit=2", f"GET {PODS}?limit=2&continue=2", f"GET {PODS}"]


async def test_kinds_that_are_not_served_or_may_not_be_read_are_named_and_left_out() -> None:
    forbidden = (SERVICES, "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", "/apis/scheduling.koordinator.sh/v1alpha1/devices")
    server = PagedServer({NODES: ["n1"], PODS: []}, forbidden, groups={"/api/v1": ["services"], "/apis/slo.koordinator.sh/v1alpha1": []})
    found = await read(server, NODE, POD, SERVICE, NODE_METRIC, DEVICE, CONFIG_MAP)
    assert names_of(found) == {"NodeList": ["n1"], "PodList": []}
    assert found.notes == [
        "note: the cluster does not serve these kinds, taken as none: configmaps, devices.scheduling.koordinator.sh, "
        "nodemetrics.slo.koordinator.sh",
        "note: these kinds may not be read, taken as none: what depends on them may be answered wrongly: services",
    ]


async def test_what_may_be_read_in_some_namespaces_only_is_read_there() -> None:
    inside = {"/api/v1/namespaces/a/pods": ["a1"], "/api/v1/namespaces/b/pods": ["b1"]}
    found = await read(PagedServer(inside, (PODS,), {"/api/v1": ["pods"]}), POD, namespaces=("a", "b"))
    assert [item["metadata"]["name"] for document in found.documents for item in document.value["items"]] == ["a1", "b1"]
    assert found.notes == ["note: these kinds may be read in namespace a, b only, taken as none elsewhere: pods"]


async def test_nothing_else_is_asked_for_when_nodes_may_not_be_read() -> None:
    server = PagedServer({}, (NODES, PODS), {"/api/v1": ["nodes", "pods"]})
    with pytest.raises(Forbidden, match="/api/v1/nodes is forbidden"):
        await read(server, NODE, POD, SERVICE)
    assert server.asked == [f"GET {NODES}?limit=500", "GET /api/v1"]


@pytest.mark.parametrize("namespaces", [(), ("a",)])
async def test_without_pods_nothing_can_be_said(namespaces: tuple[str, ...]) -> None:
    server = PagedServer({NODES: []}, (PODS, "/api/v1/namespaces/a/pods"), {"/api/v1": ["pods"]})
    with pytest.raises(Forbidden, match=r"/api/v1/pods is forbidden; config/reader\.yaml is a role that may read all that is needed"):
        await read(server, NODE, POD, namespaces=namespaces)
