"""What the code, the tests and the documents cite exists: files, sections, lines of checklists, headings and decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.citations import DOCS, ROOT, SPEC, problems

FOLDERS = ("bench", "config", "docs", "examples", "koordsched", "plugins", "tests")
KINDS = {".md", ".pxd", ".py", ".pyi", ".pyx", ".sh", ".toml", ".yaml", ".yml"}
DIFFERENCE = re.compile(r"\*Here:\* \[([^]]+)\]\(\.\./differences\.md#")
NOT_READ = {Path(__file__), ROOT / "tests" / "support" / "citations.py"}  # their citations are examples


def files() -> list[Path]:
    """Return the files of the repository that may cite, without what builds and environments leave behind."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "build" not in path.relative_to(ROOT).parts]
    return [path for path in found if (path.suffix in KINDS or path.name in {"Makefile", "Dockerfile"}) and path not in NOT_READ]


def test_every_citation_names_a_file_and_a_part_of_it_that_exist() -> None:
    read = files()
    assert len(read) > 500
    found = {f"{path.relative_to(ROOT)}:{problem}" for path in read for problem in problems(path.read_text(encoding="utf-8"), path)}
    assert sorted(found) == []


@pytest.mark.parametrize(
    ("text", "place", "wanted"),
    [
        ("as framework.md §5.2 says", "koordsched/a.py", []),
        ("hot path 3 of layout.md", "koordsched/a.py", ["1: layout.md: layout.md has no file"]),
        ("as framework.md 5.2 says", "koordsched/a.py", ["1: framework.md: framework.md has no sign: write § before the number"]),
        ("nothing\n(framework.md §99)", "koordsched/a.py", ["2: §99: framework.md has no section 99"]),
        ("framework.md §5, and then §5.9", "koordsched/a.py", ["1: §5.9: framework.md has no section 5.9"]),
        ("framework.md §7.4.c", "koordsched/a.py", []),
        ("framework.md §7.4.h", "koordsched/a.py", ["1: §7.4.h: framework.md has no h in section 7.4"]),
        ("framework.md §7.99", "koordsched/a.py", ["1: §7.99: framework.md has no section 7.99"]),
        (
            "framework.md §13 lines 9, 15 and\n# 99",
            "koordsched/a.py",
            ["1: §13 lines 9, 15 and # 99: framework.md has no item 99 in section 13"],
        ),
        ("framework.md, checklist 1-3", "tests/scenarios/a.yaml", []),
        ("framework.md, checklist 98", "tests/scenarios/a.yaml", ["1: checklist 98: framework.md has no item 98 in section 13"]),
        ("nodenumaresource.md D7 and D99", "koordsched/a.py", ["1: D99: nodenumaresource.md has no decision D99"]),
        ("nodenumaresource.md D3-D5", "koordsched/a.py", []),
        ("without a document §5", "koordsched/a.py", ["1: §5: no document is named before it"]),
        ("or a checklist 5", "koordsched/a.py", ["1: checklist 5: no document is named before it"]),
        ("here §99", "docs/spec/framework.md", ["1: §99: framework.md has no section 99"]),
        ("framework.md §5.2, then §1.1", "docs/spec/a.md", ["1: §1.1: a.md has no section 1.1"]),
        ('scenarios.md "Objects"', "koordsched/a.py", []),
        ('scenarios.md "Elsewhere"', "koordsched/a.py", ["1: scenarios.md \"Elsewhere\": scenarios.md has no heading 'Elsewhere'"]),
        ("[d](differences.md#deliberate)", "docs/a.md", []),
        ("[d](differences.md#nowhere)", "docs/a.md", ["1: differences.md#nowhere: differences.md has no anchor nowhere"]),
        ("[d](../differences.md)", "docs/spec/a.md", []),
        ("[d](../no/differences.md)", "docs/spec/a.md", ["1: ../no/differences.md: ../no/differences.md has no file"]),
        ("see scheduler/cycle.py and koordsched/_core/table.pyx", "docs/a.md", []),
        ("see scheduler/gone.py", "docs/a.md", ["1: scheduler/gone.py: no file"]),
        ("https://example.com/some.md", "koordsched/a.py", []),
    ],
)
def test_what_a_citation_may_name(text: str, place: str, wanted: list[str]) -> None:
    assert list(problems(text, ROOT / place)) == wanted


def differences() -> list[str]:
    """Return the first cells of the rows of docs/differences.md, without heads of tables."""
    rows = re.findall(r"^\| (.+?) \| ", (DOCS / "differences.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [row for row in rows if row != "what"]


def named_in_specifications() -> list[tuple[str, str]]:
    """Return page and words of each difference that a page of docs/spec names."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in SPEC.glob("*.md")}
    return [(name, " ".join(words.split())) for name, page in pages.items() for words in DIFFERENCE.findall(page)]


def test_a_difference_that_a_specification_names_is_an_entry_of_differences() -> None:
    named = named_in_specifications()
    assert len(named) > 80
    assert [(name, words) for name, words in named if not any(entry.startswith(words) for entry in differences())] == []


def test_each_entry_of_differences_is_named_by_a_specification() -> None:
    named = [words for _, words in named_in_specifications()]
    assert len(differences()) > 80
    assert [entry for entry in differences() if not any(entry.startswith(words) for words in named)] == []
