"""One requirement on one label: what each operator means and which requirements can be understood at all.

The six operators serve node selectors (framework.md §10.2); label selectors know the first four. A key that is absent satisfies NotIn and
DoesNotExist only; Gt and Lt compare 64-bit integers and are false when either side is none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koordsched.api.names import is_label_value, is_qualified_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from koordsched.api.meta import LabelSelectorRequirement

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABEL_OPERATORS = OPERATORS[:4]

_INTEGER = r"[+-]?[0-9]{1,30}"
_INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """A selector that cannot be understood; the message names the part and what was expected."""


def requirement_matches(operator: str, values: Collection[str], value: str | None) -> bool:
    """Answer whether a label's value (None: no such label) satisfies the operator; an unknown operator is satisfied by nothing."""
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(operator, values, value)
    return False


def requirement_error(requirement: LabelSelectorRequirement) -> str | None:
    """Say why a node selector requirement on labels cannot be understood, or None. A term with such a one never matches."""
    operator, values = requirement.operator, requirement.values
    if not is_qualified_name(requirement.key):
        return f'key: "{requirement.key}" is not a label key'
    if operator not in OPERATORS:
        return f'operator: "{operator}" is not one of {", ".join(OPERATORS)}'
    if operator in {"In", "NotIn"} and not values:
        return f"values: at least one is required with {operator}"
    if operator in {"Exists", "DoesNotExist"} and values:
        return f"values: none are allowed with {operator}"
    if operator in {"Gt", "Lt"} and (len(values) != 1 or _integer(values[0]) is None):
        return f"values: exactly one integer is required with {operator}"
    return next((f'values: "{value}" is not a label value' for value in values if not is_label_value(value)), None)


def label_requirement_error(requirement: LabelSelectorRequirement) -> str | None:
    """Say why a label selector's requirement cannot be understood, or None."""
    if requirement.operator in OPERATORS and requirement.operator not in LABEL_OPERATORS:
        return f'operator: "{requirement.operator}" is not one of {", ".join(LABEL_OPERATORS)}'
    return requirement_error(requirement)


def _compares(operator: str, values: Collection[str], value: str) -> bool:
    if len(values) != 1:
        return False
    left, right = _integer(value), _integer(next(iter(values)))
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    if re.fullmatch(_INTEGER, text, re.ASCII) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None
