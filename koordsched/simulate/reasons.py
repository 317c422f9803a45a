"""Why pods are pending, for people: the scheduler's messages grouped, counted and explained.

A failure text is `0/N nodes are available: 3 reason, 5 reason. what preemption says` (framework.md §2.2). Pods are grouped by their reasons
without the counts, which differ from pod to pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from koordsched.plugins import tooling
from koordsched.simulate.result import Pending

FIT_ERROR = re.compile(r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: (?P<preemption>[^ ].*))?", re.DOTALL)
COUNTED = re.compile(r"(?:^|, )\d+ ")

SINGULAR = ("rejected: ", "preempted: ")
"""Beginnings of texts whose rest is about one pod only."""

OWN_EXPLANATIONS = (
    (r"rejected", "the API does not accept these pods as they are written; the lines on stderr say where"),
    (r"preempted", "it ran, and had to make room for a pod of higher priority"),
    (r"no nodes available to schedule pods", "the input has no nodes"),
)
"""What texts mean that are no plugin's (`framework.tooling.Tooling.explanations`)."""


@cache
def explanations() -> Sequence[tuple[str, str]]:
    """Return the patterns of texts and their meaning in words of a newcomer; {0} is the pattern's first group."""
    return [*OWN_EXPLANATIONS, *(pair for each in tooling() for pair in each.explanations)]


class ReasonGroup(msgspec.Struct):
    """Pods that are pending for the same reasons. example: the first of them, message: its full text."""

    reasons: tuple[str, ...]
    count: int
    example: str
    message: str


def group(pending: Iterable[Pending]) -> list[ReasonGroup]:
    """Group pods by reasons, the largest group first; groups of one size in the order of their first pod."""
    groups: dict[tuple[str, ...], ReasonGroup] = {}
    for pod in pending:
        reasons = reasons_of(pod.reason)
        if reasons in groups:
            groups[reasons].count += 1
        else:
            groups[reasons] = ReasonGroup(reasons, 1, pod.pod, pod.reason)
    return sorted(groups.values(), key=lambda found: -found.count)


def reasons_of(message: str) -> tuple[str, ...]:
    """Return the reasons in a failure text without their counts, sorted; any other text is its own reason."""
    match = FIT_ERROR.fullmatch(message)
    if match is None:
        return (message.partition(":")[0],) if message.startswith(SINGULAR) else (message,)
    reasons = tuple(sorted(reason for reason in COUNTED.split(match["reasons"]) if reason))
    return reasons or (message,)


def meaning(reason: str) -> str:
    """Explain a reason in plain words; "" when nothing can be added to it."""
    for pattern, text in explanations():
        if match := re.fullmatch(pattern, reason):
            return text.format(*match.groups())
    return ""
