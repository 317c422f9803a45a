"""The API server's error texts, as errors of the port.

Texts are those of apimachinery's errors and of the pod registry (v1.35), since a scheduler's users grep for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.cluster.port import AlreadyExists, Conflict, Forbidden, Gone, Invalid, NotFound, Ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.kinds import Kind
    from koordsched.api.validation import FieldError


def not_served() -> NotFound:
    return NotFound("the server could not find the requested resource")


def not_found(ref: Ref) -> NotFound:
    return NotFound(f'{ref.kind.plural_group} "{ref.name}" not found')


def already_exists(ref: Ref) -> AlreadyExists:
    return AlreadyExists(f'{ref.kind.plural_group} "{ref.name}" already exists')


def conflict(what: str, name: str, why: str) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {what} "{name}": {why}')


def modified(ref: Ref) -> Conflict:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(ref.kind.plural_group, ref.name, why)


def unconditional_update(ref: Ref) -> Invalid:
    why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    return Invalid(f'{ref.kind.plural_group} "{ref.name}" is invalid: {why}')


def other_uid(what: str, name: str, asked: str, found: str) -> Conflict:
    return conflict(what, name, f"Precondition failed: UID in precondition: {asked}, UID in object meta: {found}")


def recreated(name: str, asked: str, found: str) -> Conflict:
    """Return the error of an eviction whose UID is that of another pod of the name."""
    records = f"the UID in the precondition ({asked}) does not match the UID in record ({found})"
    return conflict("Pod", name, f"{records}. The object might have been deleted and then recreated")


def too_old(asked: int, oldest: int) -> Gone:
    return Gone(f"too old resource version: {asked} ({oldest})")


def expired_continue() -> Gone:
    return Gone("The provided continue parameter is too old to display a consistent list result. Start a new list without it.")


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> Invalid:
    """Return the error that names every invalid field of an object with its path and value."""
    texts = [str(error) for error in errors]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return invalid_text(kind, name, listed)


def invalid_text(kind: Kind, name: str, text: str) -> Invalid:
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Invalid(f'{subject} "{name}" is invalid: {text}')


def no_priority_class(pod: str, name: str) -> Forbidden:
    return Forbidden(f'pods "{pod}" is forbidden: no PriorityClass with name {name} was found')
