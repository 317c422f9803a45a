"""What a pod got besides its node: the annotations that both schedulers wrote, compared as what they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from support.differential.choosing import Json
from support.differential.koordinator.device_pods import ALLOCATED

MOMENTS = frozenset({"scheduling.koordinator.sh/bind-timestamp", "predicate-time"})
"""Annotations that say when."""


def allocation_differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> list[str]:
    """Compare the annotations that the pod has on both sides."""
    return [line for key in sorted((theirs.keys() | ours.keys()) - MOMENTS) for line in compared(key, theirs, ours)]


def compared(key: str, theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    seen, own = theirs.get(key, ""), ours.get(key, "")
    if meaning(seen) != meaning(own):
        yield f"{key.rpartition('/')[2]}: the reference {seen or 'none'}\n{' ' * 20}ours {own or 'none'}"


def meaning(text: str) -> Any:
    """Return what the text is as JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def devices_in(annotations: Mapping[str, str]) -> dict[str, list[Json]]:
    """Return what device-allocated says, by type."""
    found = meaning(annotations.get(ALLOCATED, ""))
    return found if isinstance(found, dict) else {}
