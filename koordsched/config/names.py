"""Why a text is no label key or label value, in Kubernetes' words (k8s.io/apimachinery `IsQualifiedName`, `IsValidLabelValue`)."""

from __future__ import annotations

import re

from koordsched.api.names import MAX_LABEL, MAX_SUBDOMAIN, is_dns_subdomain, is_extended_resource_name, is_label_value, is_qualified_name

_NAME_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_CHARACTERS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_NAME_RULE = (
    f"must consist of {_NAME_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_FORMAT}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or consist of {_NAME_CHARACTERS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME_FORMAT})?')"
)
_SUBDOMAIN_FORMAT = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORMAT}')"
)


def label_key_problems(text: str) -> list[str]:
    """Return what keeps a text from being [prefix/]name; nothing when it is one."""
    if is_qualified_name(text):
        return []
    prefix, slash, name = text.partition("/")
    if "/" in name:
        return [f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems = _prefix_problems(prefix) if slash else []
    name = name if slash else text
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > MAX_LABEL:
        problems.append(f"name part must be no more than {MAX_LABEL} bytes")
    if not re.fullmatch(_NAME_FORMAT, name, re.ASCII):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def _prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    if len(prefix) > MAX_SUBDOMAIN:
        return [f"prefix part must be no more than {MAX_SUBDOMAIN} bytes"]
    return [] if is_dns_subdomain(prefix) else [f"prefix part {_SUBDOMAIN_RULE}"]


def label_value_problems(text: str) -> list[str]:
    """Return what keeps a text from being a label's value; nothing when it is one."""
    if is_label_value(text):
        return []
    return [f"must be no more than {MAX_LABEL} bytes"] if len(text) > MAX_LABEL else [_VALUE_RULE]


def extended_resource_problems(name: str) -> list[str]:
    """Return what keeps a name from being an extended resource (domain/name outside kubernetes.io)."""
    problems = label_key_problems(name)
    if not problems and not is_extended_resource_name(name):
        problems.append("is an invalid extended resource name")
    return problems
