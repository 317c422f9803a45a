"""A result as sections of text cells, and these as plain text for files, pipes and terminals without colour (else: `terminal`).

Why pods are pending is the scheduler's messages grouped, counted and explained. A failure text is `0/N nodes are available: 3 reason,
5 reason. what preemption says` (framework.md §2.2). Pods are grouped by their reasons without the counts, which differ from pod to pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import msgspec

from koordsched.framework.tooling import PluginReport, Section, bar, percent
from koordsched.plugins import tooling
from koordsched.simulate.bands import band_section
from koordsched.simulate.result import Pending, Result

DEFAULT_SHOWN = 10


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


class ReportOptions(msgspec.Struct, frozen=True):
    """peak: shares are the highest of the run, not those at its end. How many are listed: `shown` reasons, and pods by report's key."""

    peak: bool = False
    shown: int = DEFAULT_SHOWN
    shown_pods: Mapping[str, int] = {}


def sections(result: Result, options: ReportOptions, reports: Mapping[str, PluginReport] | None = None) -> list[Section]:
    """Return what to print, most important first."""
    made = [_overview(result)]
    if result.summary.allocation:
        made.append(_allocation(result, options))
    if result.summary.bands:
        made.append(band_section(result.summary.bands))
    for key, report in (reports or {}).items():
        made += report.sections(options.shown_pods.get(key, DEFAULT_SHOWN))
    if result.pending and options.shown:
        made.append(_pending(result, options))
    return made


def _overview(result: Result) -> Section:
    summary = result.summary
    rows = [
        ("nodes", str(summary.nodes), ""),
        ("pods", str(summary.pods), "all pods of the input"),
        ("bound", str(summary.bound), f"{percent(summary.bound, summary.pods)} of the pods found a node"),
        ("pending", str(summary.pending), f"{percent(summary.pending, summary.pods)} did not"),
        ("seconds", f"{summary.seconds:.1f}", "real time that the simulation took"),
        ("decision", f"{summary.decision_mean_micros:.0f} µs", "mean real time to choose a node for one pod"),
    ]
    return Section(title="Simulation", columns=("", "", ""), align="<><", rows=rows)


def _allocation(result: Result, options: ReportOptions) -> Section:
    rows = [(name, f"{100 * share:.1f} %", bar(share)) for name, share in result.summary.allocation.items()]
    when = "at the fullest moment" if options.peak else "at the end"
    note = f"What the pods on nodes request {when}, as a share of what all nodes together can give (allocatable)."
    return Section(title="Allocation", columns=("resource", "share", "of the cluster"), align="<><", rows=rows, notes=[note])


def _pending(result: Result, options: ReportOptions) -> Section:
    groups = group(result.pending)
    shown = groups[: options.shown]
    rows = [(str(found.count), found.example, "; ".join(found.reasons)) for found in shown]
    reasons = dict.fromkeys(reason for found in shown for reason in found.reasons)
    notes = [f"{reason}: {said}." for reason in reasons if (said := meaning(reason))]
    if len(groups) > options.shown:
        hidden = sum(found.count for found in groups[options.shown :])
        more = len(groups) - options.shown
        notes.append(f"{more} more reasons with {hidden} pods; --show-pending N lists more, -o json lists every pod.")
    if in_full := next((found for found in groups if not found.message.startswith(SINGULAR)), None):
        notes.append(f"In full, for {in_full.example}: {in_full.message}")
    return Section(title="Why pods are pending", columns=("pods", "for example", "reasons"), align="><<", rows=rows, notes=notes)


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


def render(sections: Iterable[Section]) -> str:
    """Return sections as plain text, ending in a newline."""
    return "\n".join("\n".join(_lines(section)) + "\n" for section in sections)


def _lines(section: Section) -> list[str]:
    header = [section.columns] if any(section.columns) else []
    table = [*header, *section.rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(section.columns))]
    lines = [section.title, "-" * len(section.title)]
    for row in table:
        cells = (f"{cell:{align}{width}}" for cell, align, width in zip(row, section.align, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return [*lines, *section.notes]
