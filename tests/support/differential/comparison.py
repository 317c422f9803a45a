"""How the two answers about one pod differ: as sentences, none when they agree."""

from __future__ import annotations

from support.differential.ours import Judgement
from support.differential.reference import Decision

NOT_FOUND = " not found"
"""What kube-scheduler's PostFilter says when PreFilter had ended before DynamicResources could prepare anything: our text is longer."""


def differences(theirs: Decision, ours: Judgement) -> list[str]:
    if theirs.message or ours.message:
        return [*compare_messages(theirs, ours), *compare_nominations(theirs, ours)]
    found = [] if theirs.node in ours.best else [f"the reference chose {theirs.node}, our best are {', '.join(sorted(ours.best))}"]
    return found + compare_scores(theirs, ours)


def compare_messages(theirs: Decision, ours: Judgement) -> list[str]:
    said = theirs.message or f"bound to {theirs.node}"
    ours_said = ours.message or f"best are {', '.join(sorted(ours.best))}"
    if said == ours_said or (said.endswith(NOT_FOUND) and ours_said.startswith(said.removesuffix(NOT_FOUND))):
        return []
    return [f"the reference: {said}\nours:          {ours_said}"]


def compare_nominations(theirs: Decision, ours: Judgement) -> list[str]:
    """See that both have made room for the pod, or neither has; and that what had to go is equally bad (framework.md §7.5).

    Among equally good nodes each chooses by its own chance.
    """
    found = []
    if bool(theirs.nominated) != bool(ours.nominated):
        found.append(f"the reference nominated {theirs.nominated or 'no node'}, we nominated {ours.nominated or 'no node'}")
    if theirs.evicted != ours.evicted:
        found.append(f"the reference evicted pods of the priorities {theirs.evicted}, we {ours.evicted}")
    return found


def compare_scores(theirs: Decision, ours: Judgement) -> list[str]:
    """Compare the weighted scores of all plugins on all nodes; a plugin that had nothing to say counts as 0 everywhere."""
    if theirs.scores.keys() != ours.scores.keys():
        seen, found = ", ".join(sorted(theirs.scores)) or "none", ", ".join(sorted(ours.scores)) or "none"
        return [f"the reference scored the nodes {seen}; we found feasible {found}"]
    return [line for node in sorted(theirs.scores) for line in compare_node(node, theirs, ours)]


def compare_node(node: str, theirs: Decision, ours: Judgement) -> list[str]:
    seen, own = theirs.scores[node], {plugin: score.weighted for plugin, score in ours.scores[node].items()}
    plugins = [plugin for plugin in sorted(seen.keys() | own.keys()) if seen.get(plugin, 0) != own.get(plugin, 0)]
    return [f"{plugin} on {node}: the reference {seen.get(plugin)}, ours {own.get(plugin)}" for plugin in plugins]
