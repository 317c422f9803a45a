"""Put values into the text of a file of scenarios, and leave every other character of it as it is.

Only the spans of the values are replaced, found by the marks of PyYAML's nodes: comments, order, quotes and line breaks elsewhere stay. A
round trip through ruamel.yaml keeps comments, too, but writes the whole file anew, with its own indentation and line breaks, so that a
correction of one word would be a change of hundreds of lines to review.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from koordsched.scenario.updating import Correction, Path, put
from koordsched.yamltext.values import NotPlainValues, read_values

PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
"""Texts that need no quotes in YAML, unless they read as something else."""
MAX_DEPTH = 100

Span = tuple[int, int]


class NotRewritten(Exception):
    """The text cannot be corrected; says why."""


def rewritten(text: str, corrections: Sequence[tuple[int, Correction]], *, as_json: bool = False) -> str:
    """Return the text with the corrections made, each in the document of this number (from 1). NotRewritten."""
    documents: list[yaml.Node | None] = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    edits: list[tuple[Span, str]] = []
    for number, correction in corrections:
        node = documents[number - 1] if number <= len(documents) else None
        if node is None:
            raise NotRewritten(f"document {number} is empty")
        shown = json.dumps(correction.value, ensure_ascii=False) if as_json else flow(correction.value)
        edits.append((_span(text, node, correction.path), shown))
    made = text
    for (begin, end), shown in sorted(edits, reverse=True):
        made = made[:begin] + shown + made[end:]
    if not _reads_as(made, text, corrections):
        raise NotRewritten("the text would not be read as it is meant")
    return made


def _reads_as(made: str, text: str, corrections: Iterable[tuple[int, Correction]]) -> bool:
    """Return whether the new text holds what the old one did, with the corrections and nothing else changed."""
    expected = list(read_values(text, MAX_DEPTH))
    for number, correction in corrections:
        put(expected[number - 1], correction)
    try:
        return list(read_values(made, MAX_DEPTH)) == expected
    except NotPlainValues:
        return False


def _span(text: str, document: yaml.Node, path: Path) -> Span:
    """Return where the value at the path stands."""
    node = document
    for key in path:
        child = _child(node, key)
        if child.start_mark.index < node.start_mark.index or child.end_mark.index > node.end_mark.index:
            raise NotRewritten(f"{'.'.join(map(str, path))} is an alias of what stands elsewhere")
        node = child
    begin, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.CollectionNode):
        end = _end(node)
    if isinstance(node, yaml.ScalarNode) and node.style in {"|", ">"}:
        end = begin + len(text[begin:end].rstrip())
    return begin, end


def _child(node: yaml.Node, key: str | int) -> yaml.Node:
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
        return node.value[key]  # type: ignore[no-any-return]
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return value  # type: ignore[no-any-return]
    raise NotRewritten(f"{key} is not there as it was read")


def _end(node: yaml.Node) -> int:
    """Return where a block ends: with the last of what is in it, before comments and blank lines."""
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if PLAIN.fullmatch(value) and _reads_as_itself(value):
        return value
    if value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value)


def _reads_as_itself(text: str) -> bool:
    try:
        return list(read_values(text, MAX_DEPTH)) == [text]
    except NotPlainValues:
        return False


def by_file(results: Sequence[tuple[str, Sequence[Correction]]]) -> dict[str, list[tuple[int, Correction]]]:
    """Sort corrections by the file of their scenario, whose origin is "FILE: document N"."""
    files: dict[str, list[tuple[int, Correction]]] = {}
    for origin, corrections in results:
        file, _, number = origin.rpartition(": document ")
        files.setdefault(file, []).extend((int(number), correction) for correction in corrections)
    return {file: found for file, found in files.items() if found}
