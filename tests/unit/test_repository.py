"""What must stay true of the repository itself, which no compiler and no linter looks at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from koordsched.api.koordinator.priority import CLASS_VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CORE = ROOT / "koordsched" / "_core"
SCENARIO_FIELDS = {"differs", "name", "why", "config", "args", "given", "steps"}
VERBS = {"create", "patch", "delete", "wait", "restart", "expect"}


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def source_files() -> list[Path]:
    """Return what git would carry: tracked files and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def scenarios() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted((ROOT / "tests" / "scenarios").glob("*.yaml")):
        for document in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            yield file.name, document


def test_the_priority_classes_to_install_are_those_of_the_embedded_cluster() -> None:
    classes = list(yaml.load_all(text_of("config/priority-classes.yaml"), Loader=yaml.CSafeLoader))
    assert {made["metadata"]["name"]: made["value"] for made in classes} == {band.value: value for band, value in CLASS_VALUES.items()}
    assert {(made["apiVersion"], made["kind"], made["preemptionPolicy"]) for made in classes} == {
        ("scheduling.k8s.io/v1", "PriorityClass", "PreemptLowerPriority")
    }


def test_readme_names_only_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), flags=re.MULTILINE))
    documents = text_of("README.md") + text_of("CONTRIBUTING.md") + text_of(".ci/run")
    named = set(re.findall(r"^(?:step |.*`)?make ([a-z]+)", documents, flags=re.MULTILINE))
    assert {"demo", "test", "lint", "checked", "sanitize"} <= named
    assert named <= targets


def test_every_make_target_is_explained_by_make_help() -> None:
    makefile = text_of("Makefile")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert phony is not None
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*## \w", makefile, flags=re.MULTILINE), target


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [path for path in source_files() if path.suffix == ".md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)}: {target}"


def test_copies_in_the_chart_are_what_stands_elsewhere() -> None:
    """Helm packs nothing from outside a chart, and a symbolic link is no file everywhere."""
    folder = ROOT / "config" / "chart" / "files"
    originals = {path.name: path for path in (ROOT / "config").glob("*.*")} | {
        path.name: path for path in (ROOT / "config/monitoring").iterdir()
    }
    copies = sorted(folder.iterdir())
    assert [copy.name for copy in copies] == ["dashboard.json", "priority-classes.yaml", "prometheusrule.yaml", "rbac.yaml"]
    for copy in copies:
        assert not copy.is_symlink()
        assert copy.read_bytes() == originals[copy.name].read_bytes(), f"cp {originals[copy.name].relative_to(ROOT)} config/chart/files/"


def test_ci_is_an_executable_script_that_stops_at_the_first_failure() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert text_of(".ci/run").startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text_of(".ci/run")


def test_image_copies_what_exists_and_starts_the_scheduler() -> None:
    instructions = [line.split() for line in text_of("Dockerfile").splitlines() if line and not line.startswith((" ", "#"))]
    copies = [words[1:-1] for words in instructions if words[0] == "COPY" and not words[1].startswith("--from=")]
    sources = [source for words in copies for source in words]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    last = instructions[-1]
    assert last[0] == "ENTRYPOINT"
    assert json.loads(" ".join(last[1:])) == list(tomllib.loads(text_of("pyproject.toml"))["project"]["scripts"])[:1]


def test_what_the_image_copies_is_sent_to_its_builder() -> None:
    kept = {line.removeprefix("!") for line in text_of(".dockerignore").splitlines() if line.startswith("!")}
    copied = {source for line in text_of("Dockerfile").splitlines() if re.match(r"COPY (?!--from)", line) for source in line.split()[1:-1]}
    assert copied == kept


def test_image_builds_and_runs_the_same_python_on_bases_that_cannot_change() -> None:
    stages = re.findall(r"^FROM (\S+)@sha256:[0-9a-f]{64}(?: AS \w+)?$", text_of("Dockerfile"), flags=re.MULTILINE)
    assert stages == ["python:3.13-slim-trixie", "gcr.io/distroless/python3-debian13:nonroot"]  # Debian 13's Python is 3.13
    assert text_of("Dockerfile").count("FROM ") == len(stages)


def locked(path: str) -> dict[str, tuple[str, int]]:
    """Return what a lock file holds for the image's Python: version and number of hashes by name."""
    found: dict[str, tuple[str, int]] = {}
    platform = {
        "python_version": "3.13",
        "python_full_version": "3.13.0",
        "sys_platform": "linux",
        "platform_python_implementation": "CPython",
    }
    for entry in re.split(r"\n(?=[a-z])", re.sub(r"^ *#.*\n", "", text_of(path), flags=re.MULTILINE)):
        requirement = Requirement(entry.split("\\")[0])
        [pinned] = requirement.specifier
        assert pinned.operator == "==", entry
        if requirement.marker is None or requirement.marker.evaluate({**platform, "implementation_name": "cpython"}):
            found[canonicalize_name(requirement.name)] = (pinned.version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)))
    return found


