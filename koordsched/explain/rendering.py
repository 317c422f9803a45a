"""An Explanation as text for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.framework.tooling import Section
from koordsched.scheduler.suggestions.explanation import PENDING, REJECTED
from koordsched.simulate.summary import render

if TYPE_CHECKING:
    from koordsched.scheduler.suggestions.explanation import Explanation, Reason

SHOWN_NODES = 3
SHOWN_SCORES = 5


def json_body(found: Explanation) -> bytes:
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def text(found: Explanation, *, tried: bool) -> str:
    """Return the tables. tried: whether changes were looked for."""
    waiting = [f"  It {found.waiting}."] if found.waiting and found.waiting != found.message else []
    lines = [_headline(found), *([f"  {found.message}"] if found.message else []), *waiting, ""]
    return "\n".join(lines) + "\n" + render(_sections(found, tried=tried))


def _headline(found: Explanation) -> str:
    if found.state == PENDING:
        return f"Pod {found.pod} is pending{f' with node {found.node}' if found.node else ''}."
    if found.state == REJECTED:
        return f"Pod {found.pod} is refused by the API server."
    return f"Pod {found.pod} {found.state} on node {found.node}."


def _sections(found: Explanation, *, tried: bool) -> list[Section]:
    made = []
    if found.reasons:
        rows = [
            (str(each.count), each.plugin, each.reason, _named(each), "yes" if each.eviction_might_help else "no") for each in found.reasons
        ]
        made.append(
            Section(
                title="Nodes that refuse it",
                columns=("nodes", "plugin", "reason", "which", "evictions might help"),
                align="><<<<",
                rows=rows,
            )
        )
    if found.scores:
        best = found.scores[:SHOWN_SCORES]
        plugins = [plugin for plugin in best[0].plugins if any(each.plugins[plugin] for each in best)]
        rows_ = [(plugin, *(str(each.plugins[plugin]) for each in best)) for plugin in plugins]
        total = ("total", *(str(each.total) for each in best))
        made.append(
            Section(
                title="Scores of the best nodes",
                columns=("plugin", *(each.node for each in best)),
                align="<" + ">" * len(best),
                rows=[*rows_, total],
            )
        )
    if tried and found.state == PENDING:
        made.append(_changes(found))
    return made


def _changes(found: Explanation) -> Section:
    rows = [(each.text, str(each.fits) if each.fits else "-", each.node) for each in found.changes]
    notes = [f"Each was tried: with it, and nothing smaller of its kind, the pod was bound without an eviction ({found.trials} trials)."]
    if not rows:
        notes = [f"No change that was tried lets it run, alone or with a second one ({found.trials} trials)."]
    elif found.incomplete:
        notes.append("Not all changes were tried: the scheduler keeps its time for scheduling. `explain` of files tries them all.")
    elif found.left_out:
        notes.append(f"{found.left_out} other pending pods were left out of the trials: they may take the room that a change makes.")
    return Section(
        title="What would let it run (any one of these)",
        columns=("change", "fits nodes", "for example"),
        align="<><",
        rows=rows,
        notes=notes,
    )


def _named(reason: Reason) -> str:
    more = reason.count - SHOWN_NODES
    return ", ".join(reason.nodes[:SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")
