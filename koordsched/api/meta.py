"""metav1: what every object carries, and label selectors.

Every Struct here is frozen and holds only what scheduling reads; unknown JSON fields are dropped while decoding. Sequences are tuples, so
a Struct without maps is hashable.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Api(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of all API Structs: snake_case here, camelCase in JSON, defaults left out when written."""


class OwnerReference(Api):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Api):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class LabelSelectorRequirement(Api):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Api):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Object(Api):
    """An object of the API: a kind with metadata. Concrete kinds add spec and status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Unstructured(Object):
    """An object of a kind that no Struct describes (a CR that only a scenario looks at); `raw` is the whole JSON object."""

    raw: dict[str, Any] = {}
