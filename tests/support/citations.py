"""Citations: the files, sections, lines and decisions that the repository's texts name, and which of them do not exist.

A citation names a document (`framework.md`, `docs/serving.md`), and may go on with its parts: a section (`§10.4`), an item of one
(`§7 item 4`, `§7.4.c`), lines of a checklist (`§13 lines 9, 15` or `checklist 9`, which is the section "What must hold"), a heading
(`scenarios.md "Objects"`), a decision (D7, DEV-3) or an anchor (`serving.md#ports`). A part without a document belongs to the last
document that was named before it in the same file. A source file is named with its path from the root or from `koordsched`.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SPEC = DOCS / "spec"
CHECKLIST = "What must hold"
ELSEWHERE = {"config/manager/scheduler-config.yaml"}  # files of other repositories

_GAP = r"[\s#*]+"  # words of one citation may stand on two lines, in comments too
_NUMBERS = r"\d+(?:-\d+)?(?:(?:,|,?\s+and)[\s#]+\d+(?:-\d+)?(?![\w.]))*"
_TOKEN = re.compile(
    rf"""(?P<document>(?<![\w/.*-])(?:[\w.-]+/)*[\w-]+\.md\b)(?:\#(?P<anchor>[\w-]+)|{_GAP}"(?P<heading>[^"\n]+)")?
    |(?<![\w/.*{{}}-])(?P<source>(?:[\w.-]+/)+[\w-]+\.(?:py|pyx|pxd|pyi|yaml))\b
    |§(?P<section>\d+(?:\.\d+)*)(?:\.(?P<letter>[a-h])\b)?(?:,?{_GAP}(?:lines?|items?){_GAP}(?P<items>{_NUMBERS}))?
    |\b[Cc]hecklist{_GAP}(?P<lines>{_NUMBERS})
    |\b(?P<decision>(?:D|DEV-)\d+)\b(?:-D(?P<until>\d+)\b)?""",
    re.VERBOSE,
)
_JOINED = re.compile(r"(?:[\s#,]|and|to)*")  # in a specification only what directly follows another document's name is of that document
_HEADING = re.compile(r"^(#+) (?:(\d+(?:\.\d+)*)\.? )?(.+)$", re.MULTILINE)
_ITEM = re.compile(r"(?:^ {0,3}|[.:] )(\d+)\. ", re.MULTILINE)
_DECISION = re.compile(r"^(?:- |\| )((?:D|DEV-)\d+)\*?(?:[:.] | \|)", re.MULTILINE)


class Document:
    """A document's headings, the text below each numbered one (subsections included), and the decisions that it lists."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def sections(self) -> dict[str, str]:
        found = list(_HEADING.finditer(self.text))
        sections = {}
        for at, heading in enumerate(found):
            if heading[2]:
                later = (other.start() for other in found[at + 1 :] if len(other[1]) <= len(heading[1]))
                sections[heading[2]] = self.text[heading.start() : next(later, len(self.text))]
        return sections

    @cached_property
    def headings(self) -> list[str]:
        return [heading[3] for heading in _HEADING.finditer(self.text)]

    @cached_property
    def anchors(self) -> set[str]:
        titles = (match[0].lstrip("#").strip() for match in _HEADING.finditer(self.text))
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

    @cached_property
    def decisions(self) -> set[str]:
        return set(_DECISION.findall(self.text))

    def lacks(self, section: str, letter: str | None = None, items: str | None = None) -> str:
        """Return what there is not, or the empty string. `7.4` may be item 4 of section 7."""
        body = self.sections.get(section)
        if body is None:
            outer, _, last = section.rpartition(".")
            body = _items(self.sections.get(outer, "")).get(int(last))
            if body is None:
                return f"section {section}"
        if letter and not re.search(rf"[.:;] {letter}\. ", body):
            return f"{letter} in section {section}"
        missing = [number for number in _expand(items or "") if number not in _items(body)]
        return f"item {missing[0]} in section {section}" if missing else ""

    def lacks_lines(self, lines: str) -> str:
        """Return which of the lines its checklist does not have."""
        for number, body in self.sections.items():
            if body.partition("\n")[0].lstrip("# ").startswith(f"{number}. {CHECKLIST}"):
                return self.lacks(number, items=lines)
        return "checklist"


def problems(text: str, place: Path) -> Iterator[str]:
    """Yield `line: citation: what is missing` for each citation in a file's text that names nothing."""
    own = Document(text) if place.is_relative_to(SPEC) else None
    document, name, end = own, place.name if own else "", 0
    for found in _TOKEN.finditer(text):
        if own and not _JOINED.fullmatch(text, end, found.start()):
            document, name = own, place.name
        end = found.end()
        if found["document"]:
            document, name = _open(found["document"], place), found["document"]
        if found["source"]:
            missing = "" if found["source"] in ELSEWHERE or _is_source(found["source"], place) else "no file"
        elif document is None:
            missing = "" if name and not found["document"] else f"{name} has no file" if name else "no document is named before it"
        else:
            missing = _missing_part(found, document)
            missing = missing and f"{name} has no {missing}"
        if missing:
            yield f"{text.count(chr(10), 0, found.start()) + 1}: {' '.join(found[0].split())}: {missing}"


def _missing_part(found: re.Match[str], document: Document) -> str:
    """Return what of a citation the document does not have, or the empty string."""
    if found["document"]:
        if found["anchor"] and found["anchor"] not in document.anchors:
            return f"anchor {found['anchor']}"
        if found["heading"] and not any(found["heading"] in heading for heading in document.headings):
            return f"heading {found['heading']!r}"
        return "sign: write § before the number" if re.match(r" \d", found.string[found.end() :][:2]) else ""
    if found["section"]:
        return document.lacks(found["section"], found["letter"], found["items"])
    if found["lines"]:
        return document.lacks_lines(found["lines"])
    first = found["decision"]
    wanted = [f"D{n}" for n in range(int(first[1:]), int(found["until"]) + 1)] if found["until"] else [first]
    return next((f"decision {each}" for each in wanted if each not in document.decisions), "")


def _is_source(name: str, place: Path) -> bool:
    """Answer whether there is that file: from the root, from the package, or from a folder above the citing file."""
    folders = [ROOT / "koordsched", DOCS, *(folder for folder in place.parents if folder.is_relative_to(ROOT))]
    return any((folder / name).is_file() for folder in folders)


def _open(name: str, place: Path) -> Document | None:
    """Return the document of that name: beside the citing file, from the root, below docs or among the specifications."""
    for folder in (place.parent if name.startswith(".") or place.is_relative_to(DOCS) else SPEC, ROOT, DOCS, SPEC, place.parent):
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(ROOT):
            return _read(path)
    return None


@cache
def _read(path: Path) -> Document:
    return Document(path.read_text(encoding="utf-8"))


def _items(body: str) -> dict[int, str]:
    """Return the numbered items of a section, each with its text."""
    found = list(_ITEM.finditer(body))
    ends = [*(item.start() for item in found[1:]), len(body)]
    return {int(item[1]): body[item.start() : end] for item, end in zip(found, ends, strict=False)}  # without items there is one end


def _expand(numbers: str) -> list[int]:
    """Return the numbers of `1-3, 5 and 7`."""
    expanded: list[int] = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
        expanded.extend(range(int(first), int(last or first) + 1))
    return expanded
