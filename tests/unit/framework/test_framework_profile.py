"""How a profile runs the points that a pod passes once: framework.md §2.1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.builders import node, pod
from support.fakes import FakeBind, FakePostFilter, Late, profile_config, registry_of
from support.plugins import PluginBench

from koordsched.api.kinds import NODE, RESERVATION
from koordsched.api.kinds import POD as KIND
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.meta import ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.config.types import PluginRef
from koordsched.framework.cycle_state import CycleState, MetadataChanges, annotate, annotate_object, annotations_of_binding
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.handle import Handle, SettingsError
from koordsched.framework.interface import Plugin, PostFilterResult, PreBindPatchPlugin, PreEnqueuePlugin
from koordsched.framework.profile import Profile
from koordsched.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable

POD = pod("p").info()
STATE = CycleState()
WAIT = Status(Code.WAIT)


def profile_of(**points: list[Plugin]) -> Profile:
    plugins = {plugin.name: plugin for at in points.values() for plugin in at}
    return Profile(profile_config(**points), registry_of(*plugins.values()), PluginBench())


def late(*names: str) -> tuple[list[Late], list[str]]:
    journal: list[str] = []
    return [Late(name, journal) for name in names], journal


# Making one


def test_plugins_that_are_not_there_are_named_and_left_out() -> None:
    config = profile_config(reserve=[Late("A")])
    config.points["reserve"] = (PluginRef("Unknown"), PluginRef("A"))
    made = Profile(config, registry_of(Late("A")), PluginBench())
    assert (made.missing, [plugin.name for plugin in made.reserve]) == (["Unknown"], ["A"])


def test_a_plugin_is_one_object_at_all_its_points_in_the_order_of_each_point() -> None:
    first, second = Late("A"), Late("B")
    made = profile_of(reserve=[first, second], permit=[second, first], preBind=[first])
    assert made.reserve == [first, second]
    assert made.permit == [second, first]
    assert made.pre_bind == [first]


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (lambda handle: handle.metrics.gauge("writes_total", "Writes."), "metric writes_total is registered already as Counter with the "),
        (lambda handle: handle.cache.change_kinds.register("USAGE"), "change kind 'USAGE': the node table logs this kind itself; "),
    ],
)
def test_a_plugin_that_registers_what_is_taken_is_named(register: Callable[[Any], object], text: str) -> None:
    bench = PluginBench()
    bench.metrics.counter("writes_total", "Writes.")

    def make(_args: object, handle: Handle) -> Plugin:
        register(handle)
        return Late("A")

    with pytest.raises(SettingsError, match=f"^plugin A cannot be made: {text}"):
        Profile(profile_config(reserve=[Late("A")]), {"A": make}, bench)


# PreEnqueue


class Refusing(PreEnqueuePlugin):
    def __init__(self, name: str, answer: Status | None) -> None:
        self.name, self.answer = name, answer

    def pre_enqueue(self, pod: object) -> Status | None:
        return self.answer


def test_the_first_refusal_in_order_answers_but_the_named_one_is_asked_before() -> None:
    made = profile_of(preEnqueue=[Refusing("A", None), Refusing("B", unschedulable("b")), Refusing("C", error("c"))])
    assert made.run_pre_enqueue(POD, "") == ("B", "b", False)
    assert made.run_pre_enqueue(POD, "C") == ("C", "c", True)
    assert made.run_pre_enqueue(POD, "A") == ("B", "b", False)
    assert profile_of(preEnqueue=[Refusing("A", None)]).run_pre_enqueue(POD, "") is None


def test_what_a_plugin_of_pre_enqueue_alone_reads_of_a_pod_is_part_of_its_signature() -> None:
    """Pods that wait together are moved together: what gates one has to gate them all."""

    class Reading(Refusing):
        signs = ("pod.spec.tolerations",)

    made = profile_of(preEnqueue=[Reading("A", None)])
    one, same, other = (pod(name).tolerates(key).info() for name, key in (("p", "a"), ("q", "a"), ("r", "b")))
    keys = [made.shapes.key(info) for info in (one, same, other)]
    assert keys[0] is keys[1]
    assert keys[0] is not keys[2]


# PostFilter

NOMINATE = PostFilterResult("n1")
DIAGNOSIS = Diagnosis.without_nodes()


def post_filter(*answers: tuple[PostFilterResult | None, Status | None]) -> tuple[PostFilterResult | None, Status | None, int]:
    """Return what PostFilter comes to, and how many plugins were asked."""
    plugins = [FakePostFilter(f"P{i}", answer) for i, answer in enumerate(answers)]
    result, status = asyncio.run(profile_of(postFilter=list(plugins)).run_post_filter(STATE, POD, DIAGNOSIS))
    return result, status, sum(len(plugin.asked) for plugin in plugins)


def test_without_post_filter_plugins_a_pod_stays_unschedulable() -> None:
    assert post_filter() == (None, Status(Code.UNSCHEDULABLE), 0)


def test_post_filter_success_stops_and_nominates() -> None:
    assert post_filter((None, unschedulable("a")), (NOMINATE, None), (None, unschedulable("c"))) == (NOMINATE, None, 2)


def test_post_filter_refusals_add_up_and_the_last_result_stays() -> None:
    clear = PostFilterResult("")
    result, status, asked = post_filter((clear, unschedulable("a")), (None, unschedulable("b", "c")))
    assert (result, asked) == (clear, 2)
    assert status == Status(Code.UNSCHEDULABLE, ("a", "b", "c"))


def test_post_filter_unresolvable_stops() -> None:
    _, status, asked = post_filter((None, unschedulable("a")), (None, unresolvable("b")), (None, unschedulable("c")))
    assert (status, asked) == (Status(Code.UNSCHEDULABLE, ("a", "b")), 2)


def test_post_filter_error_stops_and_replaces_everything() -> None:
    result, status, asked = post_filter((NOMINATE, unschedulable("a")), (None, error("boom")), (None, None))
    assert (result, status, asked) == (None, Status(Code.ERROR, ("boom",), "P1"), 2)


# Reserve


def test_reserve_runs_in_order_and_stops_at_the_first_failure() -> None:
    plugins, journal = late("A", "B", "C")
    plugins[1].reserve_answer = unschedulable("full")
    made = profile_of(reserve=[*plugins])
    assert made.run_reserve(STATE, POD, "n1") == Status(Code.UNSCHEDULABLE, ("full",), "B")
    assert journal == ["reserve A", "reserve B"]


def test_unreserve_runs_for_all_in_reverse_order() -> None:
    plugins, journal = late("A", "B", "C")
    profile_of(reserve=[*plugins]).run_unreserve(STATE, POD, "n1")
    assert journal == ["unreserve C", "unreserve B", "unreserve A"]


def test_an_error_says_which_plugin_was_running() -> None:
    plugins, _ = late("A")
    plugins[0].reserve_answer = error("boom")
    assert profile_of(reserve=[*plugins]).run_reserve(STATE, POD, "n1") == Status(Code.ERROR, ('running Reserve plugin "A": boom',), "A")


# Permit


def test_permit_collects_who_wants_to_wait_and_goes_on() -> None:
    plugins, journal = late("A", "B", "C")
    plugins[0].permit_answer, plugins[2].permit_answer = (WAIT, 10.0), (WAIT, 3600.0)
    status, waits = profile_of(permit=[*plugins]).run_permit(STATE, POD, "n1")
    assert (status, waits) == (None, {"A": 10.0, "C": 3600.0})
    assert journal == ["permit A", "permit B", "permit C"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (unschedulable("no"), Status(Code.UNSCHEDULABLE, ("no",), "B")),
        (error("boom"), Status(Code.ERROR, ('running Permit plugin "B": boom',), "B")),
    ],
    ids=["refused", "error"],
)
def test_a_refused_permit_stops_and_nothing_waits(answer: Status, expected: Status) -> None:
    plugins, journal = late("A", "B", "C")
    plugins[0].permit_answer, plugins[1].permit_answer = (WAIT, 10.0), (answer, 0.0)
    assert profile_of(permit=[*plugins]).run_permit(STATE, POD, "n1") == (expected, {})
    assert journal == ["permit A", "permit B"]


# PreBind, Bind, PostBind


def test_pre_flight_leaves_out_who_has_nothing_to_do() -> None:
    plugins, _ = late("A", "B")
    plugins[0].pre_flight_answer = SKIP
    assert profile_of(preBind=[*plugins]).pre_bind_work(STATE, POD, "n1") == ([plugins[1]], None)


def test_a_pre_flight_error_names_the_plugin_and_leaves_no_work() -> None:
    plugins, _ = late("A", "B")
    plugins[1].pre_flight_answer = error("boom")
    work, status = profile_of(preBind=[*plugins]).pre_bind_work(STATE, POD, "n1")
    assert (work, status) == ([], Status(Code.ERROR, ('running PreBindPreFlight "B": boom',), "B"))


async def test_pre_bind_stops_at_the_first_failure() -> None:
    plugins, journal = late("A", "B", "C")
    plugins[1].pre_bind_answer = error("boom")
    made = profile_of(preBind=[*plugins])
    status = await made.run_pre_bind([*plugins], STATE, POD, "n1")
    assert status == Status(Code.ERROR, ('running PreBind plugin "B": boom',), "B")
    assert journal == ["pre_bind A", "pre_bind B"]


class Noting(Late):
    """Notes annotations in PreBind."""

    def __init__(self, name: str, journal: list[str], **notes: str | None) -> None:
        super().__init__(name, journal)
        self.notes = notes

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        annotate(state, self.notes)
        return await super().pre_bind(state, pod, node_name)


class Writing(PreBindPatchPlugin):
    """Keeps what it is to write."""

    def __init__(self, name: str, journal: list[str], answer: Status | None = None) -> None:
        self.name, self.journal, self.answer = name, journal, answer
        self.written: list[MetadataChanges] = []

    async def patch(self, changes: MetadataChanges) -> Status | None:
        self.journal.append(f"patch {self.name}")
        self.written.append(changes)
        return self.answer


async def test_what_all_pre_binds_noted_is_written_once_after_all_of_them_wherever_the_writer_stands() -> None:
    journal: list[str] = []
    writers = [Writing("W", journal, SKIP), Writing("X", journal), Writing("Y", journal)]
    noting = [Noting("A", journal, a="1", b="2"), Noting("B", journal, b=None)]
    made = profile_of(preBind=[*writers, *noting])
    assert made.pre_bind_work(CycleState(), POD, "n1") == (noting, None)
    assert await made.run_pre_bind([*noting], CycleState(), POD, "n1") is None
    assert journal == ["pre_bind A", "pre_bind B", "patch W", "patch X"]
    assert writers[1].written == [MetadataChanges(KIND, POD.pod, {"a": "1", "b": None}, {})]


NODE1, NODE2 = node("n1").build(), node("n2").build()


class NotingObjects(Late):
    """Notes something of a Reservation, of nodes and of the pod, in this order."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        annotate_object(state, RESERVATION, RESERVED, {"owner": pod.key})
        annotate_object(state, NODE, NODE1, {"a": "1"}, {"l": self.name})
        annotate_object(state, NODE, NODE2, {"a": "2"})
        annotate(state, {"a": "pod"}, {"l": None})
        return await super().pre_bind(state, pod, node_name)


