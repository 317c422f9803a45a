"""Rules for metadata and for label selectors, which every kind shares."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from koordsched.api import kinds
from koordsched.api.names import is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name
from koordsched.api.selectors.labels import LABEL_OPERATORS
from koordsched.clock import parse_rfc3339

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
    from koordsched.api.validation.errors import Errors

MAX_ANNOTATIONS = 256 * 1024  # bytes of all keys and values together

NAMED_BY_LABEL = frozenset({kinds.NAMESPACE, kinds.SERVICE})
"""Kinds whose names are DNS labels."""

SUBDOMAIN_RULE = "must consist of lower case letters, digits, '-' and '.', begin and end with a letter or digit, at most 253 characters"
LABEL_RULE = "must consist of lower case letters, digits and '-', begin and end with a letter or digit, at most 63 characters"
KEY_RULE = "must be [prefix/]name: a name of at most 63 letters, digits, '-', '_' and '.', a prefix that is a DNS subdomain"
VALUE_RULE = "must be empty or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
TIME_RULE = "must be a time as in 2006-01-02T15:04:05Z"

_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)"


def check_metadata(errors: Errors, kind: Kind, meta: ObjectMeta, *, generated: bool) -> None:
    """Check what every object carries. generated: the API server makes the name from metadata.generateName."""
    if meta.name or not generated:
        check_object_name(errors, kind, meta.name)
    if kind.namespaced and meta.namespace and not is_dns_label(meta.namespace):
        errors.invalid("metadata.namespace", meta.namespace, LABEL_RULE)
    check_labels(errors, "metadata.labels", meta.labels)
    _check_annotations(errors, meta.annotations)
    check_time(errors, "metadata.creationTimestamp", meta.creation_timestamp)
    check_time(errors, "metadata.deletionTimestamp", meta.deletion_timestamp)


def check_object_name(errors: Errors, kind: Kind, name: str) -> None:
    if not name:
        errors.required("metadata.name", "name or generateName is required")
    elif kind in NAMED_BY_LABEL:
        if not is_dns_label(name):
            errors.invalid("metadata.name", name, LABEL_RULE)
    elif not is_dns_subdomain(name):
        errors.invalid("metadata.name", name, SUBDOMAIN_RULE)


def check_labels(errors: Errors, path: str, labels: dict[str, str]) -> None:
    """Check the keys and values of labels, or of a map that selects by labels."""
    for key, value in labels.items():
        if not is_qualified_name(key):
            errors.invalid(path, key, KEY_RULE)
        if not is_label_value(value):
            errors.invalid(f"{path}[{key}]", value, VALUE_RULE)


def _check_annotations(errors: Errors, annotations: dict[str, str]) -> None:
    for key in annotations:
        if not is_qualified_name(key.lower()):
            errors.invalid("metadata.annotations", key, KEY_RULE)
    if sum(len(key) + len(value) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        errors.forbidden("metadata.annotations", f"may not have more than {MAX_ANNOTATIONS} bytes")


def check_time(errors: Errors, path: str, text: str | None) -> None:
    """Check a timestamp, so that whoever computes with it later need not."""
    if text is not None and not is_time(text):
        errors.invalid(path, text, TIME_RULE)


@lru_cache(maxsize=256)  # many objects and conditions are of the same second
def is_time(text: str) -> bool:
    """Answer whether the text is a timestamp of RFC 3339."""
    if re.fullmatch(_RFC3339, text, re.ASCII) is None:
        return False
    try:
        parse_rfc3339(text)
    except ValueError:
        return False
    return True


def check_label_selector(errors: Errors, path: str, selector: LabelSelector | None) -> None:
    if selector is None:
        return
    check_labels(errors, f"{path}.matchLabels", selector.match_labels)
    for i, requirement in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{i}]"
        if requirement.operator not in LABEL_OPERATORS:
            errors.one_of(f"{at}.operator", requirement.operator, LABEL_OPERATORS)
        check_requirement(errors, at, requirement)
        check_label_values(errors, at, requirement)


def check_requirement(errors: Errors, path: str, requirement: LabelSelectorRequirement) -> None:
    """Check the key, and that there are values where the operator wants some."""
    if requirement.operator in {"In", "NotIn"} and not requirement.values:
        errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if requirement.operator in {"Exists", "DoesNotExist"} and requirement.values:
        errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    check_label_key(errors, f"{path}.key", requirement.key)


def check_label_values(errors: Errors, path: str, requirement: LabelSelectorRequirement) -> None:
    for i, value in enumerate(requirement.values):
        if not is_label_value(value):
            errors.invalid(f"{path}.values[{i}]", value, VALUE_RULE)


def check_label_key(errors: Errors, path: str, key: str) -> None:
    if not key:
        errors.required(path)
    elif not is_qualified_name(key):
        errors.invalid(path, key, KEY_RULE)
