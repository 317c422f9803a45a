"""`simulate` and `explain` of a live cluster, from the command line to the API server and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.fake_api import FakeApi, served

from koordsched.api.kinds import PRIORITY_CLASS
from koordsched.cli import main
from koordsched.config.loading import default_config
from koordsched.simulate.live import looked_at

ROLE = Path(__file__).parents[3] / "config" / "reader.yaml"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: '{address}'}}}}, {{name: nowhere, cluster: {{server: 'http://127.0.0.1:1'}}}}]
contexts:
- {{name: here, context: {{cluster: here, user: anonymous, namespace: team}}}}
- {{name: plain, context: {{cluster: here, user: anonymous}}}}
- {{name: broken, context: {{cluster: nowhere, user: anonymous}}}}
users: [{{name: anonymous, user: {{}}}}]
"""


def pod(name: str, cpu: str, namespace: str = "team", **spec: Any) -> tuple[str, dict[str, Any]]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
    body |= {"spec": {"containers": [container], "schedulerName": "default-scheduler", **spec}}
    return f"/api/v1/namespaces/{namespace}/pods/{name}", body


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A node with 2 CPUs, 1 of them taken, and a pending pod that wants 2 of them."""
    monkeypatch.setattr("koordsched.log._quiet", False)
    made = FakeApi()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "110"}}}
    made.put("/api/v1/nodes/n1", node)
    for path, body in (pod("old", "1", nodeName="n1"), pod("web", "2"), pod("small", "500m", "other")):
        made.put(path, body)
    with served(made) as address:
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(address=address))
        yield made


class Ran:
    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> None:
        self.code = main([*arguments, "--kubeconfig", str(folder / "kubeconfig")])
        self.out, self.err = capsys.readouterr()

    def pods(self) -> tuple[dict[str, str], list[str]]:
        """Return the nodes of placed pods that were pending, and the pending ones."""
        found = json.loads(self.out)
        return {each["pod"]: each["node"] for each in found["placements"] if each["pod"] != "team/old"}, [
            each["pod"] for each in found["pending"]
        ]


def test_a_pending_pod_of_the_contexts_namespace_is_explained_and_nothing_is_written(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran = Ran(capsys, tmp_path, "explain", "web", "-o", "json")
    found = json.loads(ran.out)
    assert (ran.code, found["pod"], found["state"]) == (0, "team/web", "pending")
    assert found["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "request 500m of cpu instead of 2" in [each["text"] for each in found["changes"]]
    assert api.asked == []
    assert ran.err.startswith("note: the cluster does not serve these kinds, taken as none: clusternetworktopologies.scheduling")
    assert len(ran.err.splitlines()) == 1


def test_a_dry_run_goes_to_the_contexts_namespace_in_place_of_a_pod_of_its_name(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = pod("old", "1500m")[1]
    del body["metadata"]["namespace"]
    (tmp_path / "pod.json").write_text(json.dumps(body))
    found = json.loads(Ran(capsys, tmp_path, "explain", "-f", str(tmp_path / "pod.json"), "--no-changes", "-o", "json").out)
    assert (found["pod"], found["state"]) == ("team/old", "pending")
    found = json.loads(Ran(capsys, tmp_path, "explain", "-f", str(tmp_path / "pod.json"), "-n", "new", "--no-changes", "-o", "json").out)
    assert (found["pod"], found["state"]) == ("new/old", "pending")
    assert api.asked == []


def test_files_come_on_top_of_the_cluster(api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "3", "pods": "110"}}}
    (tmp_path / "changes.json").write_text("\n".join(json.dumps(each) for each in (node, pod("new", "1")[1])))
    alone = Ran(capsys, tmp_path, "simulate", "-o", "json")
    assert alone.pods() == ({"other/small": "n1"}, ["team/web"])
    both = Ran(capsys, tmp_path, "simulate", str(tmp_path / "changes.json"), "-o", "json")
    assert both.pods() == ({"team/web": "n1"}, ["other/small", "team/new"])
    assert both.err == alone.err
    assert api.asked == []


def test_only_pods_of_a_namespace_are_submitted_while_others_keep_their_room(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert Ran(capsys, tmp_path, "simulate", "-n", "other", "-o", "json").pods() == ({"other/small": "n1"}, [])
    assert Ran(capsys, tmp_path, "simulate", "-n", "team", "--context", "plain", "-o", "json").pods() == ({}, ["team/web"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["explain", "wbe"], "the input has no pod team/wbe; did you mean team/web?"),
        (["explain", "web", "--context", "plain"], "the input has no pod default/web; did you mean team/web?"),
        (["simulate", "--context", "broken"], "{kubeconfig}: http://127.0.0.1:1 cannot be reached: "),
        (["simulate", "--context", "hree"], "{kubeconfig}: has no context 'hree'; did you mean here?"),
    ],
)
def test_a_cluster_that_cannot_be_used_ends_with_one_line(
    api: FakeApi, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], expected: str
) -> None:
    ran = Ran(capsys, tmp_path, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(expected.format(kubeconfig=tmp_path / "kubeconfig"))
    assert len(ran.err.splitlines()) == 1


def test_a_kubeconfig_that_is_missing_is_said_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = Ran(capsys, tmp_path, "simulate")
    assert (ran.code, ran.err) == (1, f"{tmp_path}/kubeconfig: cannot be read: No such file or directory\n")


def test_the_role_to_read_a_cluster_allows_to_list_what_the_shipped_configuration_looks_at_and_nothing_else() -> None:
    role = yaml.safe_load(ROLE.read_text())
    allowed = {(group, plural) for rule in role["rules"] for group in rule["apiGroups"] for plural in rule["resources"]}
    looked = {(kind.group, kind.plural) for kind, _ in looked_at(default_config())} | {(PRIORITY_CLASS.group, PRIORITY_CLASS.plural)}
    assert looked <= allowed
    koordinators = {plural for group, plural in looked if group.endswith((".koordinator.sh", ".sigs.k8s.io"))}
    assert {plural for _, plural in allowed} - {plural for _, plural in looked} == set()
    assert koordinators <= {plural for _, plural in allowed}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}
    names = {name for rule in role["rules"] for name in rule.get("resourceNames", [])}
    selectors = dict(looked_at(default_config()))
    assert {selector.partition("metadata.name=")[2] for selector in selectors.values()} - {""} == names
