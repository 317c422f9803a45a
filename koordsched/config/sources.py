"""Where a configuration comes from: a file, standard input or a text, as the documents in it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from koordsched.config.errors import ConfigError, ConfigMistake
from koordsched.yamltext.documents import ROOT, Document

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 4 * 2**20
STDIN = "-"
EMPTY_DOCUMENT = Document(1, None, {}, ())


def read_file(path: Path | str) -> bytes:
    """Return a file's bytes ("-": standard input's), at most a little more than MAX_BYTES; ConfigError when it cannot be read."""
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([ConfigMistake(ROOT, f"cannot be read: {reason}", str(path))]) from None


def documents_of(source: str | bytes, name: str) -> list[Document]:
    """Return the documents that hold something; of an empty text one empty document."""
    try:
        data = source.encode() if isinstance(source, str) else source
        text = data.decode("utf-8-sig")
    except UnicodeError as error:
        raise ConfigError([ConfigMistake(ROOT, f"not valid UTF-8: {error}", name)]) from None
    if len(data) > MAX_BYTES:
        raise ConfigError([ConfigMistake(ROOT, f"larger than {MAX_BYTES} bytes", name)])
    from koordsched.yamltext.reading import read_documents  # noqa: PLC0415  # see there

    documents = read_documents(text)
    return [document for document in documents if document.value is not None or document.problems] or [EMPTY_DOCUMENT]
