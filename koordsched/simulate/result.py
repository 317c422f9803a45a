"""The outcome of a simulation, and its JSON (docs/simulate.md "What is printed"). Keys are stable; lists are in the order of creation."""

from __future__ import annotations

from typing import Any, dataclass_transform

import msgspec

SHARE_DIGITS = 6
"""Digits behind the point of a share."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Output(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of what is printed as JSON: snake_case here, camelCase there."""


class Placement(Output):
    """A pod that found a node. annotations: those that scheduling wrote."""

    pod: str  # namespace/name
    node: str
    annotations: dict[str, str]


class Pending(Output):
    """A pod that did not, and the scheduler's last word on why."""

    pod: str
    reason: str


class BandSummary(Output):
    """The pods of one priority class, or of "none"; pods = bound + pending. allocation: as that of the summary, but only of what these pods
    request at the end."""

    band: str
    pods: int
    bound: int
    pending: int
    allocation: dict[str, float]


class NamespaceSummary(Output):
    """The pods of one namespace; pods = bound + pending. resource: the one of which its pods ask for the largest share of the cluster.
    served: which share of what they ask of it went to pods that found a node."""

    namespace: str
    pods: int
    bound: int
    pending: int
    resource: str
    served: float


class Fairness(Output):
    """index: Jain's fairness index of what namespaces are served: 1 where all are served alike, 1/n where one of n gets everything."""

    index: float
    namespaces: list[NamespaceSummary]


class Summary(Output, omit_defaults=True):
    """The numbers. pods = bound + pending. `seconds` and `decision_mean_micros` are real time; all else depends on input and seed only."""

    nodes: int
    pods: int
    bound: int
    pending: int
    seconds: float
    decision_mean_micros: float
    allocation: dict[str, float]  # resource -> share of all nodes' allocatable that pods on nodes request: at the end, or at its peak
    unusable: dict[
        str, float
    ] = {}  # resource -> share of all nodes' allocatable that is free and not expected to be of use (`fragmentation`)
    fairness: Fairness | None = None  # where pods are of several namespaces
    bands: list[BandSummary] = []  # where pods state a class of Koordinator's, or nodes offer resources of one
    reports: dict[str, msgspec.Struct] = {}  # plugins' own numbers, each below its key beside the others (`framework.tooling.Report`)

    def body(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        made |= made.pop("reports", {})
        return made


class Result(Output):
    placements: list[Placement]
    pending: list[Pending]
    summary: Summary

    def json(self, usage: Output | None = None) -> bytes:
        """Write the result, indented, with a newline at its end. usage: over virtual time (`usage.UsageSeries`)."""
        body = {"placements": self.placements, "pending": self.pending, "summary": self.summary.body()}
        return json_text(body if usage is None else {**body, "usage": usage})


def json_text(body: Any) -> bytes:
    """Write a value as JSON, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
