"""SchedulingHint: what it reads of the annotation, and how many preferred nodes count."""

from __future__ import annotations

import pytest
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench

from koordsched.config.koordinator_args import SchedulingHintArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.status import SKIP, Code, Status
from koordsched.plugins.schedulinghint.plugin import SchedulingHint

HINT, OLD = "internal.scheduling.koordinator.sh/scheduling-hint", "scheduling.koordinator.sh/scheduling-hint"


@pytest.fixture
def plugin() -> SchedulingHint:
    return SchedulingHint(SchedulingHintArgs(max_hint_nodes=3), PluginBench(node("n1")))


def hinted(text: str, key: str = HINT) -> PodBuilder:
    return pod().annotation(key, text)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (pod(), None),
        (pod().annotation("other", "{"), None),
        (hinted("null"), None),
        (hinted("{}"), None),
        (hinted('{"nodeNames":[],"preferredNodeNames":["a"]}'), None),
        (hinted('{"nodeNames":["b","a","b"]}'), {"a", "b"}),
        (hinted('{"NodeNames":["a"]}'), {"a"}),
        (hinted('{"nodeNames":["a"]}', OLD), {"a"}),
        (hinted("").annotation(OLD, '{"nodeNames":["a"]}'), {"a"}),
        (hinted('{"nodeNames":["b"]}').annotation(OLD, "{"), {"b"}),
    ],
)
def test_required_nodes_restrict_the_pod(plugin: SchedulingHint, made: PodBuilder, names: set[str] | None) -> None:
    info = made.info()
    assert plugin.restriction_key(info) == (None if names is None else frozenset(names))
    if names is not None:
        assert plugin.restrict(info, PluginBench().cache.nodes()) == PreFilterResult(frozenset(names))


@pytest.mark.parametrize("text", ["{", "[]", '{"nodeNames":"a"}', '{"nodeNames":[1]}', '{"preferredNodeNames":{}}', '{"extensions":[]}'])
def test_what_cannot_be_read_is_an_error_that_names_the_annotation_and_the_value(plugin: SchedulingHint, text: str) -> None:
    found = plugin.restriction_key(hinted(text).annotation(OLD, '{"nodeNames":["a"]}').info())
    assert isinstance(found, Status)
    assert found.code is Code.ERROR
    assert found.message.startswith(f"{HINT}: ")


def test_the_first_so_many_preferred_names_count_in_their_order(plugin: SchedulingHint) -> None:
    def preferred(text: str) -> list[str] | Status:
        found = plugin.prefer_nodes(CycleState(), hinted(text).info())
        return found if isinstance(found, Status) else list(found)

    assert preferred('{"preferredNodeNames":["d","a","c","b"]}') == ["d", "a", "c"]
    assert preferred('{"preferredNodeNames":[]}') is SKIP
    assert plugin.prefer_nodes(CycleState(), pod().info()) is SKIP


def test_any_event_may_help(plugin: SchedulingHint) -> None:
    assert plugin.events_to_register() is None
