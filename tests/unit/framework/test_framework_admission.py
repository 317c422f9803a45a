"""Admission: which refusal of PreFilter counts, what is asked for it, and that no column is touched (framework.md §2.1)."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs
from support.builders import node, pod
from support.fakes import FakeAdmission, FakeFilter, FakePreFilter, VersionedFilter, profile_config, registry_of
from support.plugins import PluginBench
from support.world import NodeSearch

from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PreFilterPlugin, PreFilterResult
from koordsched.framework.profile import Profile
from koordsched.framework.status import SKIP, Code, PluginError, Status, error, unresolvable, unschedulable
from koordsched.metrics import CounterChild
from koordsched.queue.hints import Rejectors

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Plugin

POD = pod("p").uid("u")
PENDING = Status(Code.PENDING, ("later",))


class Bench:
    """Three nodes and a profile of these plugins at preFilter."""

    def __init__(self, *pre_filter: Plugin, filters: Sequence[FakeFilter] = ()) -> None:
        self.handle = PluginBench(*(node(name).cpu("4") for name in ("n1", "n2", "n3")))
        config = profile_config(preFilter=list(pre_filter), filter=list(filters))
        self.profile = Profile(config, registry_of(*pre_filter, *filters), self.handle)
        self._search = NodeSearch(self.handle.cache, self.handle.nominator, self.handle.random)

    def signed(self) -> PodInfo:
        info = POD.info()
        info.shape = self.profile.shapes.key(info)
        return info

    def find(self, info: PodInfo | None = None) -> str | Diagnosis:
        return self._search.find(self.profile, info or self.signed())[1]

    def refusal(self, info: PodInfo | None = None) -> Diagnosis:
        found = self.find(info)
        assert isinstance(found, Diagnosis)
        return found


def expected(plugins: Sequence[FakeAdmission | FakePreFilter]) -> tuple[str, Code] | None:
    """Return the plugin that ends PreFilter, and how: what kube-scheduler does with plugins that are run one by one."""
    last = None
    before = [plugin for plugin in plugins if getattr(plugin, "before_pre_filter", False)]
    for plugin in [*before, *(plugin for plugin in plugins if plugin not in before)]:
        answer = plugin.answer
        if not isinstance(answer, Status) or answer.code is Code.SKIP:
            continue
        if plugin in before or answer.code is not Code.UNSCHEDULABLE:
            return plugin.name, answer.code
        last = (plugin.name, answer.code)
    return last


def found(bench: Bench) -> tuple[str, Code] | None:
    """Return the same of a cycle."""
    try:
        outcome = bench.find()
    except PluginError as failed:
        return failed.status.plugin, failed.status.code
    if isinstance(outcome, str):
        return None
    assert outcome.pre_filter is not None
    assert outcome.plugins == {outcome.pre_filter.plugin}
    assert outcome.admission_plugin == (outcome.pre_filter.plugin if outcome.pre_filter.plugin.startswith("A") else "")
    return outcome.pre_filter.plugin, outcome.pre_filter.code


ANSWERS = (None, unschedulable("u"), unresolvable("uu"), error("e"))
KINDS = ["A", "B", "P"]  # admission in order, admission before PreFilter, a PreFilter plugin of the shape


@pytest.mark.parametrize("kinds", list(product(KINDS, repeat=3)), ids="".join)
def test_the_refusal_that_counts_is_that_of_running_all_plugins_one_by_one(kinds: tuple[str, ...]) -> None:
    for answers in product(ANSWERS, repeat=3):
        plugins: list[FakeAdmission | FakePreFilter] = []
        for number, (kind, answer) in enumerate(zip(kinds, answers, strict=True)):
            if kind == "P":
                plugins.append(FakePreFilter(f"P{number}", answer))
            else:
                plugins.append(FakeAdmission(f"A{number}", answer, before_pre_filter=kind == "B"))
        bench = Bench(*plugins)
        assert found(bench) == expected(plugins), answers
        # The same for a shape that is kept, whatever its PreFilter has answered.
        for plugin, answer in zip(plugins, answers, strict=True):
            if isinstance(plugin, FakeAdmission):
                plugin.answer = None
                found(bench)
                plugin.answer = answer
        assert found(bench) == expected(plugins), answers


class Both(FakeAdmission, PreFilterPlugin):
    """Admission and PreFilter of one plugin."""

    prepared: Status | None = None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        return self.prepared


def test_of_one_plugin_admission_comes_before_its_pre_filter() -> None:
    plugin = Both("A", unschedulable("admission"))
    bench = Bench(plugin)
    assert bench.refusal().message == "0/3 nodes are available: admission."
    plugin.prepared = unschedulable("PreFilter")
    bench = Bench(plugin)
    assert bench.refusal().message == "0/3 nodes are available: PreFilter."
    plugin.answer = unresolvable("admission")
    assert Bench(plugin).refusal().message == "0/3 nodes are available: admission."


def test_plugins_that_name_no_common_node_refuse_before_a_later_admission_plugin_and_not_before_an_earlier_one() -> None:
    one, two = FakePreFilter("P1", PreFilterResult(frozenset({"n1"}))), FakePreFilter("P2", PreFilterResult(frozenset({"n2"})))
    admission = FakeAdmission("A", unresolvable("a"))
    assert Bench(one, two, admission).refusal().admission_plugin == ""
    assert Bench(one, admission, two).refusal().admission_plugin == "A"
    admission.answer = unschedulable("a")
    assert Bench(one, admission, two).refusal().admission_plugin == "", "PreFilter goes on after Unschedulable"


def test_a_plugin_that_skips_lets_the_pod_pass() -> None:
    assert Bench(FakeAdmission("A", SKIP)).find() in {"n1", "n2", "n3"}


def test_an_error_is_that_of_pre_filter_and_names_the_plugin() -> None:
    with pytest.raises(PluginError, match=r'^running PreFilter plugin "A": broken$') as failed:
        Bench(FakeAdmission("A", error("broken"))).find()
    assert failed.value.point == "PreFilter"
    with pytest.raises(PluginError, match=r"^broken$"):
        Bench(FakeAdmission("A", error("broken"), before_pre_filter=True)).find()


def test_without_nodes_admission_is_not_asked() -> None:
    admission = FakeAdmission("A", unschedulable("no"))
    bench = Bench(admission)
    for name in ("n1", "n2", "n3"):
        bench.handle.cache.remove_node(name)
    assert bench.refusal().message == "no nodes available to schedule pods"
    assert admission.asked == []


def test_a_refused_pod_waits_for_its_plugin_alone_and_says_nothing_about_its_shape() -> None:
    diagnosis = Bench(FakePreFilter("P", PreFilterResult(frozenset({"n1"}))), FakeAdmission("A", unschedulable("full"))).refusal()
    assert (diagnosis.plugins, diagnosis.of_shape) == (frozenset({"A"}), False)
    assert diagnosis.rejectors == Rejectors(frozenset({"A"}), frozenset())
    assert diagnosis.status_of(0) == unschedulable("full").with_plugin("A")
    pending = Bench(FakeAdmission("A", PENDING)).refusal()
    assert pending.rejectors == Rejectors(frozenset(), frozenset({"A"}))


def test_a_refusal_makes_no_shape_and_one_that_flips_asks_no_column_again() -> None:
    admission, filters = FakeAdmission("A", unschedulable("full")), FakeFilter("F")
    pre_filter = FakePreFilter("P")
    bench = Bench(pre_filter, admission, filters=[filters])
    bench.refusal()
    assert len(bench.profile.shapes) == 0
    assert filters.asked == []
    admission.answer = None
    info = bench.signed()
    assert bench.find(info) in {"n1", "n2", "n3"}
    asked = list(filters.asked), list(pre_filter.asked)
    assert asked[0] == ["n1", "n2", "n3"]
    for _ in range(10):
        admission.answer = unschedulable("full")
        bench.refusal(info)
        admission.answer = None
        bench.find(info)
    assert (filters.asked, pre_filter.asked) == asked


def test_a_kept_shape_whose_version_moved_is_asked_anew_and_stays_as_it_is() -> None:
    class VersionedPreFilter(VersionedFilter, FakePreFilter):
        """Its PreFilter is asked again when `now` moves."""

        def __init__(self) -> None:
            VersionedFilter.__init__(self, "V")
            self.answer: PreFilterResult | Status | None = None

        def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
            return self.answer

    versioned, admission = VersionedPreFilter(), FakeAdmission("A")
    bench = Bench(versioned, admission, filters=[versioned])
    info = bench.signed()
    bench.find(info)
    admission.answer = unschedulable("full")
    versioned.now, versioned.answer = 1, unresolvable("lost")
    asked = list(versioned.asked)
    assert bench.refusal(info).message == "0/3 nodes are available: lost."
    versioned.now, versioned.answer = 2, None
    assert bench.refusal(info).message == "0/3 nodes are available: full."
    assert versioned.asked == asked


def test_evictions_are_simulated_only_where_a_plugin_asks_for_it() -> None:
    bench = Bench(FakeAdmission("A", unschedulable("full")), filters=[FakeFilter("F", n1=unschedulable("small"))])
    info = bench.signed()
    diagnosis = bench.refusal(info)
    assert len(bench.profile.shapes) == 0
    simulation = diagnosis.simulation
    assert simulation is not None
    first, second = bench.handle.cache.node("n1"), bench.handle.cache.node("n2")
    assert first is not None
    assert second is not None
    refused = simulation.simulate_on_node(info, first)
    assert refused is not None
    assert refused.reasons == ("small",)
    assert simulation.simulate_on_node(info, second) is None


def test_a_profile_without_admission_plugins_has_no_admission() -> None:
    assert Bench(FakePreFilter("P")).profile.admission is None


class Measured:
    """Counts what is observed, by point and status, and the calls of plugins."""

    def __init__(self) -> None:
        self.points: Counter[tuple[str, str]] = Counter()
        self.calls: dict[tuple[str, str], CounterChild] = {}

    def extension_point(self, point: str, status: str, profile: str) -> Observation:
        return Observation(self.points, (point, status))

    def plugin_execution(self, plugin: str, point: str, status: str) -> Observation:
        return Observation(Counter(), (point, status))

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        return self.calls.setdefault((plugin, point), CounterChild())


class Observation:
    def __init__(self, counter: Counter[tuple[str, str]], key: tuple[str, str]) -> None:
        self._counter, self._key = counter, key

    def observe(self, value: float) -> None:
        assert value >= 0
        self._counter[self._key] += 1


def test_a_refusal_is_measured_as_one_of_pre_filter_and_filter_is_not_said_to_have_run() -> None:
    admission, metrics = FakeAdmission("A"), Measured()
    bench = Bench(admission, filters=[FakeFilter("F")])
    profile = Profile(profile_config(preFilter=[admission], filter=[]), registry_of(admission), bench.handle, metrics)
    search = NodeSearch(bench.handle.cache, bench.handle.nominator, bench.handle.random)
    for answer in (None, unschedulable("full"), SKIP, unresolvable("never")):
        admission.answer = answer
        search.find(profile, bench.signed())
        profile.timings.end_cycle(0.0, 1e12)
    refused = {("PreFilter", "Unschedulable"): 1, ("PreFilter", "UnschedulableAndUnresolvable"): 1}
    assert {key: count for key, count in metrics.points.items() if key in refused} == refused
    assert metrics.points["Filter", "Success"] == 2, "of the two pods that were admitted"
    assert metrics.calls["A", "PreFilter"].count == 3, "a call that the plugin skips does not count"


class ByTeam(FakeAdmission):
    """Treats all pods of a team alike; what it reads of a pod may be missing."""

    def sign_admission(self, pod: PodInfo) -> Hashable:
        return pod.pod.metadata.labels["team"]


def test_a_signature_is_what_the_plugin_says_of_the_pod_or_the_pod_itself_where_it_cannot_say() -> None:
    admission = Bench(ByTeam("A"), FakeAdmission("B")).profile.admission
    assert admission is not None
    team, none = pod("p").uid("u").label("team", "red").info(), pod("q").uid("v").info()
    assert [admission.signature(plugin, made) for plugin in "AB" for made in (team, none)] == ["red", ("uid", "v"), (), ()]


class Unreadable(FakeAdmission):
    """Cannot make sense of pods."""

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        raise ValueError("what is this?")

    def sign_admission(self, pod: PodInfo) -> Hashable:
        raise ValueError("what is this?")

    def admit(self, pod: PodInfo) -> Status | None:
        raise ValueError("what is this?")


def test_what_an_admission_plugin_cannot_answer_to_the_queue_is_logged_with_the_pod_and_the_plugin() -> None:
    admission = Bench(Unreadable("A")).profile.admission
    assert admission is not None
    info = pod("p").uid("u").info()
    with capture_logs() as logs:
        assert admission.key("A", info) is None
        assert admission.signature("A", info) == ("uid", "u")
        assert admission.still_refused("A", info) is None
    assert [(said["event"], said["pod"], said["plugin"], said["log_level"], bool(said["exc_info"])) for said in logs] == [
        ("could not find out under which key a pod waits", "default/p", "A", "error", True),
        ("could not find out what an admission plugin reads of a pod", "default/p", "A", "error", True),
        ("could not find out whether a waiting pod would be admitted", "default/p", "A", "error", True),
    ]


def test_the_queue_learns_with_a_refusal_how_evictions_for_the_pod_are_simulated() -> None:
    bench = Bench(FakeAdmission("A", unschedulable("full")), filters=[FakeFilter("F", n1=unschedulable("small"))])
    admission, info = bench.profile.admission, bench.signed()
    assert admission is not None
    diagnosis = admission.still_refused("A", info)
    assert diagnosis is not None
    assert diagnosis.simulation is not None
    refused = {name: diagnosis.simulation.simulate_on_node(info, there) for name, there in bench.handle.cache.nodes_by_name.items()}
    assert [name for name, status in refused.items() if status is not None] == ["n1"]
