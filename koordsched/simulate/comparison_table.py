"""A comparison as sections of text cells: numbers side by side, placements that differ, and reasons of pending pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.tooling import Figure, Section, percent
from koordsched.simulate.summary import group, reasons_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.simulate.comparison import PodDifference, PodOutcome, RunComparison
    from koordsched.simulate.result import NamespaceSummary, Result
    from koordsched.simulate.simulation import SimulationOutcome

NONE = "-"
COLUMNS = ("base", "other")


class ComparisonOptions(msgspec.Struct, frozen=True):
    """How many are listed: `differences` pods, `pending` reasons and as many namespaces. peak: as of `ReportOptions`."""

    peak: bool = False
    differences: int = 10
    pending: int = 10


def comparison_sections(found: RunComparison, options: ComparisonOptions) -> list[Section]:
    """Return what to print, most important first."""
    made = [_numbers(found, options), _placements(found)]
    if options.differences and found.differences:
        made.append(_differences(found, options.differences))
    if options.pending:
        made += [*_reasons(found, options.pending), *_namespaces(found, options.pending)]
    return made


def figures(outcome: SimulationOutcome) -> Iterator[Figure]:
    """Yield the numbers by which runs are compared."""
    summary = outcome.result.summary
    yield Figure("pods bound", summary.bound)
    yield Figure("pods pending", summary.pending)
    for name, share in summary.allocation.items():
        yield Figure(f"{name} allocated", share, is_share=True)
    for name, share in summary.unusable.items():
        yield Figure(f"{name} free, but unusable", share, is_share=True)
    for report in outcome.reports.values():
        yield from report.figures
    if summary.fairness is not None:
        yield Figure("fairness between namespaces", summary.fairness.index, is_share=True)


def _numbers(found: RunComparison, options: ComparisonOptions) -> Section:
    base, other = ({figure.label: figure for figure in figures(run.outcome)} for run in (found.base, found.other))
    rows = [_figure_row(label, base.get(label), other.get(label)) for label in dict.fromkeys([*base, *other])]
    micros = [run.outcome.result.summary.decision_mean_micros for run in (found.base, found.other)]
    rows.append(("mean time of a decision", *(f"{each:.0f} µs" for each in micros), f"{micros[1] - micros[0]:+.0f} µs"))
    when = "at the fullest moment" if options.peak else "at the end"
    notes = [
        f"base: {found.base.config}; other: {found.other.config}.",
        f"allocated: what pods on nodes request {when}, as a share of what all nodes can give.",
        "free, but unusable: of no use to pods like those of the input, as a share of all; less of it is less fragmentation.",
    ]
    if found.base.outcome.result.summary.fairness is not None:
        notes.append("fairness: Jain's index of the shares of what namespaces ask for that they are given; 100 % where all get the same.")
    return Section(title="Comparison", columns=("", *COLUMNS, "difference"), align="<>>>", rows=rows, notes=notes)


def _figure_row(label: str, base: Figure | None, other: Figure | None) -> tuple[str, ...]:
    """Return a row; a number that one run has not is a dash."""
    cells = [NONE if figure is None else _shown(figure) for figure in (base, other)]
    if base is None or other is None:
        return (label, *cells, NONE)
    change = other.value - base.value
    return (label, *cells, f"{100 * change:+.2f}" if base.is_share else f"{change:+g}")


def _shown(figure: Figure) -> str:
    return f"{100 * figure.value:.2f} %" if figure.is_share else f"{figure.value:g}"


def _placements(found: RunComparison) -> Section:
    counts, pods = found.counts, found.base.outcome.result.summary.pods
    named = {
        "on the same node": counts.same_node,
        "on another node": counts.other_node,
        "placed by base only": counts.only_base,
        "placed by other only": counts.only_other,
        "placed by neither": counts.neither,
    }
    rows = [(name, str(count), percent(count, pods)) for name, count in named.items()]
    return Section(title="Placements", columns=("", "pods", "of all"), align="<>>", rows=rows)


def _differences(found: RunComparison, limit: int) -> Section:
    """List pods that only one run placed, then those on another node."""
    ranked = sorted(found.differences, key=_is_on_both)
    rows = [(each.pod, _where(each.base), _where(each.other)) for each in ranked[:limit]]
    more = len(ranked) - limit
    notes = [f"{more} more pods; --show-differences N lists more, -o json lists every one."] if more > 0 else []
    return Section(title="Pods placed differently", columns=("pod", *COLUMNS), align="<<<", rows=rows, notes=notes)


def _is_on_both(difference: PodDifference) -> bool:
    return bool(difference.base.node and difference.other.node)


def _where(outcome: PodOutcome) -> str:
    return outcome.node or f"pending: {'; '.join(reasons_of(outcome.reason))}"


def _reasons(found: RunComparison, limit: int) -> Iterator[Section]:
    """Yield the reasons of pending pods with how many there are of each, those first whose numbers differ most."""
    base, other = (_counts(run.outcome.result) for run in (found.base, found.other))
    reasons = sorted(dict.fromkeys([*base, *other]), key=lambda reason: -abs(other.get(reason, 0) - base.get(reason, 0)))
    if not reasons:
        return
    rows = [("; ".join(reason), str(base.get(reason, 0)), str(other.get(reason, 0))) for reason in reasons[:limit]]
    more = len(reasons) - limit
    notes = [f"{more} more reasons; --show-pending N lists more."] if more > 0 else []
    yield Section(title="Why pods are pending", columns=("reasons", *COLUMNS), align="<>>", rows=rows, notes=notes)


def _counts(result: Result) -> dict[tuple[str, ...], int]:
    return {found.reasons: found.count for found in group(result.pending)}


def _namespaces(found: RunComparison, limit: int) -> Iterator[Section]:
    """Yield what each namespace is served, those first for which it differs most."""
    base, other = (_served(run.outcome.result) for run in (found.base, found.other))
    if not base or not other:
        return
    names = sorted(base.keys() & other.keys(), key=lambda name: (-abs(other[name].served - base[name].served), name))
    rows = [(name, base[name].resource, *(f"{100 * each[name].served:.1f} %" for each in (base, other))) for name in names[:limit]]
    notes = ["The share of what a namespace asks for that it was given, of the resource of which it asks for the largest share."]
    if len(names) > limit:
        notes.append(f"{len(names) - limit} more namespaces; --show-pending N lists more.")
    yield Section(title="Namespaces", columns=("namespace", "resource", *COLUMNS), align="<<>>", rows=rows, notes=notes)


def _served(result: Result) -> dict[str, NamespaceSummary]:
    fairness = result.summary.fairness
    namespaces: Sequence[NamespaceSummary] = () if fairness is None else fairness.namespaces
    return {each.namespace: each for each in namespaces}
