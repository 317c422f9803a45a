"""GPU shared resource templates: deviceshare.md §2 to §4 and §15."""

from __future__ import annotations

import pytest
from support.plugins import WatchingBench

from koordsched.api.kinds import CONFIG_MAP
from koordsched.api.meta import ObjectMeta, Unstructured
from koordsched.plugins.deviceshare.templates import SharedTemplates, shared_templates

NAMESPACE, NAME = "koordinator-system", "gpu-shared-resource-templates"
KEY = "huawei-Ascend-310P3"
ASCEND = """
huawei-Ascend-310P3:
  vir01: {huawei.com/npu-core: 1, huawei.com/npu-cpu: "1", koordinator.sh/gpu-memory: 3Gi}
  vir02: {huawei.com/npu-core: 2, huawei.com/npu-cpu: "2", koordinator.sh/gpu-memory: 6Gi}
  vir02_1c: {huawei.com/npu-core: 2, huawei.com/npu-cpu: "1", koordinator.sh/gpu-memory: 6Gi}
huawei-Ascend-910:
  vir02: {huawei.com/npu-core: 2, huawei.com/npu-cpu: "2", koordinator.sh/gpu-memory: 6Gi}
"""
VIR02 = {"huawei.com/npu-core": 2, "huawei.com/npu-cpu": 2, "koordinator.sh/gpu-memory": 6 << 30}


class TemplatesBench(WatchingBench):
    """A bench on which the ConfigMap comes and goes. `events`: what was reported on it."""

    def __init__(self) -> None:
        super().__init__()
        self.versions = 0

    def configure(self, text: object, name: str = NAME, namespace: str = NAMESPACE) -> None:
        """Let the ConfigMap hold this under data.yaml; None: it has no data."""
        self.versions += 1
        raw = {} if text is None else {"data": {"data.yaml": text}}
        meta = ObjectMeta(name=name, namespace=namespace, resource_version=str(self.versions))
        self.came(CONFIG_MAP, Unstructured("v1", "ConfigMap", meta, raw))

    def deconfigure(self) -> None:
        self.went(CONFIG_MAP, f"{NAMESPACE}/{NAME}")


def started(bench: TemplatesBench, name: str = NAME) -> SharedTemplates:
    return shared_templates(bench, NAMESPACE, name)


def test_a_request_matches_what_is_exactly_the_same_in_every_model() -> None:
    bench = TemplatesBench()
    templates = started(bench)
    assert templates.matching(VIR02) == {}
    bench.configure(ASCEND)
    assert templates.matching(VIR02) == {KEY: ["vir02"], "huawei-Ascend-910": ["vir02"]}
    assert templates.matching(VIR02 | {"huawei.com/npu-cpu": 1}) == {KEY: ["vir02_1c"]}
    assert templates.matching(VIR02 | {"huawei.com/npu-dvpp": 100}) == {}
    assert templates.matching({"huawei.com/npu-core": 2}) == {}


def test_two_templates_of_a_model_that_are_the_same_both_match() -> None:
    bench = TemplatesBench()
    templates = started(bench)
    bench.configure("m: {b: {huawei.com/npu-core: 1}, a: {huawei.com/npu-core: 1000m}}")
    assert templates.matching({"huawei.com/npu-core": 1}) == {"m": ["a", "b"]}


def test_templates_that_were_there_before_the_plugin_are_known() -> None:
    bench = TemplatesBench()
    bench.configure(ASCEND)
    assert started(bench).matching(VIR02)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "data.yaml: line 2, column 1: not valid YAML"),
        ("a: {b: [c]}", 'data.yaml: a.b: expected a mapping: ["c"]'),
        ("a: none", 'data.yaml: a: expected a mapping: "none"'),
        ("[]", "data.yaml: the text: expected a mapping: []"),
        ("a: {b: {npu: much}}", 'data.yaml: a.b[npu]: expected a quantity: "much"'),
        ("a: {b: {npu: [1]}}", "data.yaml: a.b[npu]: expected a quantity: [1]"),
        ("a: {}\na: {}", 'data.yaml: a: {}: strict decoding error: duplicate field "a", first given on line 1'),
        (5, "data.yaml: expected a text: 5"),
    ],
)
def test_what_cannot_be_read_changes_nothing_and_is_reported_on_the_config_map(text: object, problem: str) -> None:
    bench = TemplatesBench()
    templates = started(bench)
    bench.configure(ASCEND)
    before = templates.version
    bench.configure(text)
    assert (templates.version, bool(templates.matching(VIR02))) == (before, True)
    assert len(bench.said) == 2
    assert bench.said[0] == "malformed ConfigMap"
    assert problem in bench.said[1]
    bench.configure(text)
    assert len(bench.said) == 2


@pytest.mark.parametrize("text", [None, "", "null", "{}"])
def test_no_text_means_no_templates(text: str | None) -> None:
    bench = TemplatesBench()
    templates = started(bench)
    bench.configure(ASCEND)
    bench.configure(text)
    assert templates.matching(VIR02) == {}
    assert not bench.said


def test_a_deleted_config_map_means_no_templates() -> None:
    bench = TemplatesBench()
    templates = started(bench)
    bench.configure(ASCEND)
    bench.deconfigure()
    assert templates.matching(VIR02) == {}


def test_the_version_moves_with_the_templates_only() -> None:
    bench = TemplatesBench()
    templates = started(bench)
    versions = []
    for text in (ASCEND, ASCEND + "\n", ASCEND.replace("6Gi", "7Gi"), ASCEND):
        bench.configure(text)
        versions.append(templates.version)
    assert versions == [1, 1, 2, 3]


def test_only_the_named_config_map_counts() -> None:
    bench = TemplatesBench()
    templates = started(bench)
    bench.configure(ASCEND, "other")
    bench.configure(ASCEND, NAME, "default")
    assert templates.matching(VIR02) == {}
    assert bench.informer(CONFIG_MAP).field_selector == f"metadata.namespace={NAMESPACE},metadata.name={NAME}"


def test_profiles_share_templates_and_may_name_two_config_maps() -> None:
    bench = TemplatesBench()
    templates, second = started(bench), started(bench, "others")
    assert started(bench) is templates
    bench.configure("m: {t: {huawei.com/npu-core: 1}}", "others")
    assert (templates.matching({"huawei.com/npu-core": 1}), second.matching({"huawei.com/npu-core": 1})) == ({}, {"m": ["t"]})
    assert bench.informer(CONFIG_MAP).field_selector == ""
