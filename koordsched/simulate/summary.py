"""A result as sections of text cells, which `plain` and `terminal` lay out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koordsched.framework.tooling import PluginReport, Section, bar, percent
from koordsched.simulate.reasons import SINGULAR, group, meaning
from koordsched.simulate.result import Result

DEFAULT_SHOWN = 10


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
