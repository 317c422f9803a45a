"""The syntax of names in Kubernetes: objects, labels, resources, images.

Patterns, length limits and the words of the `..._problems` are those of k8s.io/apimachinery's validation (`IsQualifiedName`,
`IsValidLabelValue`); which resource names are scalar is kube-scheduler's IsScalarResourceName (framework.md §9).
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_SUBDOMAIN = 253
MAX_LABEL = 63

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


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


def is_dns_label(text: str) -> bool:
    """Answer whether the text is an RFC 1123 label: a namespace's or a container's name."""
    return len(text) <= MAX_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Answer whether the text is an RFC 1123 subdomain: most objects' names."""
    return len(text) <= MAX_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=512)
def is_qualified_name(text: str) -> bool:
    """Answer whether the text is a label key, a taint key or a resource name: [prefix/]name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= MAX_LABEL and _NAME_PART.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Answer whether the text may be a label's value; the empty text may."""
    return not text or (len(text) <= MAX_LABEL and _NAME_PART.fullmatch(text) is not None)


@lru_cache(maxsize=512)
def is_extended_resource_name(name: str) -> bool:
    """Answer whether the resource is neither built in nor of kubernetes.io: domain/name that could stand in a quota."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


@lru_cache(maxsize=512)
def is_scalar_resource_name(name: str) -> bool:
    """Answer whether scheduling counts the resource besides cpu, memory and ephemeral-storage."""
    return name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended_resource_name(name)


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


def normalized_image_name(image: str) -> str:
    """Return the name with its tag: ":latest" is appended when there is neither a tag nor a digest after the last "/"."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
