"""The syntax of names in Kubernetes: objects, labels, resources.

The patterns and length limits are those of k8s.io/apimachinery's validation; which resource names are scalar is kube-scheduler's
IsScalarResourceName (framework.md §9).
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_SUBDOMAIN = 253
MAX_LABEL = 63

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


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
