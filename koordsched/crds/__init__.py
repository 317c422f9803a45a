"""Koordinator's custom resource definitions: one file a kind, named by its plural, the only copy.

`kubectl apply -k config/crds` installs these files, and the embedded cluster does what they say. Fields, defaults and enums are those of
Koordinator v1.8.0's config/crd/bases, written from the specification (docs/spec).
"""

from __future__ import annotations

import os
from typing import Any, cast

FOLDER = os.path.dirname(__file__)


def read_definition(plural: str, group: str) -> dict[str, Any] | None:
    """Return the definition of `plural.group`, read anew at each call; None where there is none."""
    import yaml  # noqa: PLC0415  # only a command that meets a custom resource needs it

    path = os.path.join(FOLDER, f"{plural}.yaml")
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        definition = cast("dict[str, Any]", yaml.load(file, Loader=yaml.CSafeLoader))
    return definition if definition["spec"]["group"] == group else None
