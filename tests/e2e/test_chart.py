"""Our chart has the values of Koordinator's and makes the same of them: all that its objects say, ours say, but for what is listed here.

Everything in config/ that is applied is taken by a real API server, strictly, and the program runs as the chart installs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.controlplane.accounts import token_of
from support.controlplane.manifests import applied, documents
from support.controlplane.plane import ControlPlane
from support.deployed import Deployed, of_kind
from support.helm import ChartError, Helm
from support.koordinator_chart import CHANGED, CONFIG_KEY, NAME, PATHS, ChartValues, config_map, deployment, pod_monitor
from support.live import PODS, create_node, until
from support.monitoring import defined

from koordsched.config import load_config
from koordsched.scenario.live.process import free_port

CONFIG = Path(__file__).parents[2] / "config"
BEYOND_KOORDINATORS = {"scheduler": {"alertsEnabled": True, "dashboardEnabled": True, "monitorEnabled": True}}
DIFFERENT = {
    "spec.template.spec.containers.0.imagePullPolicy": "IfNotPresent",  # an image may have been loaded into the nodes
    "spec.template.spec.containers.0.readinessProbe.httpGet.path": "/readyz",  # which says more than healthz
    "spec.template.spec.terminationGracePeriodSeconds": 15,
}
"""What our Deployment says otherwise, by path."""


def helm_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chart's values, nested, of those by the names of `ChartValues`."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        *folders, last = PATHS[name].split(".")
        place = made
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return made


def missing(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield what the one object says and the other does not, or says otherwise; the latter may say more in its mappings."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key, value in theirs.items():
            yield from missing(value, ours.get(key), f"{path}.{key}" if path else key)
    elif _is_list(theirs) and _is_list(ours) and len(theirs) == len(ours):
        for number, (value, own) in enumerate(zip(theirs, ours, strict=True)):
            yield from missing(value, own, f"{path}.{number}")
    elif theirs != ours and DIFFERENT.get(path) != ours:
        yield f"{path}: {ours!r} instead of {theirs!r}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def assert_the_same(made: Sequence[dict[str, Any]], values: ChartValues, folder: Path) -> None:
    """See that all of Koordinator's objects are in ours, and that the two configurations mean the same."""
    assert list(missing(deployment(values), of_kind(made, "Deployment"))) == []
    loaded = []
    for number, data in enumerate((config_map(values)["data"], of_kind(made, "ConfigMap")["data"])):
        file = folder / f"{number}.yaml"
        file.write_text(data[CONFIG_KEY], encoding="utf-8")
        loaded.append(load_config(file))
    assert loaded[0] == loaded[1]
    if values.monitor:
        assert of_kind(made, "PodMonitor") == pod_monitor(values)


