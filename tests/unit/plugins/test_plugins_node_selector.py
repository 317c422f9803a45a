"""Compiled node selectors: framework.md §10.2, for single nodes and for rows alike."""

from __future__ import annotations

import numpy as np
import pytest
from support.builders import NodeBuilder, node, requirement

from koordsched.api.core import NodeSelector, NodeSelectorTerm
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.cache.cache import Cache
from koordsched.framework.node_selector import CompiledNodeSelector, required_terms, term_error


def term(*expressions: LabelSelectorRequirement, fields: tuple[LabelSelectorRequirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def matching(nodes: list[NodeBuilder], *terms: NodeSelectorTerm, node_selector: dict[str, str] | None = None) -> list[str]:
    """Return the nodes that match, having checked that rows and single nodes agree."""
    cache = Cache()
    for builder in nodes:
        cache.set_node(builder.build())
    selector = CompiledNodeSelector(cache.columns, required_terms(node_selector or {}, NodeSelector(terms) if terms else None))
    selected = cache.nodes()
    infos = [selected.info(row) for row in selected.rows.tolist()]
    flags = selector.matches_rows(selected.rows)
    assert flags.dtype == np.uint8
    assert flags.tolist() == [selector.matches_node(info.node) for info in infos if info.node]
    assert selector.refuse(selected.rows, 9).tolist() == [0 if flag else 9 for flag in flags]
    return [info.name for info, flag in zip(infos, flags, strict=True) if flag]


ZONES = [node("a").label("zone", "a"), node("b").label("zone", "b"), node("empty").label("zone", ""), node("none")]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (requirement("zone", "In", "a", "z"), ["a"]),
        (requirement("zone", "In", "a", "b"), ["a", "b"]),
        (requirement("zone", "In", ""), ["empty"]),
        (requirement("zone", "NotIn", "a"), ["b", "empty", "none"]),
        (requirement("zone", "Exists"), ["a", "b", "empty"]),
        (requirement("zone", "DoesNotExist"), ["none"]),
        (requirement("unheard", "NotIn", "a"), ["a", "b", "empty", "none"]),
        (requirement("unheard", "DoesNotExist"), ["a", "b", "empty", "none"]),
        (requirement("unheard", "In", "a"), []),
        (requirement("zone", "Gt", "1"), []),
    ],
)
def test_each_operator_means_what_it_says(expression: LabelSelectorRequirement, expected: list[str]) -> None:
    assert matching(ZONES, term(expression)) == expected


def test_gt_and_lt_compare_integers() -> None:
    cores = [node(name).label("cores", value) for name, value in (("8", "8"), ("16", "16"), ("many", "many"), ("-1", "-1"))] + [node("x")]
    assert matching(cores, term(requirement("cores", "Gt", "8"))) == ["16"]
    assert matching(cores, term(requirement("cores", "Lt", "9"))) == ["8", "-1"]


def test_terms_are_alternatives_and_expressions_hold_together() -> None:
    nodes = [
        node("ax").label("zone", "a").label("disk", "x"),
        node("ay").label("zone", "a").label("disk", "y"),
        node("b").label("zone", "b"),
    ]
    in_a, disk_x, in_b = requirement("zone", "In", "a"), requirement("disk", "In", "x"), requirement("zone", "In", "b")
    assert matching(nodes, term(in_a, disk_x), term(in_b)) == ["ax", "b"]


def test_the_plain_map_and_the_terms_must_both_match() -> None:
    nodes = [
        node("ax").label("zone", "a").label("disk", "x"),
        node("ay").label("zone", "a"),
        node("bx").label("zone", "b").label("disk", "x"),
    ]
    assert matching(nodes, node_selector={"disk": "x"}) == ["ax", "bx"]
    assert matching(nodes, term(requirement("zone", "In", "a")), node_selector={"disk": "x"}) == ["ax"]
    assert matching(nodes) == ["ax", "ay", "bx"]
    assert matching(nodes, node_selector={"zone": "a", "disk": "x"}) == ["ax"]
    assert matching(nodes, node_selector={"zone": "x", "disk": "x"}) == []


def test_labels_that_must_have_the_same_value_share_its_list() -> None:
    (pairs,) = required_terms({f"key-{number}": "same" if number % 2 else "other" for number in range(1000)}, None)
    assert {condition.values for condition in pairs} == {("same",), ("other",)}
    assert len({id(condition.values) for condition in pairs}) == 2


