"""What is wrong with an object: each field with its path, its value and what was expected, worded as an API server words it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class FieldError(msgspec.Struct, frozen=True):
    """One field that is refused. `path` is in Kubernetes notation, "" for the whole object; `value` is None when there is none to show."""

    path: str
    value: Any
    message: str

    def __str__(self) -> str:
        text = self.message if self.value is None else f"Invalid value: {shown(self.value)}: {self.message}"
        return f"{self.path}: {text}" if self.path else text


class InvalidObject(ValueError):
    """An object that an API server would refuse. `errors` lists every reason that was found, `subject` names the object."""

    def __init__(self, errors: Sequence[FieldError], subject: str = "") -> None:
        self.errors = tuple(errors)
        self.subject = subject
        problems = "; ".join(str(error) for error in self.errors)
        super().__init__(f"{subject} is invalid: {problems}" if subject else problems)


class Errors:
    """Collects the errors of one object, in the order in which they are found."""

    def __init__(self) -> None:
        self.found: list[FieldError] = []

    def invalid(self, path: str, value: object, message: str) -> None:
        """The value is not what it must be."""
        self.found.append(FieldError(path, value, message))

    def required(self, path: str, message: str = "must be given") -> None:
        self.found.append(FieldError(path, None, f"Required value: {message}"))

    def forbidden(self, path: str, message: str) -> None:
        self.found.append(FieldError(path, None, f"Forbidden: {message}"))

    def duplicate(self, path: str, value: object, message: str = "must be unique") -> None:
        self.found.append(FieldError(path, None, f"Duplicate value: {shown(value)}: {message}"))

    def one_of(self, path: str, value: str, allowed: Iterable[str]) -> None:
        """Refuse a value that is not among the allowed ones; an absent one too."""
        listed = ", ".join(f'"{word}"' for word in allowed)
        if not value:
            self.required(path, f"supported values: {listed}")
        else:
            self.found.append(FieldError(path, None, f"Unsupported value: {shown(value)}: supported values: {listed}"))