def test_the_defaults_are_koordinators_but_for_the_image(helm: Helm, tmp_path: Path) -> None:
    made = helm.template({})
    values = ChartValues()
    ours = of_kind(made, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert ours["image"] == "koordsched:latest"
    ours["image"] = f"{values.image_host}/{values.image_repository}:{values.image_tag}"
    assert_the_same(made, values, tmp_path)
    assert sorted(document["kind"] for document in made if "PriorityClass" not in document["kind"]) == [
        "ClusterRole",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "RoleBinding",
        "ServiceAccount",
    ]


@pytest.mark.parametrize("name", CHANGED)
def test_each_value_changes_what_it_changes_in_koordinators(helm: Helm, tmp_path: Path, name: str) -> None:
    image = {field: getattr(ChartValues(), field) for field in ("image_host", "image_repository", "image_tag")}
    changed = {**image, name: CHANGED[name]}
    assert_the_same(helm.template(helm_values(changed)), ChartValues(**changed), tmp_path)


def test_all_values_together(helm: Helm, tmp_path: Path) -> None:
    made = helm.template(helm_values(CHANGED))
    assert_the_same(made, ChartValues(**CHANGED), tmp_path)
    namespaces = {document["metadata"].get("namespace") for document in made}
    assert namespaces == {None, "koord", "kube-system"}
    assert "koordinator-system" not in yaml.safe_dump(made)


def test_no_devices_that_may_not_be_shared(helm: Helm, tmp_path: Path) -> None:
    shares: tuple[Any, ...] = (None, {"gpuShareUnsupportedModels": []})
    for share in shares:
        config = of_kind(helm.template({"scheduler": {"deviceShare": share}}), "ConfigMap")["data"][CONFIG_KEY]
        (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
        assert load_config(tmp_path / "config.yaml").profiles[0].args["DeviceShare"].gpu_share_unsupported_models == ()


def test_a_changed_configuration_rolls_the_deployment(helm: Helm) -> None:
    def checksum(values: Mapping[str, Any]) -> str:
        template = of_kind(helm.template(values), "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"scheduler": {"replicas": 3}})
    assert checksum({}) != checksum({"scheduler": {"enableJobPreemption": False}})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"scheduler": {"replica": 3}}, "replica"),
        ({"scheduler": {"port": 0}}, "port"),
        ({"scheduler": {"enableJobPreemption": "yes"}}, "enableJobPreemption"),
        ({"schedular": {}}, "schedular"),
    ],
)
def test_mistaken_values_are_refused_by_name(helm: Helm, values: Mapping[str, Any], named: str) -> None:
    with pytest.raises(ChartError, match=named):
        helm.template(values)


def test_helm_finds_no_fault(helm: Helm) -> None:
    helm.lint()


def test_all_that_config_has_is_taken_by_the_api_server(plane: ControlPlane) -> None:
    """The base and config/monitoring, with what kustomize would make of their generators."""
    rest = plane.rest()
    files = [CONFIG / name for name in ("rbac.yaml", "deployment.yaml", "poddisruptionbudget.yaml", "priority-classes.yaml")]
    listed = [CONFIG / name for name in yaml.safe_load((CONFIG / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]]
    watching = CONFIG / "monitoring"
    watched = [watching / name for name in yaml.safe_load((watching / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]]
    assert set(listed) <= set(files)
    with defined(rest), applied(rest, documents(*files)), applied(rest, documents(*watched)):
        for kind, count in (("poddisruptionbudgets", 1), ("podmonitors", 1), ("prometheusrules", 1)):
            group = "policy/v1" if kind == "poddisruptionbudgets" else "monitoring.coreos.com/v1"
            assert len(rest.get(f"/apis/{group}/namespaces/koordinator-system/{kind}")["items"]) == count


def test_what_the_chart_installs_runs(plane: ControlPlane, helm: Helm, tmp_path: Path) -> None:
    """With all that it can install: probes answer, it leads and schedules, within the rights that the chart gives."""
    rest, port = plane.rest(), free_port()
    made = helm.template({"scheduler": {**BEYOND_KOORDINATORS["scheduler"], "port": port}})
    dashboards = [document for document in made if document["metadata"]["name"] == "koord-scheduler-dashboard"]
    own = [document for document in made if document not in dashboards]
    with defined(rest), applied(rest, made):
        deployed = Deployed(plane, own, token_of(rest, own), tmp_path / "pod")
        create_node(rest, "n1", "4")
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": NAME, "containers": [container]}}
        rest.create(PODS, body)
        running = deployed.start("chart")
        running.process.wait_until(lambda: running.probe("startupProbe") == 200, deployed.startup_seconds)
        running.await_readiness()
        assert running.probe("livenessProbe") == 200
        until(lambda: rest.get(f"{PODS}/p")["spec"].get("nodeName") == "n1")
        (endpoint,) = of_kind(made, "PodMonitor")["spec"]["podMetricsEndpoints"]
        assert deployed.port(endpoint["port"]) == port
        assert "scheduler_schedule_attempts_total" in running.get(endpoint["path"])[1]
        outcome = running.stop()
    assert outcome.code == 0
    assert "forbidden: User" not in outcome.text
