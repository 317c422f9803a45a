"""What `simulate` and `test` know of ElasticQuota: the meaning of its texts, and a table of the tree of quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import ELASTIC_QUOTA
from koordsched.api.koordinator.quota_definitions import amount_text, runtime_text
from koordsched.framework.tooling import Figure, PluginReport, Report, Section, Tooling
from koordsched.plugins.elasticquota.manager import BUILT_IN
from koordsched.plugins.elasticquota.state import QuotaState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quota_definitions import Amounts
    from koordsched.api.meta import Object
    from koordsched.cache.cache import Cache
    from koordsched.plugins.elasticquota.manager import Quota, QuotaManager

INDENT = "  "
ABSENT = "-"


class QuotaUse(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A quota at the end. max: empty where it limits nothing. runtime: what it may use; of a root what there is; empty where max is the
    limit. requested: by all its pods and children, as far as their max. waiting: by pods of it and below it that use nothing yet."""

    name: str
    parent: str
    tree: str
    min: dict[str, str]
    max: dict[str, str]
    runtime: dict[str, str]
    used: dict[str, str]
    requested: dict[str, str]
    waiting: dict[str, str]


class QuotaTreesSummary(msgspec.Struct, frozen=True):
    """All quotas but built-in ones without pods, parents before their children."""

    quotas: list[QuotaUse]


class QuotaLine(msgspec.Struct, frozen=True):
    """A quota in the table. depth: how many quotas are above it."""

    depth: int
    use: QuotaUse

    @property
    def rank(self) -> tuple[bool, bool]:
        """Return what sorts first the quotas under which pods wait, then those in use."""
        return not self.use.waiting, not self.use.used


def quota_report(_pods: Iterable[Pod], _quotas: Iterable[Object], cache: Cache) -> PluginReport | None:
    """Return the report on the quotas of a cluster; None where only built-in ones are."""
    state = cache.shared.find(QuotaState)
    if state is None or all(quota is quota.manager.root or quota.name in BUILT_IN for quota in state.quotas.values()):
        return None
    lines = [line for _, manager in sorted(state.managers.items()) for line in _lines_of(manager)]
    figures = [Figure("quotas with waiting pods", sum(bool(line.use.waiting) for line in lines))]
    return PluginReport(QuotaTreesSummary([line.use for line in lines]), lambda limit: quota_sections(lines, limit), figures)


def _lines_of(manager: QuotaManager) -> Iterator[QuotaLine]:
    """Yield the quotas of a tree, each before its children; those without a known parent come last."""
    children: dict[str, list[Quota]] = {}
    orphans: list[Quota] = []
    for quota in sorted(manager, key=lambda quota: (quota.name in BUILT_IN, quota.name)):
        parent = manager.parent(quota)
        if parent is not None:
            children.setdefault(parent.name, []).append(quota)
        elif quota is not manager.root:
            orphans.append(quota)
    waiting = {quota.name: _waiting(quota) for quota in manager}
    found: list[tuple[int, Quota]] = []
    open_quotas = [(0, quota) for quota in (*reversed(orphans), manager.root)]
    while open_quotas:
        depth, quota = open_quotas.pop()
        found.append((depth, quota))
        open_quotas += [(depth + 1, child) for child in reversed(children.get(quota.name, ()))]
    for _, quota in reversed(found):  # children come after their parents
        parent = manager.parent(quota)
        if parent is not None:
            for name, amount in waiting[quota.name].items():
                waiting[parent.name][name] = waiting[parent.name].get(name, 0) + amount
    for depth, quota in found:
        if quota.name not in BUILT_IN or quota.pods:
            yield QuotaLine(depth, _use_of(manager, quota, waiting[quota.name]))


def _waiting(quota: Quota) -> Amounts:
    """Return what pods of the quota itself ask for and do not use."""
    used = quota.amounts("self_used")
    return {name: amount - used.get(name, 0) for name, amount in quota.amounts("self_request").items()}


def _use_of(manager: QuotaManager, quota: Quota, waiting: Amounts) -> QuotaUse:
    runtime: Amounts = {}
    if quota is manager.root:
        runtime = manager.total
    elif manager.kernel.by_runtime:
        runtime = quota.runtimes()
    return QuotaUse(
        name=quota.name,
        parent=quota.definition.parent,
        tree=manager.tree_id,
        min=_texts(quota.definition.min),
        max={} if quota.name in BUILT_IN and manager.kernel.by_runtime else _texts(quota.definition.max),
        runtime=_texts(runtime, runtime_text),
        used=_texts(_some(quota.amounts("used"))),
        requested=_texts(_some(quota.amounts("request"))),
        waiting=_texts(_some(waiting)),
    )


def _some(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def _texts(amounts: Amounts, text_of: Callable[[str, int], str] = amount_text) -> dict[str, str]:
    return {name: text_of(name, amounts[name]) for name in sorted(amounts)}


def quota_sections(lines: Sequence[QuotaLine], limit: int) -> Sequence[Section]:
    """Return the table of at most so many quotas: those under which pods wait first, in the order of the tree."""
    if not limit:
        return []
    chosen = sorted(sorted(range(len(lines)), key=lambda place: (lines[place].rank, place))[:limit])
    limited = {name for line in lines for name in line.use.max}
    rows = [row for place in chosen for row in _rows(lines[place], limited)]
    notes = [
        "requested: by pods and children, those that wait included. runtime: what may be used now; of a root what there is.",
        "waiting: by pods of the quota and below it that have no node.",
    ]
    if len(lines) > limit:
        notes.append(f"{len(lines) - limit} more quotas; --show-quotas N lists more.")
    columns = ("quota", "resource", "min", "max", "runtime", "used", "requested", "waiting")
    return [Section(title="Quotas", columns=columns, align="<<>>>>>>", rows=rows, notes=notes)]


def _rows(line: QuotaLine, limited: set[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each resource that the quota limits; of a root for each that some quota limits; else for each that is asked for."""
    use = line.use
    name = f"{INDENT * line.depth}{use.name}"
    if use.tree and not line.depth:
        name += f" (tree {use.tree})"
    for resource in sorted(use.max or (limited & use.runtime.keys()) or use.requested):
        amounts: Sequence[Mapping[str, str]] = (use.min, use.max, use.runtime)
        counted: Sequence[Mapping[str, str]] = (use.used, use.requested, use.waiting)
        yield (name, resource, *(each.get(resource, ABSENT) for each in amounts), *(each.get(resource, "0") for each in counted))
        name = ""


TOOLING = Tooling(
    explanations=(
        (
            r"Insufficient quotas, quotaName: ([^,]+),.*",
            "the quota {0} may not use more now; the table of quotas says what it has, and who uses the rest",
        ),
        (r"Insufficient quotas, quotaNameTopo: \[(\S+).*", "the quota {0}, above that of the pod, may not use more now"),
        (r"Insufficient non-preemptible quotas, quotaName: ([^,]+),.*", "non-preemptible pods have to fit into the min of {0}"),
    ),
    reports=(Report("elasticQuota", "--show-quotas", "quotas in the table of the tree (default 10)", ELASTIC_QUOTA, quota_report),),
)
