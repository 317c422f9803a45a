"""The manifests of config/: the scheduler must start with what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from koordsched.config import load_config
from koordsched.config.flags import not_acted_on, parse_flags
from koordsched.server.access.authorization import OpenPaths
from koordsched.server.ports import CLOSE_SECONDS
from koordsched.server.process import KILL_SECONDS, STOP_SECONDS

KOORDINATORS_GRACE_SECONDS = 10
"""terminationGracePeriodSeconds of koord-scheduler's Deployment in Koordinator's chart v1.8.0."""
CONFIG = Path(__file__).parents[3] / "config"


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    documents = yaml.safe_load_all((CONFIG / "deployment.yaml").read_text())
    (spec,) = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    assert isinstance(spec, dict)
    return spec


def test_its_flags_are_understood_and_acted_on(pod: dict[str, Any]) -> None:
    assert not_acted_on(parse_flags(pod["containers"][0]["args"])) == ()


def test_the_kubelet_may_ask_what_it_probes(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    flags = parse_flags(container["args"])
    for probe in (container["livenessProbe"], container["readinessProbe"]):
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
