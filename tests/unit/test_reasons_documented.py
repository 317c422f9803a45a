"""docs/reasons.md lists every text that the scheduler gives as a reason, and every event; docs/plugins has a place for every plugin."""

from __future__ import annotations

import re
from pathlib import Path

from support.reasons import events, reasons

from koordsched.plugins import REGISTRY

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reasons.md").read_text(encoding="utf-8")
NO_REASONS = {
    "so the clock of the node or of the scheduler is wrong, by seconds",  # the unit of a log line's number
    "unbound claim ",  # what a volume without a handle counts as
}


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables' rows but their heads."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")]


def test_the_collector_finds_texts_of_each_kind() -> None:
    found = reasons()
    assert len(found) > 130
    assert {
        "Too many pods",
        "node(s) * usage exceed threshold",
        "Insufficient *",
        'GangGroup "*" gets rejected due to *, alreadyWaitForBound: *',
    } <= found.keys()
    assert {"Scheduled", "FailedScheduling", "Preempted", "InvalidNUMATopology"} <= events().keys()


def test_every_reason_is_in_the_list() -> None:
    listed = [cells[0].strip("`") for cells in rows(PAGE)]
    missing = [
        f"{where}: {text}"
        for text, where in reasons().items()
        if text not in NO_REASONS and not any(re.fullmatch(re.escape(text).replace(r"\*", ".+"), known) for known in listed)
    ]
    assert missing == []


def test_every_event_is_in_the_list() -> None:
    table = PAGE.partition("## Events")[2].partition("\n## ")[0]
    assert events().keys() - {cells[0].strip("`") for cells in rows(table)} == set()


def test_every_reason_says_what_to_do() -> None:
    assert [cells[0] for cells in rows(PAGE) if len(cells) < 2 or not cells[1]] == []


def test_every_plugin_has_a_place_in_the_documents() -> None:
    index = (DOCS / "plugins" / "README.md").read_text(encoding="utf-8")
    pages = {
        line.split(" | ")[0].strip("| "): re.findall(r"\]\(([\w.]+)(?:#(\w+))?\)", line)
        for line in index.splitlines()
        if line.startswith("| ")
    }
    assert pages.keys() - {"plugin"} == REGISTRY.keys()
    for name, links in pages.items():
        for page, anchor in links:
            text = (DOCS / "plugins" / page).read_text(encoding="utf-8")
            assert not anchor or any(heading.lower() == anchor for heading in re.findall(r"^## (\w+)$", text, re.MULTILINE)), (
                name,
                page,
                anchor,
            )


def test_links_of_the_pages_lead_somewhere() -> None:
    broken = []
    for path in (DOCS / "reasons.md", DOCS / "troubleshooting.md", DOCS / "migration.md", *(DOCS / "plugins").glob("*.md")):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", path.read_text(encoding="utf-8")):
            page = (path.parent / target) if target else path
            if not page.exists():
                broken.append(f"{path.name}: {target}")
            elif anchor and page.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
                if anchor not in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}:
                    broken.append(f"{path.name}: {target}#{anchor}")
    assert broken == []
