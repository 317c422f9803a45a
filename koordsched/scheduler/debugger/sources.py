"""What a debugger looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container

    from koordsched.api.core import Node, Pod
    from koordsched.cluster.informer import Informer
    from koordsched.scheduler.context import SchedulerContext


class Sources(msgspec.Struct, frozen=True):
    """One scheduler's parts and watches. `profiles` are the scheduler names whose pods are ours."""

    parts: SchedulerContext
    nodes: Informer[Node]
    pods: Informer[Pod]
    profiles: Container[str]


def pod_name(key: str, uid: str) -> str:
    """Name a pod so that one of the same name that came after it is another."""
    return f"{key} ({uid})"


def key_of(name: str) -> str:
    """Return the key in a name that `pod_name` made."""
    return name.partition(" (")[0]


def uid_of(name: str) -> str:
    """Return the uid in a name that `pod_name` made."""
    return name.partition(" (")[2][:-1]
