"""What --write-config-to writes: the reference's fields, values and order. The text below was compared with koord-scheduler v1.8.0's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from koordsched.config import ConfigError, SchedulerConfiguration, default_config, empty_config, load_config, load_config_text
from koordsched.config.writing import dump_config, write_config

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

BEFORE_PROFILES = """\
apiVersion: kubescheduler.config.k8s.io/v1
clientConnection:
  acceptContentTypes: ""
  burst: 100
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: ""
  qps: 50
enableContentionProfiling: true
enableProfiling: true
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  resourceLock: leases
  resourceName: kube-scheduler
  resourceNamespace: kube-system
  retryPeriod: 2s
parallelism: 16
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
profiles:
- pluginConfig:
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: DefaultPreemptionArgs
      minCandidateNodesAbsolute: 100
      minCandidateNodesPercentage: 10
    name: DefaultPreemption
  - args:
      apiVersion: kubescheduler.config.k8s.io/v1
      filterTimeout: 10s
      kind: DynamicResourcesArgs
    name: DynamicResources
"""


def test_the_empty_configuration_is_written_as_koord_scheduler_writes_it() -> None:
    assert dump_config(empty_config()).startswith(BEFORE_PROFILES)


def test_the_empty_configuration_shows_the_default_plugins_at_multipoint() -> None:
    """framework.md §13 line 1; DefaultPreBind is koord-scheduler's addition."""
    plugins = yaml.safe_load(dump_config(empty_config()))["profiles"][0]["plugins"]
    enabled = plugins.pop("multiPoint")["enabled"]
    assert len(enabled) == 19
    assert [entry["weight"] for entry in enabled if entry["weight"]] == [3, 2, 1, 2, 2, 2, 1, 1]
    assert plugins.pop("preBind") == {"enabled": [{"name": "DefaultPreBind", "weight": 0}]}
    assert set(map(str, plugins.values())) == {"{}"}
    assert len(plugins) == 11


def test_a_point_shows_what_is_enabled_and_disabled() -> None:
    plugins = "plugins: {score: {enabled: [{name: ImageLocality, weight: 7}], disabled: [{name: '*'}]}}"
    text = dump_config(load_config_text(f"{HEADER}profiles:\n- {plugins}\n"))
    lines = ["    score:", "      disabled:", "      - name: '*'", "        weight: 0", "      enabled:", "      - name: ImageLocality"]
    expected = "\n".join([*lines, "        weight: 7\n"])
    assert expected in text


def test_go_leaves_empty_fields_out_and_keeps_given_pointers() -> None:
    body = """
delayCacheUntilActive: true
extenders:
- urlPrefix: http://e
  tlsConfig: {caData: aGVsbG8=}
  managedResources: [{name: a.b/c}]
profiles:
- percentageOfNodesToScore: 0
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 5}
"""
    written = yaml.safe_load(dump_config(load_config_text(HEADER + body)))
    assert written["delayCacheUntilActive"] is True
    assert written["extenders"] == [
        {"urlPrefix": "http://e", "httpTimeout": "5s", "tlsConfig": {"caData": "aGVsbG8="}, "managedResources": [{"name": "a.b/c"}]}
    ]
    assert written["profiles"][0]["percentageOfNodesToScore"] == 0
    assert written["profiles"][0]["pluginConfig"][0]["args"]["minCandidateNodesPercentage"] == 0


def test_a_text_that_reads_like_another_type_is_quoted() -> None:
    text = dump_config(load_config_text(f'{HEADER}clientConnection: {{acceptContentTypes: "yes", kubeconfig: "12"}}\n'))
    assert '  acceptContentTypes: "yes"\n' in text
    assert '  kubeconfig: "12"\n' in text


@pytest.mark.parametrize("config", [empty_config(), default_config()], ids=["empty", "default"])
def test_what_is_written_reads_back_as_the_same_configuration(config: SchedulerConfiguration, tmp_path: Path) -> None:
    path = tmp_path / "written.yaml"
    write_config(config, path)
    assert load_config(path) == config


def test_a_file_that_cannot_be_written_is_one_clear_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        write_config(empty_config(), tmp_path / "missing" / "out.yaml")