def test_an_empty_term_matches_nothing_and_so_do_no_terms() -> None:
    assert matching(ZONES, term()) == []
    assert matching(ZONES, term(), term(requirement("zone", "In", "b"))) == ["b"]
    cache = Cache()
    cache.set_node(ZONES[0].build())
    nothing = CompiledNodeSelector(cache.columns, required_terms({"zone": "a"}, NodeSelector()))
    assert nothing.matches_rows(cache.nodes().rows).tolist() == [0]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (requirement("zone", "In"), "matchExpressions[1].values: "),
        (requirement("zone", "Exists", "a"), "matchExpressions[1].values: "),
        (requirement("zone", "Gt", "many"), "matchExpressions[1].values: "),
        (requirement("zone", "Like", "a"), 'matchExpressions[1].operator: "Like"'),
        (requirement("-/x", "Exists"), "matchExpressions[1].key: "),
    ],
)
def test_a_term_that_cannot_be_understood_never_matches(bad: LabelSelectorRequirement, problem: str) -> None:
    good = requirement("zone", "NotIn", "b")
    found = term_error(term(good, bad))
    assert found is not None
    assert found.startswith(problem)
    assert matching(ZONES, term(good, bad)) == []
    assert matching(ZONES, term(good, bad), term(requirement("zone", "In", "b"))) == ["b"]


def test_fields_look_at_the_name() -> None:
    assert matching(ZONES, term(fields=(requirement("metadata.name", "In", "b"),))) == ["b"]
    assert matching(ZONES, term(fields=(requirement("metadata.name", "NotIn", "b"),))) == ["a", "empty", "none"]
    assert matching(ZONES, term(requirement("zone", "In", "a"), fields=(requirement("metadata.name", "NotIn", "b"),))) == ["a"]


def test_a_field_with_two_values_or_another_operator_never_matches() -> None:
    assert matching(ZONES, term(fields=(requirement("metadata.name", "In", "a", "b"),))) == []
    assert matching(ZONES, term(fields=(requirement("metadata.name", "Exists"),))) == []


def test_another_field_reads_as_empty() -> None:
    assert matching(ZONES, term(fields=(requirement("spec.x", "In", "a"),))) == []
    assert matching(ZONES, term(fields=(requirement("spec.x", "NotIn", "a"),))) == ["a", "b", "empty", "none"]
    assert matching(ZONES, term(fields=(requirement("spec.x", "In", ""),))) == ["a", "b", "empty", "none"]
    assert matching(ZONES, term(fields=(requirement("spec.x", "NotIn", ""),))) == []


def test_labels_and_values_that_appear_later_are_seen() -> None:
    cache = Cache()
    cache.set_node(node("n").build())
    unheard, zone_b = term(requirement("new", "In", "yes")), term(requirement("zone", "NotIn", "b"), requirement("zone", "Exists"))
    selector = CompiledNodeSelector(cache.columns, required_terms({}, NodeSelector((unheard, zone_b))))
    rows = cache.nodes().rows
    assert selector.matches_rows(rows).tolist() == [0]
    for changed, expected in [
        (node("n").label("new", "no"), 0),
        (node("n").label("new", "yes"), 1),
        (node("n").label("zone", "b"), 0),
        (node("n").label("zone", "c"), 1),
        (node("n").label("new", "other"), 0),
    ]:
        cache.set_node(changed.build())
        assert selector.matches_rows(rows).tolist() == [expected], changed.build().metadata.labels


def test_a_selector_makes_no_columns() -> None:
    cache = Cache()
    cache.set_node(node("n").build())
    before = cache.table.attributes
    CompiledNodeSelector(cache.columns, required_terms({"unheard": "x"}, None)).matches_rows(cache.nodes().rows)
    assert cache.table.attributes == before


def test_weights_of_matching_terms_are_added() -> None:
    cache = Cache()
    for builder in ZONES:
        cache.set_node(builder.build())
    terms = [*required_terms({"zone": "a"}, None), *required_terms({}, NodeSelector((term(requirement("zone", "Exists")),)))]
    assert CompiledNodeSelector(cache.columns, terms, [10, 3]).weigh(cache.nodes().rows).tolist() == [13, 3, 3, 0]
