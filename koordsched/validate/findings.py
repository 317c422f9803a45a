"""What is said of objects: problems, for which the command fails, and warnings."""

from __future__ import annotations

from typing import Any

import msgspec

from koordsched.api.meta import Object
from koordsched.manifests.objects import Manifest, Rejection


class CheckedObject(msgspec.Struct, frozen=True):
    """An object that could be decoded. place: its number among all that were handed in, which orders what is said."""

    place: int
    manifest: Manifest
    obj: Object
    refused_fields: frozenset[str] = frozenset()  # paths such as spec.max.cpu that an API server refuses, which is said already

    @property
    def name(self) -> str:
        return self.obj.metadata.name


class Findings:
    """Collects lines, each of which names file, object, field, value and reason, and what would be filled in."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []  # a line for each file that cannot be read
        self._problems: list[tuple[int, str]] = []
        self._warnings: list[tuple[int, str]] = []
        self._written: list[tuple[int, dict[str, Any]]] = []

    @property
    def problems(self) -> list[str]:
        """Return what makes the command fail: files that cannot be read, then problems in the order of the objects."""
        return self.unreadable + [line for _, line in sorted(self._problems, key=lambda found: found[0])]

    @property
    def warnings(self) -> list[str]:
        return [line for _, line in sorted(self._warnings, key=lambda found: found[0])]

    @property
    def written(self) -> list[dict[str, Any]]:
        """Return the objects that are not as they were handed in, or are new."""
        return [body for _, body in sorted(self._written, key=lambda found: found[0])]

    def problem(self, place: int, manifest: Manifest, text: object) -> None:
        self._problems.append((place, _line(manifest, text)))

    def warning(self, checked: CheckedObject, text: str) -> None:
        self._warnings.append((checked.place, f"warning: {_line(checked.manifest, text)}"))

    def rejected(self, place: int, rejection: Rejection) -> None:
        self._problems.append((place, rejection.line))

    def fills_in(self, place: int, body: dict[str, Any]) -> None:
        self._written.append((place, body))


def _line(manifest: Manifest, text: object) -> str:
    return Rejection(manifest.origin, f"{manifest.kind.kind} {manifest.key}", str(text)).line
