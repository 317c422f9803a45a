"""Admission beside shapes: after any sequence of changes and refusals a profile answers as one that was made this moment.

Answers of admission, in its two places, and of a PreFilter plugin with a version flip while nodes come and change and pods are placed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import node, pod
from support.fakes import FakeAdmission, FakePreFilter, VersionedFilter, profile_config, registry_of
from support.plugins import PluginBench
from support.searching import feasible_rows
from support.world import NodeSearch

from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PreFilterResult
from koordsched.framework.profile import Profile
from koordsched.framework.status import PluginError, Status, error, unresolvable, unschedulable

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState

Answer = Status | PreFilterResult | None

answers = st.sampled_from([None, None, unschedulable("u"), unresolvable("uu"), error("e")])
changes = st.one_of(
    st.tuples(st.just("admission"), st.sampled_from(["first", "early", "late"]), answers),
    st.tuples(st.just("prepared"), st.just(""), st.one_of(answers, st.just(PreFilterResult(frozenset({"n1", "n2"}))))),
    st.tuples(st.just("node"), st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 4)),
    st.tuples(st.just("place"), st.just(""), st.integers(1, 2)),
    st.tuples(st.just("ask"), st.sampled_from(["a", "b"]), st.integers(1, 2)),
)


class Prepared(VersionedFilter, FakePreFilter):
    """Its PreFilter answers `answer` and is asked again when `now` moves; its filter refuses nodes of less CPU than the pod asks for."""

    def __init__(self) -> None:
        VersionedFilter.__init__(self, "Prepared")
        self.answer: Answer = None

    def sign(self, pod: PodInfo) -> int:
        return pod.resources.requests.get("cpu", 0)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Answer:
        return self.answer

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        free = node.allocatable("cpu") - node.requested("cpu")
        return None if free >= pod.resources.requests.get("cpu", 0) else unschedulable("full")


class Cluster:
    def __init__(self) -> None:
        self.handle = PluginBench(*(node(name).cpu("2") for name in ("n1", "n2")))
        self.admission = {name: FakeAdmission(name, before_pre_filter=name == "first") for name in ("early", "late", "first")}
        self.prepared = Prepared()
        self.profile = self.make()
        self.serial = 0

    def make(self) -> Profile:
        plugins = [self.admission["early"], self.prepared, self.admission["late"], self.admission["first"]]
        return Profile(profile_config(preFilter=list(plugins), filter=[self.prepared]), registry_of(*plugins), self.handle)

    def pod(self, group: str, cpu: int) -> PodInfo:
        self.serial += 1
        return pod(f"p{self.serial}").uid(f"u{self.serial}").cpu(str(cpu)).label("group", group).info()

    def found(self, profile: Profile, info: PodInfo) -> tuple[str, ...]:
        """Return the nodes that pass, or what a cycle says of why there is none."""
        info.shape = profile.shapes.key(info)
        search = NodeSearch(self.handle.cache, self.handle.nominator, random.Random(1))
        try:
            outcome = search.find(profile, info)[1]
        except PluginError as failed:
            return ("error", failed.status.plugin, str(failed))
        if isinstance(outcome, Diagnosis):
            return ("refused", outcome.message, outcome.admission_plugin, *sorted(outcome.plugins))
        return tuple(sorted(self.handle.cache.nodes().info(row).name for row in feasible_rows(profile.shapes, info)))

    def change(self, step: tuple[str, str, object]) -> None:
        match step:
            case ("admission", name, None | Status() as answer):
                self.admission[name].answer = answer
            case ("prepared", _, None | Status() | PreFilterResult() as answer):
                self.prepared.answer = answer
                self.prepared.now = self.serial = self.serial + 1
            case ("node", name, int(cpu)):
                self.handle.cache.set_node(node(name).cpu(str(cpu)).build())
            case ("place", _, int(cpu)):
                info = self.pod("a", cpu)
                names = self.found(self.profile, info)
                if names[0] in {"n1", "n2", "n3"}:
                    self.handle.cache.assume_pod(info, names[0])


@settings(max_examples=150)
@given(st.lists(changes, min_size=1, max_size=25))
def test_a_profile_that_was_asked_before_answers_as_a_new_one(steps: list[tuple[str, str, object]]) -> None:
    cluster = Cluster()
    for step in steps:
        cluster.change(step)
        for group in ("a", "b"):
            for cpu in (1, 2):
                info = cluster.pod(group, cpu)
                assert cluster.found(cluster.profile, info) == cluster.found(cluster.make(), info)
    assert len(cluster.profile.shapes) <= 2, "groups share their columns"


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["first", "early", "late"]), answers), min_size=1, max_size=12))
def test_no_column_is_asked_again_however_admission_flips(flips: list[tuple[str, Status | None]]) -> None:
    cluster = Cluster()
    cluster.found(cluster.profile, cluster.pod("a", 1))
    asked = list(cluster.prepared.asked)
    assert sorted(asked) == ["n1", "n2"]
    for name, answer in flips:
        cluster.admission[name].answer = answer
        cluster.found(cluster.profile, cluster.pod("b", 1))
    assert cluster.prepared.asked == asked
