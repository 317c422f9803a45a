"""Kinds of objects that plugins bring: which of their changes move refused pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.fakes import FakeFilter, node_manifest, pod_manifest
from support.stages import Stage, bound_to

import koordsched.plugins
from koordsched.api.kinds import KINDS, NODE, POD, Kind, bring, kind_of
from koordsched.api.meta import Unstructured
from koordsched.cluster.port import Ref
from koordsched.framework.handle import Handle
from koordsched.framework.status import unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event

WIDGET = Kind("example.com", "v1", "Widget", "widgets", namespaced=False, struct=Unstructured)
REFUSED = unresolvable("no widget")


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    bring(WIDGET)
    yield
    del KINDS[WIDGET.api_version, WIDGET.kind]


class NeedsWidget(FakeFilter):
    """Refuses every pod until there is a Widget; registers the given events."""

    kinds = (WIDGET,)

    def __init__(self, events: Sequence[EventHint] | None) -> None:
        super().__init__("W")
        self.registered = events
        self.store: Any = {}
        self.refuse_all = REFUSED
        self.widgets = 0

    def made(self, _args: object, handle: Handle) -> NeedsWidget:
        handle.informer(WIDGET).add_handler(self)
        return self

    def events_to_register(self) -> Sequence[EventHint] | None:
        return self.registered

    def version(self, pod: object) -> int:
        return self.widgets

    def on_add(self, *_: object) -> None:
        self.widgets += 1
        self.refuse_all = None

    def on_update(self, *_: object) -> None:
        """Makes no difference."""

    def on_delete(self, *_: object) -> None:
        """Makes no difference."""


def created(kind: str = WIDGET.plural_group) -> list[EventHint]:
    return [EventHint(cluster_event(EventResource.CUSTOM, ActionType.ADD, kind))]


@pytest.mark.parametrize("events", [created(), None], ids=["registered", "every event"])
async def test_an_object_of_a_kind_that_a_plugin_brings_moves_the_pods_that_it_refused(
    events: list[EventHint] | None, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = NeedsWidget(events)
    async with stage((plugin, "filter")) as world:
        monkeypatch.setitem(koordsched.plugins.REGISTRY, "W", plugin.made)
        world.scheduler = world._new_scheduler()
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest())
        await world.start()
        await asyncio.sleep(60)
        assert bound_to(world) == ""
        await world.create(WIDGET, {"metadata": {"name": "w"}})
        await world.settle()
        assert bound_to(world) == "n1"
        await world.cluster.delete(Ref(WIDGET, "", "w"))
        await world.stop()


async def test_events_of_a_kind_that_is_not_watched_are_a_warning(stage: Stage) -> None:
    with capture_logs() as logs:
        async with stage((NeedsWidget(created("gadgets.example.com")), "filter")) as world:
            assert world.scheduler.profiles
    (line,) = [line for line in logs if line["event"].startswith("plugins registered events of kinds")]
    assert line["kinds"] == ["gadgets.example.com"]


def test_a_kind_that_is_brought_again_is_one_and_a_rival_is_refused() -> None:
    bring(WIDGET)
    assert kind_of("example.com/v1", "Widget") is WIDGET
    for rival in (
        Kind("example.com", "v1", "Widget", "widgets", namespaced=True, struct=Unstructured),
        Kind("example.com", "v1", "Wodget", "widgets", namespaced=False, struct=Unstructured),
    ):
        with pytest.raises(ValueError, match=r"\(widgets\) of 'example.com/v1' is known already, as 'Widget'"):
            bring(rival)
