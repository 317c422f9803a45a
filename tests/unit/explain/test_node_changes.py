"""Changes of nodes that `explain` states: what a new node is like."""

from __future__ import annotations

from support.explained import explained, node, pod


def test_a_new_node_is_not_cordoned_where_the_node_that_it_is_like_is() -> None:
    found = explained([node("n0", unschedulable=True), pod("web", {"cpu": "1"})])
    assert {"uncordon node n0", "add 1 node like n0"} <= {change.text for change in found.changes}


def test_a_new_node_is_like_the_existing_one_without_the_other_changes() -> None:
    """A label that one node is given is not on the new node, too: the pair would be said to help and would not."""
    full = pod("other", {"cpu": "4"}, nodeName="n0")
    found = explained([node("n0"), full, pod("web", {"cpu": "1"}, nodeSelector={"zone": "a"})])
    kinds = [{part["kind"] for part in change.changes} for change in found.changes]
    assert kinds
    assert {"nodeLabel", "addNodes"} not in kinds
