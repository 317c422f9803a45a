"""Status: what a plugin answers. Success is None, so the common case costs nothing. Errors of columns are raised: `PluginError`."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Code(Enum):
    """kube-scheduler's status codes (framework.md §2.1). Success is the absence of a Status."""

    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"


REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(msgspec.Struct, frozen=True):
    """A refusal, an error, or a request to skip or to wait; never success. `plugin` is filled in by the framework."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused, as opposed to something having gone wrong."""
        return self.code in REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def with_plugin(self, plugin: str) -> Status:
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    return Status(Code.ERROR, reasons)


def internal_error(error: Exception) -> Status:
    """Return the status of a pod whose attempt met a bug, for its author to see that it is not their mistake."""
    return Status(Code.ERROR, (f"internal error, see the scheduler's log: {error!r}",))


class PluginError(Exception):
    """A plugin answered with an error instead of a verdict at this extension point: the cycle fails with this status."""

    def __init__(self, status: Status, point: str) -> None:
        super().__init__(status.message)
        self.status = status
        self.point = point


SKIP = Status(Code.SKIP)
SKIPS: Final = Code.SKIP
"""Code.SKIP for code that runs for every pod: looking a member up on its class is slow in CPython 3.11."""
