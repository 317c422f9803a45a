"""metav1: what every object carries, and label selectors.

Every Struct here is frozen and holds only what scheduling reads; unknown JSON fields are dropped while decoding. Sequences are tuples, so
a Struct without maps is hashable.
"""

from __future__ import annotations

from typing import Annotated, Any, dataclass_transform

import msgspec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integers of the API: what does not fit is refused while decoding, as an API server does."""

JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the JSON asked for: bytes in a text that are no UTF-8, and nesting without end, have errors of
their own. Code that decodes what comes from outside catches all of them."""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Api(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all API Structs: snake_case here, camelCase in JSON, defaults left out when written.

    Objects of the API are trees, so CPython's garbage collector does not look at them (`gc=False`): a collection among 5,000 new pods held
    the scheduling loop for 64 ms. A Struct that is referred to weakly says `weakref=True, gc=True`.
    """


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
    generation: Int64 = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class LabelSelectorRequirement(Api):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Api):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Object(Api):
    """An object of the API: a kind with metadata. Concrete kinds add spec and status."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Unstructured(Object):
    """An object of a kind that no Struct describes (a CR that only a scenario looks at); `raw` is the whole JSON object."""

    raw: dict[str, Any] = msgspec.field(default_factory=dict)
