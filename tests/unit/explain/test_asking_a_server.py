"""`explain --server`: what is asked of a scheduler that serves, and what is said where it cannot be asked."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from support.explained import node, pod
from support.serving import FakeServer, serving

from koordsched.api.kinds import NODE, POD
from koordsched.cli import main
from koordsched.explain.server import ServerOptions, run_explain_on_server


async def ask(**options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = await asyncio.to_thread(run_explain_on_server, ServerOptions(**options), out, err)
    return code, out.getvalue(), err.getvalue()


async def a_cluster() -> FakeServer:
    server = FakeServer()
    await server.create(NODE, node("n1", "2", more={"pods": "10"}))
    await server.create(POD, pod("web", {"cpu": "3"}, schedulerName="default-scheduler"))
    return server


async def test_a_pending_pod_is_shown_as_that_of_files() -> None:
    async with serving(await a_cluster()) as served:
        await served.ready()
        code, out, err = await ask(server=served.url, pod="web")
        assert (code, err) == (0, "")
        assert out.startswith("Pod default/web is pending.\n  0/1 nodes are available: 1 Insufficient cpu.")
        assert "request 2 of cpu instead of 3" in out
        found = json.loads((await ask(server=served.url, pod="default/web", output="json", node="n1"))[1])
        assert [(each["plugin"], each["nodes"]) for each in found["reasons"]] == [("NodeResourcesFit", ["n1"])]


async def test_what_the_scheduler_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    file.write_text(json.dumps(pod("new", {"cpu": "1"})))
    async with serving(await a_cluster()) as served:
        await served.ready()
        assert await ask(server=served.url, pod="nope") == (1, "", f"{served.url} answers 404: cannot find pod default/nope\n")
        code, _, err = await ask(server=served.url, file=str(file))
        assert code == 1
        assert err.startswith(f"{served.url} answers 403: the plain port answers health, metrics and cheap reads only")


async def test_where_no_scheduler_answers_it_is_said(tmp_path: Path) -> None:
    code, _, err = await ask(server="http://127.0.0.1:1", pod="web")
    assert code == 1
    assert err.startswith("http://127.0.0.1:1 cannot be asked: ")
    assert (await ask(server="x", pod="web", token_file="/no/such/file"))[2] == "/no/such/file: cannot be read: No such file or directory\n"
    code, _, err = await ask(server="x", pod="web", certificate_authority="/no/such/ca")
    assert err.startswith("/no/such/ca: cannot be used: ")
    assert (await ask(server="x", file="/no/such/pod"))[0] == 1
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps(node("n1")))
    assert (await ask(server="x", file=str(empty)))[2] == f"{empty}: no pending pod and no pod template in it\n"


def written(folder: Path, *objects: dict[str, Any]) -> Path:
    file = folder / "new.json"
    file.write_text("\n".join(json.dumps(each) for each in objects))
    return file


async def submitted(file: Path, **answered: Any) -> tuple[dict[str, Any], str]:
    """Return the pod that a server is asked about for a file, and what is written to standard error."""
    bodies: list[dict[str, Any]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        bodies.append(json.loads(await request.read()))
        return web.json_response({"pod": "default/new", "state": "pending", **answered})

    async with RawTestServer(answer) as server:
        code, _, err = await ask(server=str(server.make_url("")), file=str(file))
    assert code == 0
    return bodies[0], err


async def test_a_template_is_submitted_as_a_pod_of_it(tmp_path: Path) -> None:
    spec = {"template": {"metadata": {"labels": {"app": "shop"}}, "spec": pod("shop", {"cpu": "1"})["spec"]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": spec}
    body, err = await submitted(written(tmp_path, deployment))
    assert (body["kind"], body["metadata"]["labels"]) == ("Pod", {"app": "shop"})
    assert "explained is one pod of this template" in err


async def test_a_class_of_the_same_file_gives_the_pod_its_priority_where_it_names_none(tmp_path: Path) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    classes = [{**kind, "value": 9000, "preemptionPolicy": "Never"}, {**kind, "metadata": {"name": "other"}, "value": 1}]
    spec = (await submitted(written(tmp_path, *classes, pod("new", {"cpu": "1"}, priorityClassName="high"))))[0]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (9000, "Never")
    spec = (await submitted(written(tmp_path, *classes, pod("new", {"cpu": "1"}, priorityClassName="high", priority=3))))[0]["spec"]
    assert spec["priority"] == 3
    assert "priority" not in (await submitted(written(tmp_path, *classes, pod("new", {"cpu": "1"}))))[0]["spec"]


async def test_what_the_server_notes_is_said(tmp_path: Path) -> None:
    assert (await submitted(written(tmp_path, pod("new", {"cpu": "1"})), notes=["a", "b"]))[1] == "note: a\nnote: b\n"


def test_files_of_a_cluster_are_not_named_beside_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", "web", "cluster.yaml", "--server", "https://localhost:10259"])
    assert ended.value.code == 2
    assert "--server asks a scheduler about the cluster that it knows" in capsys.readouterr().err