@pytest.mark.parametrize(
    ("path", "ranges"),
    [("requirements.lock", ("project", "dependencies")), ("requirements-build.lock", ("build-system", "requires"))],
)
def test_lock_holds_what_is_asked_for_by_hash_and_from_wherever_the_builder_gets_its_packages(path: str, ranges: tuple[str, str]) -> None:
    lock = locked(path)
    table, key = ranges
    for text in tomllib.loads(text_of("pyproject.toml"))[table][key]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(lock[canonicalize_name(requirement.name)][0]), text
    assert [name for name, (_, hashes) in lock.items() if not hashes] == []
    assert "://" not in text_of(path)
    assert f"--require-hashes --only-binary :all: --requirement {path}" in text_of("Dockerfile")


def test_core_is_built_with_the_numpy_that_it_runs_with() -> None:
    assert locked("requirements-build.lock")["numpy"] == locked("requirements.lock")["numpy"]


def test_whoever_decodes_json_expects_all_that_is_raised_for_bad_bytes() -> None:
    """msgspec raises UnicodeDecodeError and RecursionError beside DecodeError: JSON_ERRORS of api/meta.py holds all three."""
    narrow = re.compile(r"except \(?[^:\n]*msgspec\.DecodeError")
    sources = [path for path in source_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "koordsched")]
    found = {str(path.relative_to(ROOT)) for path in sources if narrow.search(path.read_text(encoding="utf-8"))}
    assert found <= {"koordsched/api/koordinator/reading.py"}  # it decodes texts, and names deep nesting


def test_every_compiled_module_declares_its_data_and_its_python_surface() -> None:
    sources = sorted(CORE.glob("*.pyx"))
    assert sources
    for source in sources:
        assert source.with_suffix(".pyi").exists(), source.name
        assert source.with_suffix(".pxd").exists(), source.name


def test_core_imports_nothing_of_the_rest() -> None:
    """import-linter reads only .py files; this holds the compiled ones to the same rule."""
    for source in [*CORE.glob("*.pyx"), *CORE.glob("*.pxd")]:
        imported = re.findall(r"^\s*(?:from|c?import)\s+(koordsched[\w.]*)", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert [name for name in imported if not name.startswith("koordsched._core")] == [], source.name


def test_no_file_names_a_place_of_this_machine() -> None:
    places = re.compile(r"(?<![\w.])/(?:work|home|root)/")
    for path in source_files():
        if path.name != Path(__file__).name:
            found = places.search(path.read_bytes().decode(errors="replace"))
            assert found is None, f"{path.relative_to(ROOT)}: {found[0] if found else ''}"


def test_nothing_that_was_built_is_carried_along() -> None:
    built = {".so", ".c", ".pyc", ".o", ".whl"}
    assert [path.name for path in source_files() if path.suffix in built] == []


def test_scenario_names_are_unique_and_in_kebab_case() -> None:
    names = Counter(document["name"] for _, document in scenarios())
    assert names.total() >= 75
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_every_scenario_says_why_and_expects_something() -> None:
    for file, document in scenarios():
        assert set(document) <= SCENARIO_FIELDS, f"{file}: {document['name']}"
        assert document["why"].rstrip().endswith("."), f"{file}: {document['name']}"
        verbs = [verb for step in document["steps"] for verb in step]
        assert set(verbs) <= VERBS, f"{file}: {document['name']}"
        assert "expect" in verbs, f"{file}: {document['name']}"


@pytest.mark.parametrize("name", ["nodes.yaml", "pods.yaml"])
def test_demo_manifests_are_complete_objects(name: str) -> None:
    documents = list(yaml.load_all(text_of(f"examples/demo/{name}"), Loader=yaml.CSafeLoader))
    keys = [(document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"]) for document in documents]
    assert len(keys) == len(set(keys)) >= 20
