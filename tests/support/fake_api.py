"""An API server that keeps objects and has the habits of a real one that scenarios must live with, without being one.

Status is written apart; new nodes are tainted; claims get a finalizer; a pod's priority comes from a class and its service account must
be there; deleting an object with finalizers only marks it. `handle` answers a request; `Wire` is the client's `request` on top of it,
`served` puts it on a port.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from koordsched.apiclient.client import ApiException

Json = dict[str, Any]
Answer = tuple[int, Json]

SERVED: dict[str, list[tuple[str, str, bool, bool]]] = {  # root: plural, kind, namespaced, status
    "/api/v1": [
        ("pods", "Pod", True, True),
        ("nodes", "Node", False, True),
        ("namespaces", "Namespace", False, True),
        ("serviceaccounts", "ServiceAccount", True, False),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True, True),
    ],
    "/apis/scheduling.k8s.io/v1": [("priorityclasses", "PriorityClass", False, False)],
    "/apis/events.k8s.io/v1": [("events", "Event", True, False)],
    "/apis/example.com/v1": [("widgets", "Widget", False, True)],
}
KEEPS_STATUS = {"nodes"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class FakeApi:
    """Objects by path. `asked`: method and path of every request that wrote. `busy`: how many requests are first answered with 429."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.asked: list[str] = []
        self.busy = 0
        self.slow_classes = 0  # so many pods are refused before admission hears of a class
        self.accounts_needed = False
        self._uids = 0

    def handle(self, method: str, path: str, body: Json | None = None) -> Answer:
        if self.busy:
            self.busy -= 1
            return status(429, "TooManyRequests", "try again")
        if method != "GET":
            self.asked.append(f"{method} {path}")
        root = next((root for root in SERVED if path == root or path.startswith(f"{root}/")), None)
        if root is None:
            return status(404, "NotFound", "the server could not find the requested resource")
        return _discovery(root) if path == root else self._of_kind(method, path, body or {})

    def put(self, path: str, body: Json) -> Json:
        """Keep an object as another client would make it."""
        self._uids += 1
        kept = {**body, "metadata": {"uid": f"u{self._uids}", **body["metadata"]}}
        self.objects[path] = kept
        return kept

    def _of_kind(self, method: str, path: str, body: Json) -> Answer:
        if method == "POST":
            return self._create(path, body)
        if method == "GET" and path not in self.objects and path.rsplit("/", 1)[1] in _plurals():
            plural = path.rsplit("/", 1)[1]
            return 200, {"kind": "List", "items": [one for key, one in self.objects.items() if key.split("/")[-2] == plural]}
        target, _, subresource = path.rpartition("/") if path.endswith(("/status", "/resize", "/finalize")) else (path, "", "")
        if target not in self.objects:
            return status(404, "NotFound", f'"{target.rsplit("/", 1)[1]}" not found')
        if method == "DELETE":
            return self._delete(target, body)
        if method == "PATCH":
            self._patch(target, body, subresource)
        elif subresource == "finalize":
            return 200, self.objects.pop(target)
        return 200, self.objects.get(target, {})

    def _create(self, path: str, body: Json) -> Answer:
        name, plural = body["metadata"]["name"], path.rsplit("/", 1)[1]
        key = f"{path}/{name}"
        if key in self.objects:
            return status(409, "AlreadyExists", f'{plural} "{name}" already exists')
        if plural == "pods" and (refusal := self._admission(path, body)):
            return status(403, "Forbidden", f'pods "{name}" is forbidden: {refusal}')
        made = {field: item for field, item in body.items() if field != "status" or plural in KEEPS_STATUS}
        if plural == "nodes":
            spec = made.get("spec", {})
            made["spec"] = {**spec, "taints": [*spec.get("taints", []), NOT_READY]}
        if plural == "pods":
            made["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        if plural == "persistentvolumeclaims":
            made["metadata"] = {**made["metadata"], "finalizers": ["kubernetes.io/pvc-protection"]}
        return 201, self.put(key, made)

    def _admission(self, path: str, pod: Json) -> str:
        spec = pod["spec"]
        name = spec.get("priorityClassName")
        found = self.objects.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}") if name else {"value": 0}
        if found is not None and name and self.slow_classes:
            self.slow_classes -= 1
            found = None
        if found is None:
            return f"no PriorityClass with name {name} was found"
        if spec.get("priority", found["value"]) != found["value"]:
            return f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        if self.accounts_needed and f"{path.rpartition('/')[0]}/serviceaccounts/default" not in self.objects:
            return 'error looking up service account default/default: serviceaccount "default" not found'
        return ""

    def _patch(self, key: str, merge: Json, subresource: str) -> None:
        old = self.objects[key]
        if subresource == "status":
            merge = {"status": merge["status"]}
        elif "status" in merge and key.split("/")[-2] not in KEEPS_STATUS:
            merge = {field: item for field, item in merge.items() if field != "status"}
        self.objects[key] = new = _merged(old, merge)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            del self.objects[key]

    def _delete(self, key: str, options: Json) -> Answer:
        found = self.objects[key]
        metadata = found["metadata"]
        if options.get("preconditions", {}).get("uid", metadata["uid"]) != metadata["uid"]:
            return status(409, "Conflict", "the UID in the precondition does not match")
        lasting = found["spec"].get("terminationGracePeriodSeconds") if "/pods/" in key and found["spec"].get("nodeName") else 0
        if metadata.get("finalizers") or key.split("/")[-2] == "namespaces":
            return 200, self._mark(key)
        if options.get("gracePeriodSeconds", lasting):
            return 200, self._mark(key)
        del self.objects[key]
        return 200, {"kind": "Status", "status": "Success"}

    def _mark(self, key: str) -> Json:
        self.objects[key] = _merged(self.objects[key], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        return self.objects[key]


class Wire:
    """The client's way to send a request (`apiclient.client.Client`), straight to a FakeApi."""

    server = "http://fake"

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    async def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        code, answer = self._api.handle(method, path, None if body is None else dict(body))
        if code >= 300:
            refused = ApiException(code, "no success")
            refused.body = msgspec.json.encode({**answer, "details": {"retryAfterSeconds": 0}})
            raise refused
        return answer


@contextmanager
def served(api: FakeApi) -> Iterator[str]:
    """Serve it on loopback; yields the address."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two writes

        def _answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                code, answer = api.handle(self.command, self.path.partition("?")[0], msgspec.json.decode(data) if data else None)
            body = msgspec.json.encode(answer)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 (the names are http.server's)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(code: int, reason: str, message: str) -> Answer:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def _discovery(root: str) -> Answer:
    resources: list[Json] = []
    for plural, kind, namespaced, has_status in SERVED[root]:
        resources.append({"name": plural, "kind": kind, "namespaced": namespaced})
        if has_status:
            resources.append({"name": f"{plural}/status", "kind": kind, "namespaced": namespaced})
    return 200, {"kind": "APIResourceList", "resources": resources}


def _plurals() -> set[str]:
    return {plural for kinds in SERVED.values() for plural, _, _, _ in kinds}


def _merged(old: Any, merge: Any) -> Any:
    if not isinstance(merge, dict):
        return merge
    base: Mapping[str, Any] = old if isinstance(old, dict) else {}
    merged = {**base, **{key: _merged(base.get(key), item) for key, item in merge.items()}}
    return {key: item for key, item in merged.items() if item is not None}
