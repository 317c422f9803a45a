"""Read the YAML or JSON documents of a file that a user hands in, and say precisely where one is wrong.

Every document becomes plain JSON values (dict, list, str, int, float, bool, None). The file is untrusted: it may be no UTF-8, nest without
end, repeat keys, or hold a few lines of aliases that unfold to gigabytes; each of these ends in an `InputError` whose text names file,
document and line, never in a traceback. YAML follows what kubectl reads (timestamps and `12:30` are strings, `yes` is a boolean), not
PyYAML's resolver. Used by `simulate` for manifests and by `test` for scenario files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_DEPTH = 100
"""How deep values may nest. Kubernetes' own objects stay below 20 (CRD schemas aside)."""

HALF_CHARACTER = r"\\u[dD][89a-fA-F]"
"""Escapes that JSON allows alone, but of which no UTF-8 can be written."""

SUFFIXES = (".yaml", ".yml", ".json")


class InputError(Exception):
    """A file cannot be read as documents; the text is one line for the user."""


class InputDocument(msgspec.Struct, frozen=True):
    """One document of a file; `number` counts from 1, empty ones included. 0: of what is no file, but an answer with one list."""

    file: str
    number: int
    value: Any

    @property
    def origin(self) -> str:
        return f"{self.file}: document {self.number}" if self.number else self.file


def expand(paths: list[str]) -> list[str]:
    """Replace each directory by the YAML and JSON files below it, sorted; "-" is standard input. InputError when one has none."""
    from pathlib import Path  # noqa: PLC0415  # takes 4 ms, and a trace does without

    files: list[str] = []
    for path in paths:
        if path != "-" and Path(path).is_dir():
            found = sorted(str(file) for file in Path(path).rglob("*") if file.suffix in SUFFIXES and file.is_file())
            if not found:
                raise InputError(f"{path}: no file in this directory ends in {', '.join(SUFFIXES)}")
            files += found
        else:
            files.append(path)
    return files


def read_documents(path: str) -> list[InputDocument]:
    """Read all documents of one file ("-": standard input), without the empty ones. InputError."""
    return parse_documents(path, _read(path))


def parse_documents(name: str, data: bytes) -> list[InputDocument]:
    """Parse what a file called `name` holds. InputError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as mistake:
        raise InputError(f"{name}: byte {mistake.start}: {data[mistake.start : mistake.start + 1]!r}: not UTF-8 text") from None
    return [document for document in _parse(name, text) if document.value is not None]


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as mistake:  # ValueError: a NUL in the path
        raise InputError(f"{path}: cannot be read: {getattr(mistake, 'strerror', None) or mistake}") from None


def _parse(name: str, text: str) -> Iterator[InputDocument]:
    """Read JSON as JSON where it is JSON (much faster than YAML, of which it is a subset), all else as YAML."""
    is_json = name.endswith(".json")
    if is_json or text.lstrip()[:1] in {"{", "["}:
        try:
            return iter(_parse_json(name, text))
        except InputError:
            if is_json:
                raise
    return _parse_yaml(name, text)


def _parse_yaml(name: str, text: str) -> Iterator[InputDocument]:
    from koordsched.yamltext.values import NotPlainValues, read_values  # noqa: PLC0415  # PyYAML costs 20 ms, and a trace does without

    try:
        for number, value in enumerate(read_values(text, MAX_DEPTH), 1):
            yield InputDocument(name, number, value)
    except NotPlainValues as mistake:
        raise InputError(f"{name}: document {mistake.number}: {mistake}") from None


def _parse_json(name: str, text: str) -> list[InputDocument]:
    """Parse JSON documents that stand one after the other, as kubectl accepts them."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
    documents: list[InputDocument] = []
    half_characters = re.search(HALF_CHARACTER, text) is not None
    position = _skip_blank(text, 0)
    while position < len(text):
        number = len(documents) + 1
        try:
            value, position = decoder.raw_decode(text, position)
            too_deep = deeper_than(value, MAX_DEPTH)
            if half_characters and not too_deep:
                json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as mistake:
            raise InputError(f"{name}: document {number}: line {mistake.lineno}: not JSON: {mistake.msg}") from None
        except RecursionError:
            too_deep = True
        except UnicodeEncodeError:
            raise InputError(f"{name}: document {number}: a text holds half of a surrogate pair (\\ud800 to \\udfff alone)") from None
        except ValueError as mistake:
            raise InputError(f"{name}: document {number}: {mistake}") from None
        if too_deep:
            raise InputError(f"{name}: document {number}: nested deeper than {MAX_DEPTH} levels")
        documents.append(InputDocument(name, number, value))
        position = _skip_blank(text, position)
    return documents


def deeper_than(value: Any, levels: int) -> bool:
    """Return whether maps and lists nest in more than this many levels."""
    if isinstance(value, dict):
        return levels == 0 or any(deeper_than(item, levels - 1) for item in value.values() if isinstance(item, (dict, list)))
    if isinstance(value, list):
        return levels == 0 or any(deeper_than(item, levels - 1) for item in value if isinstance(item, (dict, list)))
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {key!r} is given twice in one object")
            seen.add(key)
    return made


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text}: not a JSON number")


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
