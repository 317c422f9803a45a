"""The mirror: handlers see a gapless story, whatever lists and events it is fed."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from koordsched.api.meta import Object, ObjectMeta
from koordsched.cluster.mirror import Arrival, FinalState, Mirror
from koordsched.cluster.port import WatchEvent, WatchEventType


def obj(name: str, version: int, uid: str = "", namespace: str = "ns") -> Object:
    return Object(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or name, resource_version=str(version)))


def version_of(seen: Object) -> str:
    return f"{seen.metadata.name}@{seen.metadata.resource_version}"


class Story:
    """Writes down what a handler is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_add(self, obj: Object, arrival: Arrival) -> None:
        self.lines.append(f"add {version_of(obj)} {arrival.value}")

    def on_update(self, old: Object, new: Object) -> None:
        self.lines.append(f"update {version_of(old)} {version_of(new)}")

    def on_delete(self, obj: Object, final_state: FinalState) -> None:
        self.lines.append(f"delete {version_of(obj)} {final_state.value}")


@pytest.fixture
def mirror() -> Mirror[Object]:
    return Mirror("things")


@pytest.fixture
def story(mirror: Mirror[Object]) -> Story:
    story = Story()
    mirror.add_handler(story)
    return story


def tell(mirror: Mirror[Object], kind: WatchEventType, changed: Object) -> None:
    mirror.apply(WatchEvent(kind, changed))


def test_a_first_list_is_added_as_initial(mirror: Mirror[Object], story: Story) -> None:
    mirror.replace([obj("a", 1), obj("b", 2)], Arrival.INITIAL)
    assert story.lines == ["add a@1 initial", "add b@2 initial"]
    assert sorted(mirror.store) == ["ns/a", "ns/b"]


def test_events_are_passed_on(mirror: Mirror[Object], story: Story) -> None:
    tell(mirror, WatchEventType.ADDED, obj("a", 1))
    tell(mirror, WatchEventType.MODIFIED, obj("a", 2))
    tell(mirror, WatchEventType.DELETED, obj("a", 3))
    assert story.lines == ["add a@1 later", "update a@1 a@2", "delete a@3 known"]
    assert mirror.store == {}


def test_what_is_known_already_is_not_told_again(mirror: Mirror[Object], story: Story) -> None:
    mirror.replace([obj("a", 1)], Arrival.INITIAL)
    tell(mirror, WatchEventType.ADDED, obj("a", 1))
    mirror.replace([obj("a", 1)], Arrival.LATER)
    tell(mirror, WatchEventType.DELETED, obj("b", 9))
    assert story.lines == ["add a@1 initial"]


def test_an_update_of_something_unknown_is_an_addition(mirror: Mirror[Object], story: Story) -> None:
    tell(mirror, WatchEventType.MODIFIED, obj("a", 5))
    tell(mirror, WatchEventType.ADDED, obj("a", 6))
    assert story.lines == ["add a@5 later", "update a@5 a@6"]


def test_a_new_list_is_told_as_differences(mirror: Mirror[Object], story: Story) -> None:
    mirror.replace([obj("gone", 1), obj("same", 2), obj("changed", 3)], Arrival.INITIAL)
    story.lines.clear()
    mirror.replace([obj("same", 2), obj("changed", 5), obj("new", 6)], Arrival.LATER)
    assert story.lines == ["delete gone@1 unknown", "update changed@3 changed@5", "add new@6 later"]


def test_a_recreated_object_is_told_as_two(mirror: Mirror[Object], story: Story) -> None:
    mirror.replace([obj("a", 1, uid="first")], Arrival.INITIAL)
    story.lines.clear()
    mirror.replace([obj("a", 7, uid="second")], Arrival.LATER)
    assert story.lines == ["delete a@1 unknown", "add a@7 later"]
    assert mirror.store["ns/a"].metadata.uid == "second"


def test_an_object_without_namespace_is_stored_by_its_name(mirror: Mirror[Object]) -> None:
    tell(mirror, WatchEventType.ADDED, obj("n", 1, namespace=""))
    assert list(mirror.store) == ["n"]


def test_a_late_handler_is_told_what_is_there(mirror: Mirror[Object]) -> None:
    mirror.replace([obj("a", 1)], Arrival.INITIAL)
    late = Story()
    mirror.add_handler(late)
    tell(mirror, WatchEventType.MODIFIED, obj("a", 2))
    assert late.lines == ["add a@1 initial", "update a@1 a@2"]


def test_the_store_is_ahead_of_the_handlers(mirror: Mirror[Object]) -> None:
    class Looks(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            self.lines.append(f"sees {version_of(mirror.store['ns/a'])}")

    looks = Looks()
    mirror.add_handler(looks)
    tell(mirror, WatchEventType.ADDED, obj("a", 1))
    assert looks.lines == ["sees a@1"]


def test_a_handler_that_raises_is_logged_by_object_and_stops_nobody(mirror: Mirror[Object]) -> None:
    class Fails(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            raise RuntimeError("boom")

    after = Story()
    mirror.add_handler(Fails())
    mirror.add_handler(after)
    with capture_logs() as logs:
        tell(mirror, WatchEventType.ADDED, obj("a", 1))
    assert after.lines == ["add a@1 later"]
    assert mirror.handler_errors == 1
    (entry,) = logs
    assert (entry["object"], entry["kind"], entry["log_level"]) == ("ns/a", "things", "error")
    assert "Fails.on_add" in entry["handler"]