RESERVED = Reservation(metadata=ObjectMeta(name="n1", uid="r"))  # a name that a node has too


async def test_each_object_is_written_once_and_the_pod_first() -> None:
    journal: list[str] = []
    writer, plugins = Writing("W", journal), [NotingObjects("A", journal), NotingObjects("B", journal)]
    made = profile_of(preBind=[*plugins, writer])
    assert await made.run_pre_bind([*plugins], CycleState(), POD, "n1") is None
    assert writer.written == [
        MetadataChanges(KIND, POD.pod, {"a": "pod"}, {"l": None}),
        MetadataChanges(RESERVATION, RESERVED, {"owner": POD.key}, {}),
        MetadataChanges(NODE, NODE1, {"a": "1"}, {"l": "B"}),
        MetadataChanges(NODE, NODE2, {"a": "2"}, {}),
    ]
    assert journal == ["pre_bind A", "pre_bind B", *["patch W"] * 4]


async def test_after_a_patch_that_fails_nothing_else_is_written() -> None:
    writer, noting = Writing("W", [], error("gone")), NotingObjects("A", [])
    assert await profile_of(preBind=[noting, writer]).run_pre_bind([noting], CycleState(), POD, "n1") is not None
    assert [changes.seen for changes in writer.written] == [POD.pod]


