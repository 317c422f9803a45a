"""The objects: handlers see a gapless story, whatever lists and events it is fed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from koordsched.api.meta import Object, ObjectMeta
from koordsched.cluster.object_store import OBJECTS_A_TURN, Arrival, FinalState, ObjectStore, object_key
from koordsched.cluster.port import WatchEvent, WatchEventType


def obj(name: str, version: int, uid: str = "", namespace: str = "ns") -> Object:
    return Object(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or name, resource_version=str(version)))


def version_of(seen: Object) -> str:
    return f"{seen.metadata.name}@{seen.metadata.resource_version}"


class Story:
    """Writes down the calls of a handler."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_add(self, obj: Object, arrival: Arrival) -> None:
        self.lines.append(f"add {version_of(obj)} {arrival.value}")

    def on_update(self, old: Object, new: Object) -> None:
        self.lines.append(f"update {version_of(old)} {version_of(new)}")

    def on_delete(self, obj: Object, final_state: FinalState) -> None:
        self.lines.append(f"delete {version_of(obj)} {final_state.value}")


@pytest.fixture
def objects() -> ObjectStore[Object]:
    return ObjectStore("things")


@pytest.fixture
def story(objects: ObjectStore[Object]) -> Story:
    story = Story()
    objects.add_handler(story)
    return story


def send(objects: ObjectStore[Object], kind: WatchEventType, changed: Object) -> None:
    objects.apply(WatchEvent(kind, changed))


def replace(objects: ObjectStore[Object], listed: list[Object], arrival: Arrival) -> int:
    """Take over a list; return how many turns of the loop that leaves to others."""
    return len(list(objects.replace({object_key(each): each for each in listed}, arrival)))


def test_a_first_list_is_added_as_initial(objects: ObjectStore[Object], story: Story) -> None:
    replace(objects, [obj("a", 1), obj("b", 2)], Arrival.INITIAL)
    assert story.lines == ["add a@1 initial", "add b@2 initial"]
    assert sorted(objects.store) == ["ns/a", "ns/b"]


def test_events_are_passed_on(objects: ObjectStore[Object], story: Story) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    send(objects, WatchEventType.MODIFIED, obj("a", 2))
    send(objects, WatchEventType.DELETED, obj("a", 3))
    assert story.lines == ["add a@1 later", "update a@1 a@2", "delete a@3 known"]
    assert objects.store == {}


def test_what_is_known_already_is_not_reported_again(objects: ObjectStore[Object], story: Story) -> None:
    replace(objects, [obj("a", 1)], Arrival.INITIAL)
    send(objects, WatchEventType.ADDED, obj("a", 1))
    replace(objects, [obj("a", 1)], Arrival.LATER)
    send(objects, WatchEventType.DELETED, obj("b", 9))
    assert story.lines == ["add a@1 initial"]


def test_an_update_of_something_unknown_is_an_addition(objects: ObjectStore[Object], story: Story) -> None:
    send(objects, WatchEventType.MODIFIED, obj("a", 5))
    send(objects, WatchEventType.ADDED, obj("a", 6))
    assert story.lines == ["add a@5 later", "update a@5 a@6"]


def test_a_new_list_is_reported_as_differences(objects: ObjectStore[Object], story: Story) -> None:
    replace(objects, [obj("gone", 1), obj("same", 2), obj("changed", 3)], Arrival.INITIAL)
    story.lines.clear()
    replace(objects, [obj("same", 2), obj("changed", 5), obj("new", 6)], Arrival.LATER)
    assert story.lines == ["update changed@3 changed@5", "add new@6 later", "delete gone@1 unknown"]


def test_a_recreated_object_is_reported_as_two(objects: ObjectStore[Object], story: Story) -> None:
    replace(objects, [obj("a", 1, uid="first")], Arrival.INITIAL)
    story.lines.clear()
    replace(objects, [obj("a", 7, uid="second")], Arrival.LATER)
    assert story.lines == ["delete a@1 unknown", "add a@7 later"]
    assert objects.store["ns/a"].metadata.uid == "second"


