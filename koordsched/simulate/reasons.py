"""Why pods are pending, for people: the scheduler's messages grouped, counted and explained.

A failure text is `0/N nodes are available: 3 reason, 5 reason. what preemption says` (framework.md §2.2). Pods are grouped by their reasons
without the counts, which differ from pod to pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from koordsched.simulate.result import Pending

FIT_ERROR = re.compile(r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: (?P<preemption>[^ ].*))?", re.DOTALL)
COUNTED = re.compile(r"(?:^|, )\d+ ")

SINGULAR = ("rejected: ", "preempted: ")
"""Beginnings of texts whose rest is about one pod only."""

MEANINGS = (
    (r"Insufficient (.+)", "these nodes have less free {0} than the pod requests"),
    (r"Too many pods", "these nodes run as many pods as they may"),
    (r"node\(s\) didn't match Pod's node affinity/selector", "the pod's node selector or affinity excludes these nodes"),
    (r"node\(s\) had untolerated taint.*", "these nodes have a taint that the pod does not tolerate"),
    (r"node\(s\) were unschedulable", "these nodes are cordoned"),
    (r"node\(s\) didn't have free ports.*", "a host port that the pod wants is taken on these nodes"),
    (r"node\(s\) didn't match pod topology spread constraints.*", "there the pod would break its topology spread constraints"),
    (r"node\(s\) didn't match pod affinity rules", "no pod that this one wants to be near runs there"),
    (r"node\(s\) didn't match pod anti-affinity rules", "a pod that this one wants to be away from runs there"),
    (r"node\(s\) didn't satisfy existing pods anti-affinity rules", "a pod there wants to be away from this one"),
    (r"the requested CPUs must be integer", "pods that bind CPUs must ask for whole ones"),
    (
        r"node\(s\) invalid CPU Topology",
        "nothing says which CPUs these nodes have; --cpu-topology, or NodeResourceTopologies, would",
    ),
    (r"not enough cpus available to satisfy request", "these nodes have too few CPUs that no other pod has for itself"),
    (r"Insufficient amplified cpu", "a pod's own CPUs count as often as these nodes are amplified, and that is too much"),
    (r"(?:Insufficient|Unsatisfied) NUMA (.+)", "no choice of NUMA nodes there has enough {0}"),
    (
        r"Unaligned NUMA Hint cause .*",
        "there is room, but on more NUMA nodes together than the policy allows, or with pods that keep apart",
    ),
    (r"node\(s\) NUMA Topology policy not match", "these nodes have another NUMA policy than the pod asks for"),
    (r"rejected", "the API does not accept these pods as they are written; the lines on stderr say where"),
    (r"preempted", "it ran, and had to make room for a pod of higher priority"),
    (
        r"Scheduling is blocked due to non-empty scheduling gates",
        "nobody has removed the pod's scheduling gates",
    ),
    (r"no nodes available to schedule pods", "the input has no nodes"),
)
"""What a reason means, in words of a newcomer; {0} is the pattern's first group."""


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
    for pattern, text in MEANINGS:
        if match := re.fullmatch(pattern, reason):
            return text.format(*match.groups())
    return ""