async def test_what_only_others_than_the_pod_are_to_say_costs_the_pod_no_request() -> None:
    class Labelling(Late):
        async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
            annotate_object(state, NODE, NODE1, {}, {"l": "1"})
            return None

    writer, noting = Writing("W", []), Labelling("A", [])
    assert await profile_of(preBind=[noting, writer]).run_pre_bind([noting], CycleState(), POD, "n1") is None
    assert [changes.seen for changes in writer.written] == [NODE1]


class Leaving(Writing):
    leaves_to_binding = True


class Annotating(FakeBind):
    writes_annotations = True


async def left_to_binding(noting: list[Late], binders: list[Plugin], annotations: dict[str, str], *, by_plugin: bool = True) -> object:
    """Return what is left to the binding of a pod with these annotations, or what was written before it."""
    writer, state, found = Leaving("W", []), CycleState(), pod("p")
    for key, value in annotations.items():
        found = found.annotation(key, value)
    made = profile_of(preBind=[*noting, writer], bind=binders)
    assert await made.run_pre_bind([*noting], state, found.info(), "n1", by_plugin=by_plugin) is None
    return annotations_of_binding(state) or [changes.annotations for changes in writer.written]


async def test_annotations_of_the_pod_alone_are_left_to_a_binding_that_writes_them() -> None:
    noting: list[Late] = [Noting("A", [], a="1", b="2"), Noting("B", [], b="3")]
    assert await left_to_binding(noting, [Annotating("X")], {"a": "1", "b": "2"}) == {"b": "3"}
    assert await left_to_binding(noting, [Annotating("X")], {}) == {"a": "1", "b": "3"}
    assert await left_to_binding(noting, [Annotating("X")], {"a": "1", "b": "3"}) == []


