"""A result as sections of text cells, which `plain` and `terminal` lay out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from koordsched.simulate.cpu_use import CpuUse
from koordsched.simulate.reasons import SINGULAR, group, meaning
from koordsched.simulate.result import Result

BAR_CELLS = 30


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A titled table. align: one of < and > per column. notes stand below it, one line each."""

    title: str
    columns: tuple[str, ...]
    align: str
    rows: Sequence[tuple[str, ...]]
    notes: Sequence[str] = ()


class ReportOptions(msgspec.Struct, frozen=True):
    """peak: shares are the highest of the run, not those at its end. How many are listed: `shown` reasons, `shown_cpus` pods with CPUs."""

    peak: bool = False
    shown: int = 10
    shown_cpus: int = 10


def sections(result: Result, options: ReportOptions, cpus: CpuUse | None = None) -> list[Section]:
    """Return what to print, most important first."""
    made = [_overview(result)]
    if result.summary.allocation:
        made.append(_allocation(result, options))
    if cpus is not None:
        made.append(_cpus(cpus))
        if cpus.pods and options.shown_cpus:
            made.append(_pods_cpus(cpus, options))
    if result.pending and options.shown:
        made.append(_pending(result, options))
    return made


def _overview(result: Result) -> Section:
    summary = result.summary
    rows = [
        ("nodes", str(summary.nodes), ""),
        ("pods", str(summary.pods), "all pods of the input"),
        ("bound", str(summary.bound), f"{_percent(summary.bound, summary.pods)} of the pods found a node"),
        ("pending", str(summary.pending), f"{_percent(summary.pending, summary.pods)} did not"),
        ("seconds", f"{summary.seconds:.1f}", "real time that the simulation took"),
        ("decision", f"{summary.decision_mean_micros:.0f} µs", "mean real time to choose a node for one pod"),
    ]
    return Section(title="Simulation", columns=("", "", ""), align="<><", rows=rows)


def _allocation(result: Result, options: ReportOptions) -> Section:
    rows = [(name, f"{100 * share:.1f} %", _bar(share)) for name, share in result.summary.allocation.items()]
    when = "at the fullest moment" if options.peak else "at the end"
    note = f"What the pods on nodes request {when}, as a share of what all nodes together can give (allocatable)."
    return Section(title="Allocation", columns=("resource", "share", "of the cluster"), align="<><", rows=rows, notes=[note])


def _cpus(use: CpuUse) -> Section:
    found = use.summary
    rows = [_cpu_row(str(numa.node), numa.bound, numa.cpus) for numa in found.numa_nodes]
    rows.append(_cpu_row("all", found.bound, found.total))
    notes = ["CPUs that pods have for themselves at the end, by the number of the NUMA node, over all nodes."]
    if found.pods:
        notes.append(f"Pods with CPUs of their own: {found.pods}, of these on a single NUMA node: {found.pods_on_one_numa_node}.")
    return Section(title="CPUs", columns=("NUMA node", "CPUs", "bound", "share", "of the CPUs"), align="<>>><", rows=rows, notes=notes)


def _cpu_row(name: str, bound: int, cpus: int) -> tuple[str, ...]:
    return name, str(cpus), str(bound), _percent(bound, cpus), _bar(bound / cpus if cpus else 0.0)


def _pods_cpus(use: CpuUse, options: ReportOptions) -> Section:
    shown = use.pods[: options.shown_cpus]
    rows = [(held.pod, held.node, held.cpus or "-", held.numa_nodes or "-") for held in shown]
    more = len(use.pods) - len(shown)
    notes = [f"{more} more pods; --show-cpus N lists more, -o json lists every pod."] if more else []
    return Section(title="CPUs of pods", columns=("pod", "node", "CPUs", "NUMA nodes"), align="<<<<", rows=rows, notes=notes)


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


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _bar(share: float) -> str:
    filled = min(max(round(share * BAR_CELLS), 0), BAR_CELLS)
    return "#" * filled + "." * (BAR_CELLS - filled)
