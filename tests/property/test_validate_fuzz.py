"""`validate --objects` on objects with anything in any field: lines and an exit code, never a traceback."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, ELASTIC_QUOTA_PROFILE, NODE, NODE_METRIC, NODE_RESOURCE_TOPOLOGY, POD, POD_GROUP
from koordsched.api.koordinator.quota_definitions import PREFIX
from koordsched.quotas.rules import QuotaGates
from koordsched.validate.command import GATES, ValidateOptions, run_validate

if TYPE_CHECKING:
    from pathlib import Path

ANNOTATIONS = (
    "shared-weight",
    "namespaces",
    "total-resource",
    "max-strict-check-resource-keys",
    "admission",
    "child-request",
    "guaranteed",
    "resource-keys",
)
LABELS = ("parent", "is-parent", "tree-id", "is-root", "name")
KINDS = (
    ELASTIC_QUOTA,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_PROFILE,
    POD,
    NODE,
    DEVICE,
    NODE_METRIC,
    POD_GROUP,
    NODE_RESOURCE_TOPOLOGY,
)

anything = st.sampled_from(
    [None, 1, -1, 1.5, True, 10**30, "x", "", "1e400", "{", "null", '["x"]', '{"cpu": [1]}', '{"cpu": null}', '{"cpu": "1"}']
) | st.sampled_from([[], {}, [1], {"a": 1}, {"cpu": [1]}, {"cpu": None}, {"cpu": 1}, {"cpu": 2}, {"matchLabels": {}}])  # fmt: skip
names = st.sampled_from(["a", "b", "c"])
metadata = st.fixed_dictionaries(
    {"name": names},
    optional={
        "labels": st.dictionaries(st.sampled_from(LABELS).map(PREFIX.__add__), st.sampled_from(["true", "a", "b", "c", ""])) | anything,
        "annotations": st.dictionaries(
            st.sampled_from(ANNOTATIONS).map(PREFIX.__add__), anything.filter(lambda value: isinstance(value, str))
        )
        | anything,
    },
)
containers = st.just([{"name": "m", "image": "i", "resources": {"requests": {"cpu": 1}}}]) | anything
templates = st.fixed_dictionaries({"metadata": metadata, "spec": st.fixed_dictionaries({"containers": containers})}) | anything
fields: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("max", "min", "nodeSelector", "resourceRatio", "quotaLabels", "devices", "minMember"), anything),
    "quotaName": names | anything,
    "containers": containers,
    "template": templates,
}
specs = st.fixed_dictionaries({}, optional=fields) | anything
statuses = st.fixed_dictionaries({}, optional=dict.fromkeys(("used", "allocatable", "nodeMetric", "conditions"), anything)) | anything


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(KINDS))
    return {
        "apiVersion": kind.api_version,
        "kind": draw(st.sampled_from([kind.kind] * 9 + ["Deployment"])),
        "metadata": draw(metadata | anything),
        "spec": draw(specs),
        "status": draw(statuses),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=150)
@given(
    st.lists(objects(), min_size=1, max_size=8),
    st.lists(objects(), max_size=4),
    st.sets(st.sampled_from(sorted(GATES.values()))),
    st.sampled_from(["text", "yaml"]),
)
def test_whatever_is_handed_in_ends_in_lines_and_an_exit_code(
    folder: Path, given_: list[dict[str, Any]], there: list[dict[str, Any]], gates: set[str], output: str
) -> None:
    for name, bodies in (("objects.json", given_), ("cluster.json", there)):
        (folder / name).write_text("\n".join(map(json.dumps, bodies)), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    options = ValidateOptions(
        objects=(str(folder / "objects.json"),),
        cluster=(str(folder / "cluster.json"),),
        gates=QuotaGates(**dict.fromkeys(gates, True)),
        output=output,
    )
    code = run_validate(options, out, err)
    problems = [line for line in err.getvalue().splitlines() if not line.startswith(("warning: ", "note: "))]
    assert code == (1 if problems else 0)
    assert [line for line in problems if not line.startswith(f"{folder}/objects.json: document ")] == []
