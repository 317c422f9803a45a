"""/configz: names and values of the internal type, as kube-scheduler shows them (framework.md §1.6)."""

from __future__ import annotations

import msgspec

from koordsched.config import load_config_text
from koordsched.serve.endpoints import configz

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://e
  tlsConfig: {insecure: true, serverName: e}
profiles:
- plugins: {multiPoint: {enabled: [{name: Reservation}, {name: NodeNUMAResource}]}}
  pluginConfig:
  - {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchExpressions: [{key: a, operator: Exists}]}]}}}}
"""


def test_extenders_have_the_names_and_defaults_of_the_internal_type() -> None:
    (extender,) = configz(load_config_text(CONFIG))["Extenders"]
    assert (extender["URLPrefix"], extender["HTTPTimeout"]) == ("http://e", "5s")
    files = {"CertFile": "", "KeyFile": "", "CAFile": ""}
    assert extender["TLSConfig"] == {
        "Insecure": True, "ServerName": "e", **files, "CertData": None, "KeyData": None, "CAData": None,
    }  # fmt: skip


def test_what_is_of_the_api_keeps_its_names_and_leaves_out_what_is_empty() -> None:
    shown = configz(load_config_text(CONFIG))
    args = {entry["Name"]: entry["Args"] for entry in shown["Profiles"][0]["PluginConfig"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    assert args["NodeAffinity"] == {"AddedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert (args["Reservation"]["GCDurationSeconds"], args["NodeNUMAResource"]["NUMAScoringStrategy"]["Type"]) == (86400, "LeastAllocated")
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown
