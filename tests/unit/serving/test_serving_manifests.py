"""The manifests of config/: the scheduler must start with what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from koordsched.config import load_config
from koordsched.config.flags import not_acted_on, parse_flags
from koordsched.serve.process import KILL_SECONDS, STOP_SECONDS
from koordsched.server.access.authorization import OpenPaths
from koordsched.server.ports import CLOSE_SECONDS

KOORDINATORS_GRACE_SECONDS = 10
"""terminationGracePeriodSeconds of koord-scheduler's Deployment in Koordinator's chart v1.8.0."""
MAX_USER_ID = 2**31 - 1
ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config"


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    documents = yaml.safe_load_all((CONFIG / "deployment.yaml").read_text())
    (spec,) = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    assert isinstance(spec, dict)
    return spec


def image_user() -> str:
    """Return the user of the image as the kubelet hears of it: what the last stage's last USER says, without the group."""
    last_stage = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    users = [line.split()[1] for line in last_stage.splitlines() if line.startswith("USER ")]
    return users[-1].partition(":")[0] if users else ""


def refused_by_kubelet(pod: dict[str, Any], container: dict[str, Any], user: str) -> str:
    """Return why the kubelet starts no such container of an image with this user: verifyRunAsNonRoot of kubernetes v1.35, "" if it does."""
    effective = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    if not effective.get("runAsNonRoot"):
        return ""
    if "runAsUser" in effective:
        return "container's runAsUser breaks non-root policy" if effective["runAsUser"] == 0 else ""
    if user and not user.isdecimal():
        return f"container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root"
    if int(user or 0) == 0:
        return "container has runAsNonRoot and image will run as root"
    return "container has runAsNonRoot and image has an invalid user id" if int(user) > MAX_USER_ID else ""


def shipped_pods() -> list[tuple[str, dict[str, Any]]]:
    """Return the pod of every manifest that we ship and that runs our image: by file, kind and name."""
    found = []
    templates = set((CONFIG / "chart" / "templates").glob("*.yaml"))  # what Helm makes of them is tests/e2e/test_chart.py's
    for file in sorted({*CONFIG.rglob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")} - templates):
        for document in yaml.safe_load_all(file.read_text()):
            template = ((document or {}).get("spec") or {}).get("template") or {}
            containers = (template.get("spec") or {}).get("containers", [])
            if any("koordsched" in container.get("image", "") for container in containers):
                found.append((f"{file.name}: {document['kind']} {document['metadata']['name']}", template["spec"]))
    return found


def test_the_kubelet_starts_the_image_as_what_is_no_root() -> None:
    assert [name for name, _ in shipped_pods()] == ["deployment.yaml: Deployment koord-scheduler"]
    for name, spec in shipped_pods():
        assert spec["securityContext"]["runAsNonRoot"], name
        for container in (*spec["containers"], *spec.get("initContainers", [])):
            assert refused_by_kubelet(spec, container, image_user()) == "", name
            # By the image alone too: Koordinator's chart and others say runAsNonRoot without a number.
            assert refused_by_kubelet({"securityContext": {"runAsNonRoot": True}}, {}, image_user()) == ""
        assert spec["securityContext"]["runAsUser"] == int(image_user()), name


@pytest.mark.parametrize(
    ("context", "user", "refused"),
    [
        ({"runAsNonRoot": True}, "nonroot", "non-numeric user (nonroot)"),
        ({"runAsNonRoot": True}, "", "will run as root"),
        ({"runAsNonRoot": True}, str(2**31), "invalid user id"),
        ({"runAsNonRoot": True}, "0", "will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, "65532", "breaks non-root policy"),
        ({"runAsNonRoot": True, "runAsUser": 65532}, "nonroot", ""),
        ({}, "root", ""),
    ],
)
def test_what_the_kubelet_refuses_is_known_here(context: dict[str, Any], user: str, refused: str) -> None:
    found = refused_by_kubelet({"securityContext": context}, {}, user)
    assert refused in found
    assert bool(refused) == bool(found)


def test_its_flags_are_understood_and_acted_on(pod: dict[str, Any]) -> None:
    assert not_acted_on(parse_flags(pod["containers"][0]["args"])) == ()


def test_the_kubelet_may_ask_what_it_probes(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    flags = parse_flags(container["args"])
    for probe in (container["startupProbe"], container["livenessProbe"], container["readinessProbe"]):
        assert probe["httpGet"]["path"] in OpenPaths(flags.authorization_always_allow_paths)
    assert container["ports"] == [{"name": "https", "containerPort": flags.secure_port}]


def test_the_configuration_is_where_the_flag_says_and_valid(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    path = Path(parse_flags(container["args"]).config)
    (mount,) = container["volumeMounts"]
    assert path.parent == Path(mount["mountPath"])
    generated = yaml.safe_load((CONFIG / "kustomization.yaml").read_text())["configMapGenerator"]
    assert generated == [{"name": pod["volumes"][0]["configMap"]["name"], "namespace": "koordinator-system", "files": [path.name]}]
    profiles = load_config(CONFIG / path.name).profiles
    assert [profile.scheduler_name for profile in profiles] == ["koord-scheduler"]


def test_a_stop_ends_before_the_kubelet_kills(pod: dict[str, Any]) -> None:
    """At its longest: a stop that is given up, tasks and connections that hang, requests that are being answered on both ports."""
    longest = STOP_SECONDS + 2 * KILL_SECONDS + 2 * CLOSE_SECONDS
    assert longest <= KOORDINATORS_GRACE_SECONDS
    assert pod["terminationGracePeriodSeconds"] >= longest + 5


def test_the_account_may_hold_the_lease_that_the_configuration_names(pod: dict[str, Any]) -> None:
    election = load_config(CONFIG / "koord-scheduler-config.yaml").leader_election
    documents = list(yaml.safe_load_all((CONFIG / "rbac.yaml").read_text()))
    (role,) = [document for document in documents if document["kind"] == "Role"]
    (account,) = [document for document in documents if document["kind"] == "ServiceAccount"]
    assert role["metadata"]["namespace"] == election.resource_namespace
    assert role["rules"][1]["resourceNames"] == [election.resource_name]
    assert pod["serviceAccountName"] == account["metadata"]["name"]


def test_in_the_place_of_kube_scheduler_it_competes_for_that_lease_and_may_hold_it() -> None:
    example = CONFIG.parent / "examples" / "instead-of-kube-scheduler"
    config = load_config(example / "koord-scheduler-config.yaml")
    (role,) = [document for document in yaml.safe_load_all((example / "rbac.yaml").read_text()) if document["kind"] == "Role"]
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    assert role["metadata"]["namespace"] == election.resource_namespace
    assert role["rules"][1]["resourceNames"] == [election.resource_name]
    assert "default-scheduler" in [profile.scheduler_name for profile in config.profiles]


def test_nothing_of_the_clusters_is_granted_by_wildcard() -> None:
    rules = [rule for document in yaml.safe_load_all((CONFIG / "rbac.yaml").read_text()) for rule in document.get("rules", [])]
    assert not [rule for rule in rules for values in rule.values() if "*" in values]
    assert not [rule for rule in rules if "secrets" in rule.get("resources", [])]