async def test_what_a_binding_may_not_write_is_written_before_it() -> None:
    """A Bind plugin or an extender that writes none may be the one that binds; a binding removes nothing; the pod comes before others."""
    both = [{"a": "1"}]
    assert await left_to_binding([Noting("A", [], a="1")], [Annotating("X"), FakeBind("Y")], {}) == both
    assert await left_to_binding([Noting("A", [], a="1")], [], {}) == both
    assert await left_to_binding([Noting("A", [], a="1")], [Annotating("X")], {}, by_plugin=False) == both
    assert await left_to_binding([Noting("A", [], a="1", b=None)], [Annotating("X")], {"b": "2"}) == [{"a": "1", "b": None}]
    assert await left_to_binding([NotingObjects("A", [])], [Annotating("X")], {}) == [
        {"a": "pod"},
        {"owner": POD.key},
        {"a": "1"},
        {"a": "2"},
    ]


async def test_nothing_is_written_when_nothing_was_noted_or_a_pre_bind_failed() -> None:
    journal: list[str] = []
    writer, failing = Writing("W", journal), Noting("A", journal, a="1")
    failing.pre_bind_answer = error("boom")
    plugins, _ = late("B")
    made = profile_of(preBind=[failing, *plugins, writer])
    assert await made.run_pre_bind([*plugins], CycleState(), POD, "n1") is None
    assert await made.run_pre_bind([failing], CycleState(), POD, "n1") is not None
    assert writer.written == []


async def test_a_patch_that_fails_names_its_plugin() -> None:
    made = profile_of(preBind=[Noting("A", [], a="1"), Writing("W", [], error("gone"))])
    status = await made.run_pre_bind(made.pre_bind, CycleState(), POD, "n1")
    assert status == Status(Code.ERROR, ('running PreBind plugin "W": gone',), "W")


async def test_the_first_bind_plugin_that_does_not_skip_decides() -> None:
    plugins = [FakeBind("A", SKIP), FakeBind("B"), FakeBind("C", error("never"))]
    assert await profile_of(bind=[*plugins]).run_bind(STATE, POD, "n1") is None
    assert [plugin.asked for plugin in plugins] == [["default/p to n1"], ["default/p to n1"], []]
    failing = profile_of(bind=[FakeBind("A", SKIP), FakeBind("B", error("boom")), FakeBind("C")])
    assert await failing.run_bind(STATE, POD, "n1") == Status(Code.ERROR, ('running Bind plugin "B": boom',), "B")


async def test_a_pod_that_no_plugin_binds_is_an_error() -> None:
    status = await profile_of(bind=[FakeBind("A", SKIP)]).run_bind(STATE, POD, "n1")
    assert status is not None
    assert status.code is Code.ERROR


def test_post_bind_runs_for_all_plugins() -> None:
    plugins, journal = late("A", "B")
    profile_of(postBind=[*plugins]).run_post_bind(STATE, POD, "n1")
    assert journal == ["post_bind A", "post_bind B"]


# CycleState


def test_a_cycle_state_is_cloned_without_its_later_changes() -> None:
    state = CycleState()
    state.write("a", 1)
    copy = state.clone()
    copy.write("b", 2)
    copy.delete("a")
    copy.delete("never there")
    assert [state.read("a"), state.read("b"), copy.read("a"), copy.read("b")] == [1, None, None, 2]