def test_an_object_without_namespace_is_stored_by_its_name(objects: ObjectStore[Object]) -> None:
    send(objects, WatchEventType.ADDED, obj("n", 1, namespace=""))
    assert list(objects.store) == ["n"]


def test_a_late_handler_gets_what_is_there(objects: ObjectStore[Object]) -> None:
    replace(objects, [obj("a", 1)], Arrival.INITIAL)
    late = Story()
    objects.add_handler(late)
    send(objects, WatchEventType.MODIFIED, obj("a", 2))
    assert late.lines == ["add a@1 initial", "update a@1 a@2"]


def test_the_store_is_ahead_of_the_handlers(objects: ObjectStore[Object]) -> None:
    class Looks(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            self.lines.append(f"sees {version_of(objects.store['ns/a'])}")

    looks = Looks()
    objects.add_handler(looks)
    send(objects, WatchEventType.ADDED, obj("a", 1))
    assert looks.lines == ["sees a@1"]


def test_a_handler_that_raises_is_logged_by_object_and_stops_no_other(objects: ObjectStore[Object]) -> None:
    class Fails(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            raise RuntimeError("boom")

    after = Story()
    objects.add_handler(Fails())
    objects.add_handler(after)
    with capture_logs() as logs:
        send(objects, WatchEventType.ADDED, obj("a", 1))
    assert after.lines == ["add a@1 later"]
    assert objects.handler_errors == 1
    (entry,) = logs
    assert (entry["object"], entry["kind"], entry["log_level"]) == ("ns/a", "things", "error")
    assert "Fails" in entry["handler"]


class Moody(Story):
    """Fails on the calls that it is to fail on, after it has written them down."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False

    def on_add(self, obj: Object, arrival: Arrival) -> None:
        super().on_add(obj, arrival)
        self._fail()

    def on_update(self, old: Object, new: Object) -> None:
        super().on_update(old, new)
        self._fail()

    def on_delete(self, obj: Object, final_state: FinalState) -> None:
        super().on_delete(obj, final_state)
        self._fail()

    def _fail(self) -> None:
        if self.failing:
            raise RuntimeError("boom")


@pytest.fixture
def moody(objects: ObjectStore[Object]) -> Moody:
    moody = Moody()
    objects.add_handler(moody)
    return moody


def test_an_addition_that_failed_is_called_again_as_an_addition_of_what_there_is_now(objects: ObjectStore[Object], moody: Moody) -> None:
    moody.failing = True
    with capture_logs():
        send(objects, WatchEventType.ADDED, obj("a", 1))
        send(objects, WatchEventType.MODIFIED, obj("a", 2))
        objects.retry("ns/a")
    assert objects.missed == {"ns/a": 3}
    moody.failing = False
    objects.retry("ns/a")
    objects.retry("ns/a")
    send(objects, WatchEventType.MODIFIED, obj("a", 3))
    assert moody.lines == ["add a@1 later", "add a@2 later", "add a@2 later", "add a@2 later", "update a@2 a@3"]
    assert (objects.missed, objects.handler_errors) == ({}, 3)


def test_an_update_that_failed_is_called_again_from_where_the_handler_was(objects: ObjectStore[Object], moody: Moody) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    moody.failing = True
    with capture_logs():
        send(objects, WatchEventType.MODIFIED, obj("a", 2))
    moody.failing = False
    send(objects, WatchEventType.MODIFIED, obj("a", 3))
    assert moody.lines == ["add a@1 later", "update a@1 a@2", "update a@1 a@3"]
    assert objects.missed == {}


def test_a_deletion_that_failed_is_called_again_though_the_object_is_gone(objects: ObjectStore[Object], moody: Moody) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    moody.failing = True
    with capture_logs():
        send(objects, WatchEventType.DELETED, obj("a", 2))
    moody.failing = False
    objects.retry("ns/a")
    assert moody.lines == ["add a@1 later", "delete a@2 known", "delete a@1 unknown"]
    assert (objects.missed, objects.store) == ({}, {})


def test_what_was_added_by_half_is_reported_as_deleted_when_it_has_gone_or_another_has_its_name(
    objects: ObjectStore[Object], moody: Moody
) -> None:
    moody.failing = True
    with capture_logs():
        for name in ("a", "b"):
            send(objects, WatchEventType.ADDED, obj(name, 1))
    moody.failing = False
    send(objects, WatchEventType.DELETED, obj("a", 2))
    replace(objects, [obj("b", 7, uid="second")], Arrival.LATER)
    assert moody.lines[2:] == ["delete a@1 unknown", "delete b@1 unknown", "add b@7 later"]
    assert objects.missed == {}


def test_handlers_behind_one_that_caught_up_are_called_again_and_those_before_are_not(objects: ObjectStore[Object]) -> None:
    before, moody, behind = Story(), Moody(), Story()
    for handler in (before, moody, behind):
        objects.add_handler(handler)
    moody.failing = True
    with capture_logs():
        send(objects, WatchEventType.ADDED, obj("a", 1))
    moody.failing = False
    objects.retry("ns/a")
    assert before.lines == ["add a@1 later"]
    assert moody.lines == behind.lines == ["add a@1 later", "add a@1 later"]


def test_a_correction_is_reported_like_an_event_and_the_watch_does_not_take_it_back(objects: ObjectStore[Object], story: Story) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    send(objects, WatchEventType.ADDED, obj("gone", 2))
    assert objects.correct("ns/a", obj("a", 5))
    assert objects.correct("ns/gone", None)
    assert objects.correct("ns/new", obj("new", 6))
    assert not objects.correct("ns/a", obj("a", 4))
    assert not objects.correct("ns/never", None)
    send(objects, WatchEventType.MODIFIED, obj("a", 3))  # the watch is behind
    send(objects, WatchEventType.MODIFIED, obj("a", 5))
    send(objects, WatchEventType.MODIFIED, obj("a", 7))
    assert story.lines[2:] == ["update a@1 a@5", "delete gone@2 unknown", "add new@6 later", "update a@5 a@7"]


def test_an_object_of_the_same_version_with_another_content_can_be_corrected(objects: ObjectStore[Object], story: Story) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    damaged = objects.store["ns/a"]
    objects.store["ns/a"] = Object(metadata=ObjectMeta(name="a", namespace="ns", uid="a", resource_version="1", labels={"x": "y"}))
    assert objects.correct("ns/a", damaged)
    assert objects.store["ns/a"] is damaged
    assert story.lines == ["add a@1 later", "update a@1 a@1"]


def test_an_object_can_be_sent_anew(objects: ObjectStore[Object], story: Story) -> None:
    send(objects, WatchEventType.ADDED, obj("a", 1))
    objects.repeat("ns/a")
    objects.repeat("ns/never")
    assert story.lines == ["add a@1 later", "add a@1 later"]


def test_a_long_list_is_taken_over_in_slices_and_corrections_wait_for_its_end(objects: ObjectStore[Object], story: Story) -> None:
    replace(objects, [obj(f"old{i}", 1) for i in range(OBJECTS_A_TURN)], Arrival.INITIAL)
    listed = {f"ns/{name}": obj(name, 2) for name in (f"new{i}" for i in range(2 * OBJECTS_A_TURN))}
    reported = [len(story.lines)]
    for _ in objects.replace(listed, Arrival.LATER):
        reported.append(len(story.lines))
        assert not objects.correct("ns/old0", None)
    assert [after - before for before, after in pairwise(reported)] == [OBJECTS_A_TURN] * 3
    assert sorted(objects.store) == sorted(listed)
