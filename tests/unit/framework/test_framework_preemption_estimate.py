"""The estimate of preemption: which nodes it sorts where, the refusals it knows, what it keeps; the index of victims; single candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from structlog.testing import capture_logs
from support.affinity import Far, term, with_affinity
from support.builders import PodBuilder, node, pod
from support.fakes import FakeFilter, profile_config, registry_of
from support.world import EMPTY_CONFIG, World

from koordsched._core.change import NodeChange
from koordsched.api.groups import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from koordsched.api.kinds import POD_DISRUPTION_BUDGET
from koordsched.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.cache.nodes import Nodes
from koordsched.cluster.port import ADDED, DELETED, MODIFIED, WatchEvent, WatchEventType
from koordsched.config import REFERENCE, Environment, load_config_text
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis, Refusal
from koordsched.framework.interface import FilterNodesPlugin
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate, refusal_of
from koordsched.framework.preemption.estimate import BYTES_A_ROW, CandidateEstimate, Estimator, Preemptor, resolvable_nodes
from koordsched.framework.preemption.rules import NO_VICTIMS, NOT_HELPFUL, OVER_LIMIT, PreemptionRules, VictimRule
from koordsched.framework.preemption.victims_index import EMPTY_GROUP, DisruptionBudgets, VictimsIndex, VictimsIndexes
from koordsched.framework.profile import Profile
from koordsched.framework.row_refusals import RowRefusals
from koordsched.framework.status import Status, unresolvable, unschedulable
from koordsched.plugins import REGISTRY


class Teams(VictimRule):
    """Pods may evict pods of their own team, a label; pods without one are no victims. of: teams that differ from the labels."""

    key = "teams"
    grouped = True

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def group(self, victim: PodInfo) -> Hashable | None:
        return self.of.get(victim.key) or victim.pod.metadata.labels.get("team")

    def group_for(self, preemptor: PodInfo) -> Hashable | None:
        return self.group(preemptor)

    def version(self) -> Hashable:
        return tuple(self.of.items())


class Bench:
    """Nodes n1, n2 and so on of four cores; each pod is given with the number of its node."""

    def __init__(self, *running: tuple[int, PodBuilder], nodes: int = 3, rule: VictimRule | None = None) -> None:
        self.world = World()
        self.rules = PreemptionRules(plugin="Test", victims=rule or VictimRule())
        self.budgets = DisruptionBudgets(self.world.informer(POD_DISRUPTION_BUDGET))
        self.victims = VictimsIndex(self.world.cache, self.budgets, self.rules.victims)
        self.estimator = Estimator(self.victims, self.world.nominator, self.rules)
        self.finder = CandidateFinder(self.world.cache, self.world.nominator, self.victims, self.budgets, self.rules)
        for i in range(1, nodes + 1):
            self.world.cache.set_node(node(f"n{i}").cpu("4").build())
        for i, made in running:
            self.run(f"n{i}", made)

    def run(self, name: str, made: PodBuilder) -> None:
        self.world.cache.set_pod(made.on(name).info(counted_on_node=True), name)

    def preemptor(self, cpu: str = "2", priority: int = 9, team: str = "", port: int = 0) -> Preemptor:
        made = pod("high").cpu(cpu).priority(priority)
        made = made.host_port(port) if port else made
        return self.preemptor_of(made.label("team", team) if team else made)

    def preemptor_of(self, made: PodBuilder) -> Preemptor:
        info = self.world.signed(made.info())
        found = self.world.find(info)
        assert isinstance(found, Diagnosis)
        return Preemptor(info, found, self.world.simulation(info))

    def names(self, rows: Sequence[int]) -> list[str]:
        return sorted(self.world.cache.infos[row].name for row in rows)  # type: ignore[union-attr] # they are rows of nodes

    def estimate(self, preemptor: Preemptor, to_release: Mapping[str, int] | None = None) -> CandidateEstimate:
        return self.estimator.estimate(preemptor, to_release)

    def may_evict(self, preemptor: Preemptor) -> dict[str, list[str]]:
        """Return by node the pods that the index has for the preemptor, in order."""
        self.victims.bring_up_to_date()
        found = {}
        for name, info in self.world.cache.nodes_by_name.items():
            found[name] = [victim.pod.metadata.name for victim in self.victims.lower_on(preemptor.pod, info.row)]
        return {name: pods for name, pods in found.items() if pods}

    def protect(self, name: str) -> None:
        budget = PodDisruptionBudget(
            metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="1"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": name})),
        )
        self.world.informer(POD_DISRUPTION_BUDGET)._objects.apply(WatchEvent(ADDED, budget))


def full(name: str, priority: int = 0, cpu: str = "4") -> PodBuilder:
    return pod(name).cpu(cpu).priority(priority)


def test_nodes_are_sorted_by_what_evictions_could_do_there() -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("higher", 10, "3")), (3, full("small", 0, "1")))
    found = bench.estimate(bench.preemptor("2"))
    assert bench.names(found.by_amounts.tolist()) == ["n1"]
    assert len(found.to_simulate) == 0
    assert found.without_victims == 1, "n2"
    (refusal,) = found.refused
    assert refusal[0] == unschedulable("Insufficient cpu").with_plugin("NodeResourcesFit")
    assert bench.names(refusal[1].tolist()) == ["n3"], "without its small pod"
    assert found.possible


def test_without_any_pod_of_lower_priority_no_node_is_looked_at() -> None:
    bench = Bench((1, full("a", 9)), (2, full("b", 9)), (3, full("c", 10)))
    found = bench.estimate(bench.preemptor())
    assert (found.without_victims, found.refused, found.possible, found.dry_run) == (3, [], False, None)


def test_nodes_whose_victims_release_too_little_are_counted_under_the_refusal_of_the_rules() -> None:
    bench = Bench((1, full("all")), (2, full("half", 0, "2")), (2, full("kept", 9, "2")), (3, full("part", 0, "3")))
    found = bench.estimate(bench.preemptor("2"), {"cpu": 3500})
    assert bench.names(found.by_amounts.tolist()) == ["n1"]
    assert [(status, len(rows)) for status, rows in found.refused if len(rows)] == [(OVER_LIMIT, 2)]
    assert found.without_victims == 0


def test_what_has_to_be_released_but_is_in_no_column_leaves_every_node_with_victims_to_the_filters() -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    assert "example.com/never-seen" not in bench.world.columns.resources
    found = bench.estimate(bench.preemptor(), {"example.com/never-seen": 1})
    assert bench.names(found.to_simulate.tolist()) == ["n1", "n3"]
    assert len(found.by_amounts) == 0
    assert found.without_victims == 1


class Closed(FilterNodesPlugin):
    """Refuses nodes with a taint `closed`, whichever pods are there."""

    name = "Closed"
    reads = NodeChange.TAINTS
    reasons = (unschedulable("closed for a while"), unschedulable("closed to all"))

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> NDArray[np.int32]:
        found = [nodes.info(row).node for row in nodes.rows.tolist()]
        values = [{taint.value for taint in each.spec.taints if taint.key == "closed"} for each in found if each is not None]
        return np.array([1 if "a-while" in value else 2 if value else 0 for value in values], np.int32)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self.reasons[code - 1]


@pytest.mark.parametrize("first", [True, False], ids=["before amounts", "after amounts"])
def test_nodes_that_another_filter_refuses_whatever_pods_are_removed_are_counted_under_its_reasons(first: bool) -> None:
    bench = Bench(*((i, full(f"low-{i}", 0, "1")) for i in range(1, 7)), (7, full("mine", 9)), nodes=7)
    closed, fit = Closed(), REGISTRY["NodeResourcesFit"]
    order = ["Closed", "NodeResourcesFit"] if first else ["NodeResourcesFit", "Closed"]
    catalogue = REFERENCE.with_plugin("Closed", frozenset({"filter"}))
    config = load_config_text(
        EMPTY_CONFIG
        + f"profiles: [{{plugins: {{filter: {{disabled: [{{name: '*'}}], enabled: [{{name: {order[0]}}}, {{name: {order[1]}}}]}}, "
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}, "
        "preFilter: {enabled: [{name: NodeResourcesFit}]}}}]\n",
        Environment(catalogue=catalogue),
    )
    bench.world.profile = Profile(config.profiles[0], {**REGISTRY, "NodeResourcesFit": fit, "Closed": lambda *_: closed}, bench.world)
    for i, value in ((1, "a-while"), (2, "to-all"), (3, "to-all"), (4, "to-all")):
        bench.world.cache.set_node(node(f"n{i}").cpu("4").taint("closed", "NoSchedule", value).build())
    bench.run("n4", full("kept", 9, "3"))
    found = bench.estimate(bench.preemptor("3500m"))
    assert bench.names(found.by_amounts.tolist()) == ["n5", "n6"]
    assert len(found.to_simulate) == 0
    assert found.without_victims == 1, "n7"
    counts: Counter[str] = Counter()
    for status, rows in found.refused:
        counts[f"{status.plugin}: {status.message}"] += len(rows)
    said_of_n4 = "Closed: closed to all" if first else "NodeResourcesFit: Insufficient cpu"
    assert counts == Counter({"Closed: closed for a while": 1, "Closed: closed to all": 2}) + Counter([said_of_n4])


@pytest.mark.parametrize(("nominated", "simulated"), [("n1", ["n1"]), ("n2", [])])
def test_the_node_that_the_preemptor_is_nominated_for_is_left_to_the_filters(nominated: str, simulated: list[str]) -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    preemptor = bench.preemptor()
    bench.world.nominator.set(preemptor.pod, nominated)
    found = bench.estimate(preemptor)
    assert bench.names(found.to_simulate.tolist()) == simulated
    assert bench.names(found.by_amounts.tolist()) == (["n3"] if simulated else ["n1", "n3"])


@pytest.mark.parametrize(("priority", "simulated"), [(9, ["n1"]), (8, [])], ids=["counts", "does not count"])
def test_nodes_whose_nominated_pods_matter_to_other_filters_than_that_of_amounts_are_left_to_the_filters(
    priority: int, simulated: list[str]
) -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    bench.world.nominator.set(bench.world.signed(pod("rival").cpu("1").label("app", "x").priority(priority).info()), "n1")
    apart = with_affinity(pod("high").cpu("2").priority(9), far=Far([term("kubernetes.io/hostname", {"app": "x"})]))
    preemptor = bench.preemptor_of(apart)
    found = bench.estimate(preemptor)
    assert bench.names(found.to_simulate.tolist()) == ["n1"], "whatever the rival's priority: one that does not count costs a simulation"
    assert bench.names(found.by_amounts.tolist()) == ["n3"]
    refused = bench.finder.select_victims(preemptor, bench.world.cache.nodes_by_name["n1"].row)
    assert isinstance(refused, Status) == bool(simulated)


def test_one_dry_run_is_kept_for_each_priority_and_request_and_follows_changes() -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    first, other = bench.preemptor("2"), bench.preemptor("3")
    kept = bench.estimate(first).dry_run
    assert kept is not None
    assert bench.estimate(other).dry_run is not kept
    assert bench.estimate(first).dry_run is kept
    gone = bench.world.cache.nodes_by_name["n1"]
    bench.world.cache.remove_pod("uid-default-low")
    bench.run("n1", full("same", 9))
    again = bench.estimate(bench.preemptor("2"))
    assert again.dry_run is kept
    assert gone.row not in again.by_amounts
    assert again.without_victims == 2


def test_the_dry_run_used_longest_ago_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.framework.preemption.estimate.MAX_BYTES", 0)  # four are kept all the same
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    preemptors = [bench.preemptor("2", priority) for priority in (2, 3, 4, 5, 6)]
    kept = [bench.estimate(preemptor).dry_run for preemptor in preemptors[:4]]
    assert bench.estimate(preemptors[0]).dry_run is kept[0]
    bench.estimate(preemptors[4])
    assert bench.estimate(preemptors[0]).dry_run is kept[0]
    assert bench.estimate(preemptors[2]).dry_run is kept[2]
    assert bench.estimate(preemptors[1]).dry_run is not kept[1]


def test_as_many_dry_runs_are_kept_as_the_bytes_allow_that_their_rows_take(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    monkeypatch.setattr("koordsched.framework.preemption.estimate.MAX_BYTES", 5 * BYTES_A_ROW * bench.world.cache.table.capacity)
    preemptors = [bench.preemptor("2", priority) for priority in (2, 3, 4, 5, 6, 7)]
    kept = [bench.estimate(preemptor).dry_run for preemptor in preemptors[:5]]
    assert [bench.estimate(preemptor).dry_run for preemptor in preemptors[:5]] == kept
    bench.estimate(preemptors[5])
    assert [bench.estimate(preemptor).dry_run for preemptor in preemptors[1:5]] == kept[1:]
    assert bench.estimate(preemptors[0]).dry_run is not kept[0]


def test_nodes_that_refuse_for_another_reason_than_the_filters_are_left_to_the_filters_where_there_is_a_victim() -> None:
    bench = Bench((1, full("low", 0, "1")), (2, full("mine", 9, "1")), (3, full("other", 0, "1")))
    info = bench.world.signed(pod("high").cpu("2").priority(9).info())
    row = {name: there.row for name, there in bench.world.cache.nodes_by_name.items()}
    busy, broken = unschedulable("busy").with_plugin("Extender"), unresolvable("broken").with_plugin("Extender")
    diagnosis = Diagnosis(3, frozenset({"Extender"}), [Refusal(busy, 2), Refusal(broken, 1)], lambda _: None)
    diagnosis.exceptions = RowRefusals.of({row["n1"]: busy, row["n2"]: busy, row["n3"]: broken})
    found = bench.estimate(Preemptor(info, diagnosis, bench.world.simulation(info)))
    assert bench.names(found.to_simulate.tolist()) == ["n1"]
    assert (len(found.by_amounts), found.refused, found.without_victims) == (0, [], 1)


def test_without_a_filter_that_compares_amounts_every_node_that_may_change_its_mind_is_left_to_the_filters() -> None:
    taken = FakeFilter("Taken", n1=unschedulable("taken"), n2=unschedulable("taken"), n3=unresolvable("wrong"))
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    bench.world.profile = Profile(profile_config(filter=[taken]), registry_of(taken), bench.world)
    found = bench.estimate(bench.preemptor())
    assert found.dry_run is None
    assert bench.names(found.to_simulate.tolist()) == ["n1", "n2"]
    assert (len(found.by_amounts), found.refused, found.without_victims) == (0, [], 0)


@pytest.mark.parametrize(("refusal", "nodes"), [(unschedulable("later"), 3), (unresolvable("never"), 0)])
def test_where_pre_filter_refuses_every_node_is_as_resolvable_as_its_refusal(refusal: Status, nodes: int) -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    preemptor = bench.preemptor()._replace(diagnosis=Diagnosis.of_pre_filter(3, frozenset({"P"}), refusal))
    assert resolvable_nodes(preemptor.diagnosis) == nodes
    found = bench.estimate(preemptor)
    assert len(found.by_amounts) == 0
    assert bench.names(found.to_simulate.tolist()) == (["n1", "n3"] if nodes else [])
    assert found.without_victims == (1 if nodes else 0), "n2"


def test_where_pre_filter_refuses_only_nodes_that_the_pod_is_restricted_to_come_into_question() -> None:
    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)))
    info = bench.world.signed(pod("high").cpu("2").priority(9).requires_name("n1").info())
    quota = Diagnosis.of_pre_filter(3, frozenset({"P"}), unschedulable("no quota"))
    quota.simulate = lambda: bench.world.simulation(info)
    preemptor = Preemptor(info, quota, bench.world.simulation(info))
    found = bench.estimate(preemptor)
    assert bench.names(found.to_simulate.tolist()) == ["n1"]
    assert found.without_victims == 0
    assert resolvable_nodes(quota) == 1


# The index of victims


def test_pods_may_evict_those_of_their_own_group_alone() -> None:
    pods = [full(name, 0, "1").label("team", team) for name, team in (("r1", "red"), ("b1", "blue"), ("r2", "red"))]
    bench = Bench(*[(1, made) for made in pods], (1, full("none", 0, "1")), nodes=1, rule=(rule := Teams()))
    red, blue, green, teamless = (bench.preemptor("2", team=team) for team in ("red", "blue", "green", ""))
    assert [bench.may_evict(each) for each in (red, blue, green, teamless)] == [{"n1": ["r1", "r2"]}, {"n1": ["b1"]}, {}, {}]
    assert [bench.victims.group_for(each.pod) for each in (green, teamless)] == [EMPTY_GROUP, EMPTY_GROUP]
    there = bench.world.cache.pods["uid-default-r1"].info
    assert [bench.victims.may_evict(each.pod, there) for each in (red, blue, teamless)] == [True, False, False]
    rule.of["default/r1"] = "blue"
    assert [bench.may_evict(each) for each in (red, blue)] == [{"n1": ["r2"]}, {"n1": ["r1", "b1"]}]


def test_no_pod_may_be_evicted_for_one_of_its_own_priority() -> None:
    bench = Bench((1, full("same", 9)), nodes=1)
    preemptor = bench.preemptor()
    assert not bench.victims.may_evict(preemptor.pod, bench.world.cache.pods["uid-default-same"].info)
    assert bench.victims.may_evict(preemptor.pod, full("low", 8).info())
    assert (bench.victims.any_below(9), bench.victims.any_below(10)) == (False, True)


def test_priorities_that_change_are_counted_pod_by_pod() -> None:
    bench = Bench((1, full("a", 0, "1")), (1, full("b", 0, "1")), (2, full("mine", 9)), (3, full("other", 9)))
    preemptor = bench.preemptor("3")
    bench.victims.bring_up_to_date()
    for name in ("a", "b"):
        bench.run("n1", full(name, 5, "1"))
    assert [bench.victims.any_below(priority) for priority in (5, 6)] == [False, True]
    assert bench.may_evict(preemptor) == {"n1": ["a", "b"]}
    bench.world.cache.remove_pod("uid-default-a")
    assert [bench.victims.any_below(priority) for priority in (5, 6)] == [False, True]
    bench.world.cache.remove_pod("uid-default-b")
    assert not bench.victims.any_below(6)


def test_a_pod_that_should_be_gone_is_no_victim_until_it_is_seen_going_whatever_is_built_anew() -> None:
    bench = Bench((1, full("stuck")), (2, full("mine", 9)), nodes=2)
    preemptor = bench.preemptor()
    bench.victims.exclude("uid-default-unknown")
    assert bench.may_evict(preemptor) == {"n1": ["stuck"]}
    bench.victims.exclude("uid-default-stuck")
    assert bench.may_evict(preemptor) == {}
    built = bench.victims.rebuilt
    bench.protect("budget")
    assert bench.may_evict(preemptor) == {}
    assert bench.victims.rebuilt == built + 1
    assert bench.estimate(preemptor).without_victims == 2
    bench.run("n1", full("stuck").label("changed", ""))
    assert bench.may_evict(preemptor) == {}
    bench.world.cache.remove_pod("uid-default-stuck")
    bench.run("n1", full("stuck"))
    assert bench.may_evict(preemptor) == {"n1": ["stuck"]}, "it came again"


def test_pods_whose_node_was_unknown_are_victims_once_it_comes() -> None:
    bench = Bench((1, full("low")), nodes=1)
    preemptor = bench.preemptor()
    assert bench.may_evict(preemptor) == {"n1": ["low"]}
    bench.run("late", full("early", 1))
    assert bench.may_evict(preemptor) == {"n1": ["low"]}
    bench.world.cache.set_node(node("late").cpu("4").build())
    assert bench.may_evict(preemptor) == {"n1": ["low"], "late": ["early"]}
    bench.world.cache.remove_pod("uid-default-early")
    assert bench.may_evict(preemptor) == {"n1": ["low"]}


def test_the_index_is_dropped_when_too_many_changes_gather_and_built_anew_on_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.framework.preemption.victims_index.FEWEST_NOTED", 2)
    bench = Bench((1, full("low", 0, "1")), nodes=1)
    high = pod("high").priority(9).info()

    def lower() -> list[str]:
        row = bench.world.cache.nodes_by_name["n1"].row
        return [victim.pod.metadata.name for victim in bench.victims.lower_on(high, row)]

    assert bench.victims._noted == [], "before the first use changes are not noted"
    bench.victims.bring_up_to_date()
    built = bench.victims.rebuilt
    for name in ("a", "b"):
        bench.run("n1", full(name, 0, "1"))
    bench.victims.bring_up_to_date()
    assert (lower(), bench.victims.rebuilt) == (["low", "a", "b"], built)
    bench.world.cache.remove_pod("uid-default-a")
    for name in ("c", "d", "e"):
        bench.run("n1", full(name, 0, "100m"))
    bench.world.cache.remove_pod("uid-default-c")
    bench.victims.bring_up_to_date()
    assert (sorted(lower()), bench.victims.rebuilt) == (["b", "d", "e", "low"], built + 1)


def test_on_an_empty_cluster_the_index_is_empty_and_knows_the_budgets() -> None:
    bench = Bench(nodes=0)
    bench.protect("db")
    bench.victims.bring_up_to_date()
    assert bench.budgets.violations([]) == []
    assert VictimsIndex(Cache(), bench.budgets).bring_up_to_date() is not bench.victims.index


def test_a_budget_whose_selector_cannot_be_read_covers_no_pod_and_is_logged_and_the_others_count() -> None:
    bench = Bench((1, full("covered").label("app", "db")), nodes=1)
    broken = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Near", values=("db",)),))
    for name, selector in (("broken", broken), ("empty", LabelSelector()), ("db", LabelSelector(match_labels={"app": "db"}))):
        meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="1")
        budget = PodDisruptionBudget(metadata=meta, spec=PodDisruptionBudgetSpec(selector=selector))
        bench.world.informer(POD_DISRUPTION_BUDGET)._objects.apply(WatchEvent(ADDED, budget))
    covered, free = full("covered").label("app", "db").build(), full("free").label("app", "web").build()
    with capture_logs() as logs:
        assert bench.budgets.violations([covered, free]) == [True, False]
    (said,) = logs
    assert (said["event"], said["log_level"]) == ("a disruption budget covers no pod: its selector cannot be read", "warning")
    assert (said["budget"], said["path"]) == ("default/broken", "spec.selector")
    assert "Near" in said["err"]


def test_a_budget_counts_as_it_is_now_and_not_when_it_is_gone() -> None:
    bench = Bench((1, full("covered").label("app", "db")), nodes=1)
    covered = [full(f"covered-{i}").label("app", "db").build() for i in range(2)]
    store = bench.world.informer(POD_DISRUPTION_BUDGET)._objects
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "db"}))
    found = []
    changes: tuple[tuple[WatchEventType, int, dict[str, str]], ...] = (
        (ADDED, 0, {}),
        (MODIFIED, 1, {}),
        (MODIFIED, 0, {"covered-0": "2026-01-01T00:00:00Z"}),
        (MODIFIED, 0, {}),
        (DELETED, 0, {}),
    )
    for version, (kind, allowed, disrupted) in enumerate(changes, 1):
        meta = ObjectMeta(name="db", namespace="default", uid="uid-db", resource_version=str(version))
        status = PodDisruptionBudgetStatus(disruptions_allowed=allowed, disrupted_pods=disrupted)
        store.apply(WatchEvent(kind, PodDisruptionBudget(metadata=meta, spec=spec, status=status)))
        found.append(bench.budgets.violations(covered))
    assert found == [[True, True], [False, True], [False, True], [True, True], [False, False]]


def test_engines_whose_rules_have_one_key_share_an_index() -> None:
    bench = Bench()
    indexes = VictimsIndexes(bench.world.cache, bench.world.informer(POD_DISRUPTION_BUDGET))
    assert indexes.of(VictimRule()) is indexes.of(VictimRule())
    assert indexes.of(Teams()) is indexes.of(Teams()) is not indexes.of(VictimRule())


# Single candidates


def test_a_pod_whose_eviction_violates_a_budget_is_put_back_first() -> None:
    bench = Bench((1, full("covered", 0, "2").label("app", "db")), (1, full("free", 5, "2")), nodes=1)
    bench.protect("db")
    for cpu, victims, violations in (("2", ["free"], 0), ("4", ["free", "covered"], 1)):
        preemptor = bench.preemptor(cpu)
        bench.victims.bring_up_to_date()
        found = bench.finder.select_victims(preemptor, bench.world.cache.nodes_by_name["n1"].row)
        assert isinstance(found, PreemptionCandidate)
        assert ([victim.pod.metadata.name for victim in found.victims], found.violations) == (victims, violations)


def test_every_node_that_was_simulated_in_vain_is_counted_in_the_refusal() -> None:
    class Short(VictimRule):
        def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
            return {"example.com/never-seen": 1}

    bench = Bench((1, full("low")), (2, full("mine", 9)), (3, full("other", 1)), rule=Short())
    refused = bench.finder.best(bench.preemptor(), 10)
    assert isinstance(refused, Status)
    reasons = f"1 {NO_VICTIMS.message}, 2 {OVER_LIMIT.message}."
    assert refused.message == f"0/3 nodes are available: {', '.join(sorted(reasons[:-1].split(', ')))}."


def test_nodes_without_violations_are_simulated_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench((1, full("covered").label("app", "db").host_port(80)), (2, full("free", 5).host_port(80)), nodes=2)
    bench.protect("db")
    tried = []
    select_victims = bench.finder.select_victims

    def noted(preemptor: Preemptor, row: int) -> PreemptionCandidate | Status:
        tried.extend(bench.names([row]))
        return select_victims(preemptor, row)

    monkeypatch.setattr(bench.finder, "select_victims", noted)
    found = bench.finder.best(bench.preemptor(port=80), 1)
    assert isinstance(found, PreemptionCandidate)
    assert (bench.names([found.row]), tried) == (["n2"], ["n2"])


def test_a_candidate_whose_room_the_filters_do_not_see_is_not_confirmed_and_logged() -> None:
    bench = Bench((1, full("low", 0, "1")), (1, full("mine", 9, "3")), nodes=1)
    row = bench.world.cache.nodes_by_name["n1"].row
    candidate = PreemptionCandidate(row, [bench.world.cache.pods["uid-default-low"].info], 0)
    with capture_logs() as logs:
        assert not bench.finder.confirms(bench.preemptor("2"), candidate)
    (said,) = logs
    assert said == {
        "event": "preemption expected room that the filters do not see",
        "log_level": "error",
        "pod": "default/high",
        "node": "n1",
        "refusal": "Insufficient cpu",
    }
    with capture_logs() as logs:
        assert bench.finder.confirms(bench.preemptor("1"), candidate)
    assert logs == []


def test_nodes_of_which_nothing_else_is_said_are_those_that_evictions_cannot_help() -> None:
    rules = PreemptionRules(plugin="Test")
    refused = refusal_of(3, Counter({NO_VICTIMS: 2, OVER_LIMIT: 0}), rules)
    assert refused.message == f"0/3 nodes are available: 1 {NOT_HELPFUL.message}, 2 {NO_VICTIMS.message}."
    assert refusal_of(2, Counter({NO_VICTIMS: 2}), rules).message == f"0/2 nodes are available: 2 {NO_VICTIMS.message}."


def test_rules_may_list_nodes_that_evictions_cannot_help_only_where_there_are_no_others() -> None:
    rules = PreemptionRules(plugin="Test", lists_all_nodes=False)
    assert refusal_of(3, Counter({NO_VICTIMS: 2}), rules).message == f"0/3 nodes are available: 2 {NO_VICTIMS.message}."
    assert refusal_of(3, Counter({NO_VICTIMS: 0}), rules).message == f"0/3 nodes are available: 3 {NOT_HELPFUL.message}."


def test_pods_on_nodes_that_are_not_known_are_no_victims_however_they_change() -> None:
    bench = Bench((1, full("low")), nodes=1)
    preemptor = bench.preemptor()
    assert bench.may_evict(preemptor) == {"n1": ["low"]}
    lost = full("lost").on("unknown")
    for made in (lost, lost.label("a", "b")):
        bench.world.cache.set_pod(made.info(counted_on_node=True), "unknown")
    assert bench.may_evict(preemptor) == {"n1": ["low"]}
    bench.world.cache.remove_pod("uid-default-lost")
    assert bench.may_evict(preemptor) == {"n1": ["low"]}


def test_as_long_as_no_pod_has_failed_no_change_is_noted() -> None:
    bench = Bench((1, full("low")))
    bench.run("n1", full("low").label("a", "b"))
    bench.world.cache.remove_pod("uid-default-low")
    assert bench.victims._noted == []
