"""Whatever is handed in as a configuration, it is either used or refused by mistakes that name file, document and path."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ways import ways

from koordsched.config import REFERENCE, ConfigError, ConfigMistake, SchedulerConfiguration, load_config_text
from koordsched.config.extension_points import EXTENSION_POINTS
from koordsched.config.loading import DEFAULT_FILE
from koordsched.config.writing import dump_config

FILE = "fuzzed.yaml"
LINE = re.compile(r"fuzzed\.yaml: document [1-9][0-9]*: \S[^\n]*: [^\n]+")

TEXT = Path(DEFAULT_FILE).read_bytes()
VALID: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 16,
    "podMaxBackoffSeconds": 10,
    "clientConnection": {"qps": 50, "burst": 100},
    "leaderElection": {"leaseDuration": "15s", "resourceName": "name"},
    "extenders": [{"urlPrefix": "http://e", "httpTimeout": "5s", "managedResources": [{"name": "a.b/c"}], "tlsConfig": {"caData": "aA=="}}],
    "profiles": [
        {
            "schedulerName": "a",
            "percentageOfNodesToScore": 5,
            "plugins": {
                "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]},
                "multiPoint": {"enabled": [{"name": "Reservation"}, {"name": "LoadAwareScheduling"}, {"name": "ImageLocality"}]},
                "score": {"enabled": [{"name": "Reservation", "weight": 5000}, {"name": "NodeResourcesFitPlus"}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                },
                {"name": "LoadAwareScheduling", "args": {"resourceWeights": {"cpu": 1}, "aggregated": {"usageAggregatedDuration": "5m"}}},
                {"name": "ElasticQuota", "args": {"defaultQuotaGroupMax": {"cpu": "5"}}},
                {
                    "name": "PodTopologySpread",
                    "args": {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "z"}]},
                },
                {"name": "NodeName", "args": {"any": [1]}},
                {"name": "Reservation", "args": {"preAllocationConfig": {"enableClusterMode": True}}},
                {"name": "NodeResourcesFitPlus", "args": {"resources": {"cpu": {"type": "MostAllocated", "weight": 1}}}},
            ],
        }
    ],
}
VALID["profiles"][0]["pluginConfig"][3]["args"]["defaultConstraints"][0]["whenUnsatisfiable"] = "ScheduleAnyway"

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**80), max_value=10**80)
    | st.floats()
    | st.sampled_from(
        ["", "*", "5s", "-1h", "10x", "1e999", "0x1F", "~", "NodePorts", "NodePort", "EBSLimits", "a/b/c", "x" * 300, "\u202e", "y"]
    )
    | st.text(max_size=12)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6
)


def mutate(data: st.DataObject, value: Any) -> None:
    """Change one place of a document."""
    path = data.draw(st.sampled_from(ways(value) or [()]))
    if not path:
        return
    owner = value
    for key in path[:-1]:
        owner = owner[key]
    match data.draw(st.sampled_from(["replace", "delete", "unknown", "rename", "repeat"])):
        case "replace":
            owner[path[-1]] = data.draw(values)
        case "delete":
            del owner[path[-1]]
        case "unknown" if isinstance(owner, dict):
            owner[data.draw(st.text(max_size=12))] = data.draw(values)
        case "rename" if isinstance(owner, dict):
            owner[f"{path[-1]}s"] = owner.pop(path[-1])
        case _:
            if isinstance(owner, list):
                owner.append(copy.deepcopy(owner[path[-1]]))


def check(text: str | bytes) -> SchedulerConfiguration | None:
    mistakes: tuple[ConfigMistake, ...] | None = None
    try:
        config = load_config_text(text, name=FILE)
    except ConfigError as refused:
        mistakes = refused.errors
    if mistakes is not None:
        assert mistakes
        assert [str(mistake) for mistake in mistakes if not LINE.fullmatch(str(mistake))] == []
        return None
    check_points(config)
    assert load_config_text(dump_config(config)) == config
    return config


def check_points(config: SchedulerConfiguration) -> None:
    for profile in config.profiles:
        assert tuple(profile.points) == tuple(point.name for point in EXTENSION_POINTS)
        assert len(profile.points["queueSort"]) == 1
        assert profile.points["bind"]
        for point, refs in profile.points.items():
            names = [ref.name for ref in refs]
            assert len(names) == len(set(names))
            assert all(point in REFERENCE.points[name] for name in names)
            assert all(bool(ref.weight) == (point == "score") for ref in refs)


@settings(max_examples=700)
@given(st.data(), st.integers(min_value=1, max_value=3))
def test_a_configuration_changed_anywhere_is_used_or_refused_by_place(data: st.DataObject, mutations: int) -> None:
    value = copy.deepcopy(VALID)
    for _ in range(mutations):
        mutate(data, value)
    check(json.dumps(value, ensure_ascii=False))


def test_a_line_break_in_a_name_does_not_break_the_line_that_names_it() -> None:
    for point in ("preFilter", "multiPoint", "queueSort"):
        value = copy.deepcopy(VALID)
        value["profiles"][0]["schedulerName"] = "a\nb"
        value["profiles"][0].setdefault("plugins", {})[point] = {"enabled": [{"name": "\nDeviceShare"}, {"name": "\nDeviceShare"}]}
        assert check(json.dumps(value)) is None


def test_the_configuration_that_is_changed_is_valid_itself() -> None:
    config = check(yaml.safe_dump(VALID))
    assert config is not None
    assert config == check(json.dumps(VALID))


@settings(max_examples=300)
@given(st.data())
def test_a_configuration_with_broken_bytes_is_used_or_refused_by_place(data: st.DataObject) -> None:
    text = bytearray(TEXT)
    for _ in range(data.draw(st.integers(min_value=1, max_value=4))):
        start = data.draw(st.integers(min_value=0, max_value=len(text)))
        end = data.draw(st.integers(min_value=start, max_value=min(start + 40, len(text))))
        text[start:end] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from(
                [b"\n---\n", b"&a ", b"*a", b"<<: *a\n", b"{", b"[[", b"!!int ", b"\t", b"\xff", b"\x00", b"? ", b"- ", b"'", b'"', b"|"]
            )
        )
    check(bytes(text))


lines = st.sampled_from(
    [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "kind: KubeSchedulerConfiguration",
        "parallelism: 3",
        "parallelism: 4",
        "base: &a {parallelism: 5}",
        "<<: *a",
        "<<: [*a, *a]",
        "<<: *b",
        "profiles: &p [{schedulerName: x}]",
        "profiles: *p",
        "extenders: &e [&f {urlPrefix: x}, *f, *e]",
        "leaderElection: &l {leaseDuration: &d 15s, renewDeadline: *d}",
        "---",
        "...",
        "b: &b [*b, *a, *a, *a]",
        "? [complex]",
        "? *a",
        "%YAML 1.1",
        "!!map {parallelism: !!int 7}",
        "[" * 200,
        "{a: " * 200,
    ]
)


@settings(max_examples=300)
@given(st.lists(lines, max_size=10))
def test_anchors_aliases_merges_and_several_documents_are_used_or_refused_by_place(chosen: list[str]) -> None:
    check("\n".join(chosen))


@settings(max_examples=200)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_used_or_refused_by_place(text: str | bytes) -> None:
    check(text)


@given(st.integers(min_value=2, max_value=9), st.integers(min_value=4, max_value=40))
def test_an_alias_bomb_is_refused_before_it_unfolds(width: int, depth: int) -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, depth)]
    assert check("\n".join(["l0: &l0 [x]", *levels])) is None


@given(st.sampled_from(["[", "{a: ", "- ", "a:\n ", "? "]), st.integers(min_value=1, max_value=3000))
def test_deep_nesting_is_refused_at_any_depth(opening: str, depth: int) -> None:
    assert check(opening * depth) is None
