"""`koord-scheduler validate`: a summary and 0, or every mistake and 1; and the doubts about a valid configuration."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from koordsched.config import load_config_text
from koordsched.config.loading import DEFAULT_FILE
from koordsched.config.validate import config_warnings, validate_command

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def validate(path: Path | str) -> tuple[int, list[str], list[str]]:
    out, err = io.StringIO(), io.StringIO()
    code = validate_command(str(path), out, err)
    return code, out.getvalue().splitlines(), err.getvalue().splitlines()


def test_a_valid_file_is_summed_up_by_profile_and_point() -> None:
    code, out, err = validate(DEFAULT_FILE)
    assert (code, err) == (0, [])
    assert out[0] == "profile koord-scheduler (percentageOfNodesToScore 0)"
    assert out[2] == "  queueSort   PrioritySort"
    assert "  bind        Reservation DefaultBinder" in out
    assert any(line.endswith("DeviceShare(1) Reservation(5000) Coscheduling(1)") for line in out)
    assert len(out) == 13


def test_profiles_are_summed_up_one_after_the_other_with_their_own_percentage(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(
        f"{HEADER}percentageOfNodesToScore: 50\nprofiles: [{{schedulerName: a}}, {{schedulerName: b, percentageOfNodesToScore: 0}}]\n"
    )
    _, out, _ = validate(path)
    assert [line for line in out if line.startswith("profile")] == [
        "profile a (percentageOfNodesToScore 50)",
        "profile b (percentageOfNodesToScore 0)",
    ]
    assert "  permit      -" in out


def test_an_invalid_file_gives_one_line_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"{HEADER}parallelism: 0\nprofile: []\n")
    assert validate(path) == (
        1,
        [],
        [
            f"{path}: document 1: parallelism: Invalid value: 0: should be an integer value greater than zero (line 3)",
            f'{path}: document 1: profile: []: strict decoding error: unknown field "profile", did you mean "profiles"? (line 4)',
        ],
    )


def test_a_missing_file_gives_one_line(tmp_path: Path) -> None:
    path = tmp_path / "missing.yaml"
    assert validate(path) == (1, [], [f"{path}: document 1: (root): cannot be read: No such file or directory"])


def test_a_dash_means_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{HEADER}parallelism: x\n".encode())))
    assert validate("-") == (1, [], ['-: document 1: parallelism: "x": expected an integer (line 3)'])


def test_warnings_go_beside_the_summary(tmp_path: Path) -> None:
    path = tmp_path / "doubtful.yaml"
    path.write_text(f"{HEADER}profiles: [{{plugins: {{preBind: {{disabled: [{{name: DefaultPreBind}}]}}}}}}]\n")
    code, out, err = validate(path)
    assert code == 0
    assert out[0] == "profile default-scheduler (percentageOfNodesToScore 0)"
    assert err == [
        "warning: profile default-scheduler: DefaultPreBind is disabled at preBind: "
        "what other plugins allocate is not written to the pods' annotations"
    ]


@pytest.mark.parametrize(
    ("plugins", "warning"),
    [
        ("filter: {enabled: [{name: Reservation}]}", "Reservation is enabled but not at reserve"),
        (
            "filter: {disabled: [{name: NodeResourceFit}]}",
            'plugins.filter.disabled names "NodeResourceFit", which does not exist, did you mean "NodeResourcesFit"?',
        ),
        ("preBind: {enabled: [{name: NodeNUMAResource}], disabled: [{name: '*'}]}", "DefaultPreBind is disabled at preBind"),
    ],
)
def test_a_valid_configuration_may_be_doubtful(plugins: str, warning: str) -> None:
    config = load_config_text(f"{HEADER}profiles:\n- plugins:\n    {plugins}\n")
    (found,) = config_warnings(config)
    assert found.startswith(f"profile default-scheduler: {warning}")


def test_disabling_a_plugin_that_kubernetes_removed_is_not_doubtful() -> None:
    config = load_config_text(f"{HEADER}profiles: [{{plugins: {{filter: {{disabled: [{{name: EBSLimits}}]}}}}}}]\n")
    assert list(config_warnings(config)) == []
