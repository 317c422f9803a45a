"""Documents hold what they say: their scenarios pass, and the texts that they quote are the scheduler's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from koordsched.cli import main
from koordsched.framework.preemption import rules as preemption
from koordsched.framework.topologymanager import UNALIGNED, UNSATISFIED
from koordsched.plugins.deviceshare import reasons as device_reasons
from koordsched.plugins.elasticquota import reasons as quota_reasons
from koordsched.plugins.elasticquota.preemption import NO_VICTIMS_IN_QUOTA
from koordsched.plugins.nodenumaresource import reasons
from koordsched.quotas import defaults as quota_defaults
from koordsched.quotas import pods as quota_pods
from koordsched.quotas import rules as quota_rules

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
ELSEWHERE = {"writing-plugins.md"}  # its scenarios are those of a plugin that is installed apart, and tested there
SCENARIO = re.compile(r"^```yaml\n(name: .*?)^```$", re.MULTILINE | re.DOTALL)


def scenarios() -> list[tuple[str, str]]:
    """Return the scenarios in the documents, each with where it stands."""
    return [
        (f"{path.relative_to(ROOT)}-{number}", text)
        for path in (README, *sorted(DOCS.rglob("*.md")))
        if path.name not in ELSEWHERE
        for number, text in enumerate(SCENARIO.findall(path.read_text(encoding="utf-8")))
    ]


def test_there_are_scenarios_in_the_documents() -> None:
    assert {"README.md-0", "docs/scenarios.md-0", "docs/plugins/nodenumaresource.md-0"} <= {name for name, _ in scenarios()}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in scenarios()])
def test_a_documents_scenario_passes(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    code = main(["test", str(tmp_path / "scenario.yaml")])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "1 passed, 0 failed")


@pytest.mark.parametrize(
    ("document", "before", "example"),
    [
        (README, "`make demo` prints", "demo"),
        (DOCS / "colocation.md", "`koord-scheduler simulate examples/colocation`", "colocation"),
        (ROOT / "docs/plugins/loadaware.md", "`koord-scheduler simulate examples/loadaware`", "loadaware"),
        (ROOT / "docs/plugins/elasticquota.md", "examples/quota-manifests/tree` prints:", "quota-manifests/tree"),
        (ROOT / "docs/plugins/coscheduling.md", "`koord-scheduler simulate examples/coscheduling`", "coscheduling"),
    ],
)
def test_a_document_shows_what_its_example_prints(document: Path, before: str, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = document.read_text(encoding="utf-8").partition(before)[2].split("```")[1]
    lines = [line.split() for line in shown.splitlines() if line]  # how wide columns are depends on how long a decision took
    assert main(["simulate", str(ROOT / "examples" / example)]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(lines) > 5
    assert [line for line in lines if line not in printed] == []


ARCHITECTURE = DOCS / "architecture.md"
ON_THE_CODE = (ARCHITECTURE, DOCS / "where.md", DOCS / "internals.md")
PATH = re.compile(r"`([\w./*<>-]+(?:\.pyx?|/))`")


def named_paths(line: str) -> list[Path]:
    """Return the files and folders that a line of a document names in code style; a bare name stands beside a path before it."""
    found: list[Path] = []
    for name in PATH.findall(line):
        pattern = re.sub(r"<\w+>", "*", name.rstrip("/"))
        beside = [path if path.is_dir() else path.parent for path in found]
        places = [ROOT / "koordsched", ROOT, *reversed(beside)]
        matches = [match for place in places for match in sorted(place.glob(pattern))]
        assert matches, f"{name} does not exist: {line}"
        found += matches
    return found


def test_the_architecture_is_a_page_and_a_picture() -> None:
    assert len(ARCHITECTURE.read_text(encoding="utf-8").split()) < 800, "what is not on a pod's way belongs into where.md or internals.md"


def test_paths_that_documents_on_the_code_name_exist() -> None:
    lines = [line for document in ON_THE_CODE for line in document.read_text(encoding="utf-8").splitlines()]
    named = [path for line in lines for path in named_paths(line)]
    links = [DOCS / target for line in lines for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", line)]
    assert len(named) > 120
    assert len(links) > 60
    assert [link for link in links if not link.exists()] == []


def test_functions_in_the_walk_of_a_pod_are_in_the_files_of_their_step() -> None:
    walk = ARCHITECTURE.read_text(encoding="utf-8").partition("## The walk of a pod")[2].partition("## Layers")[0]
    checked = 0
    for where in (row.split(" | ")[1] for row in walk.splitlines() if row.startswith("| ") and " | " in row):
        texts = [(ARCHITECTURE.parent / target).read_text(encoding="utf-8") for target in re.findall(r"\]\(([^)]+)\)", where)]
        for name in re.findall(r"(?<!\[)`(\w+)`", where):
            assert any(re.search(rf"(?:def|class) {name}\b", text) for text in texts), f"{name}: {where}"
            checked += 1
    assert checked >= 8


def test_every_refusal_of_nodenumaresource_is_explained() -> None:
    page = (DOCS / "plugins" / "nodenumaresource.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)`", page.partition("## What refused pods report")[2], flags=re.MULTILINE)
    fixed = [text for status in (*reasons.FIXED.values(), reasons.NO_ZONES) for text in status.reasons]
    parts = [text.partition("{")[0] for text in (*fixed, reasons.INSUFFICIENT, UNSATISFIED, UNALIGNED)]
    assert len(parts) > 10
    assert [part for part in parts if not any(text.startswith(part) for text in explained)] == []


def test_every_refusal_of_deviceshare_is_explained() -> None:
    page = (DOCS / "plugins" / "deviceshare.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)`", page.partition("## What refused pods report")[2], flags=re.MULTILINE)
    statuses = (*device_reasons.FIXED.values(), device_reasons.NO_NUMA_OF_DESIGNATED)
    texts = [text for status in statuses for text in status.reasons]
    texts += [device_reasons.INSUFFICIENT_DEVICES.format(type="gpu"), device_reasons.INSUFFICIENT_VFS.format(type="rdma")]
    texts.append(device_reasons.NO_HEALTHY_GPU.format(minor="N"))
    texts.append(device_reasons.SHARE_UNSUPPORTED.format(model="MODEL", vendor="VENDOR"))
    assert len(texts) > 15
    assert [text for text in texts if text not in explained] == []


def test_examples_of_deviceshare_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(ROOT / "examples" / "deviceshare")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "8 passed, 0 failed"


def test_every_refusal_of_elasticquota_is_explained() -> None:
    page = (DOCS / "plugins" / "elasticquota.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `([^`]+)`", page.partition("## What refused pods report")[2], flags=re.MULTILINE)
    texts = [text for name, text in vars(quota_reasons).items() if name.endswith("_TEXT")]
    statuses = (NO_VICTIMS_IN_QUOTA, preemption.NOT_HELPFUL, preemption.OVER_LIMIT, preemption.TERMINATING, preemption.POLICY_NEVER)
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in texts]
    patterns += [re.escape(text) for status in statuses for text in status.reasons]
    assert len(patterns) == 11
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, text) for text in explained)] == []


def test_a_document_shows_what_validate_says_of_an_example(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = (DOCS / "validate.md").read_text(encoding="utf-8").partition("prints, among more:")[2].split("```")[1].strip().splitlines()
    assert main(["validate", "--objects", "examples/quota-manifests/mistake"]) == 1
    out, err = capsys.readouterr()
    assert len(shown) == 4
    assert [line for line in shown if line not in [*out.splitlines(), *err.splitlines()]] == []
    for right in ("tree", "profile"):
        assert main(["validate", "--objects", f"examples/quota-manifests/{right}"]) == 0
        assert capsys.readouterr().err == ""


def test_texts_of_rules_that_the_page_explains_are_those_of_the_rules() -> None:
    page = (DOCS / "plugins" / "elasticquota.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \|", page.partition("## Before a cluster gets them")[2].partition("\n## ")[0], flags=re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    modules = (quota_rules, quota_defaults, quota_pods)
    texts = [text for module in modules for name, text in vars(module).items() if name.isupper() and isinstance(text, str)]
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in texts if "{" in text]
    assert len(quoted) == 11
    assert [text for text in quoted if not any(re.fullmatch(pattern, text) for pattern in patterns)] == []


def test_examples_of_reservations_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(ROOT / "examples" / "reservation")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 0 failed"


def test_examples_of_quotas_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(ROOT / "examples" / "quotas")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 0 failed"
