"""Sections as plain text: for files, pipes and terminals without colour."""

from __future__ import annotations

from collections.abc import Iterable

from koordsched.framework.tooling import Section


def render(sections: Iterable[Section]) -> str:
    """Return the text, ending in a newline."""
    return "\n".join("\n".join(_lines(section)) + "\n" for section in sections)


def _lines(section: Section) -> list[str]:
    header = [section.columns] if any(section.columns) else []
    table = [*header, *section.rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(section.columns))]
    lines = [section.title, "-" * len(section.title)]
    for row in table:
        cells = (f"{cell:{align}{width}}" for cell, align, width in zip(row, section.align, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return [*lines, *section.notes]
