"""ElasticQuota on objects as watches report them: admission, association, accounting, bad input."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from support.builders import node, pod
from support.quotas import START, QuotaBench, of_quota, quota

from koordsched.api.core import Pod
from koordsched.api.kinds import ELASTIC_QUOTA, NODE
from koordsched.api.koordinator.quota_definitions import QuotaDefinition
from koordsched.api.koordinator.quotas import ElasticQuota
from koordsched.clock import rfc3339
from koordsched.config.koordinator_args import HookPluginConf
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.handle import SettingsError
from koordsched.framework.status import SKIP
from koordsched.metrics.collectors import BucketCounts
from koordsched.plugins.elasticquota import hooks as hooks_module
from koordsched.plugins.elasticquota.association import PodAssociation
from koordsched.plugins.elasticquota.gauges import spec_values, status_values
from koordsched.plugins.elasticquota.hooks import QuotaHook, QuotaUpdate
from koordsched.plugins.elasticquota.manager import Quota
from koordsched.plugins.elasticquota.objects_controller import QuotaStatusWriter
from koordsched.plugins.elasticquota.revoke import OverUseRevoke

PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"


@pytest.fixture
def bench() -> QuotaBench:
    bench = QuotaBench()
    bench.set(node("n").cpu("100").memory("1000Gi"))
    return bench


def reserve(bench: QuotaBench, builder: object) -> None:
    bench.plugin.reserve(CycleState(), builder.info(), "n")  # type: ignore[attr-defined]


def unreserve(bench: QuotaBench, builder: object) -> None:
    bench.plugin.unreserve(CycleState(), builder.info(), "n")  # type: ignore[attr-defined]


# Admission


def test_a_full_quota_says_what_it_may_use_and_uses(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "2", "memory": "4Gi"})
    bench.pod(of_quota(pod("runs"), "a").cpu("1500m").memory("1Gi").on("n"))
    waits = of_quota(pod("waits"), "a").cpu("1").memory("4Gi").request("example.com/gpu", "1")
    bench.pod(waits)
    assert bench.refusal(waits) == (
        "Insufficient quotas, quotaName: a, runtime: cpu:2,memory:4Gi, used: cpu:1500m,memory:1Gi, pod's request: cpu:1,memory:4Gi, "
        "exceedDimensions: [cpu memory]"
    )


def test_a_pod_that_asks_for_nothing_limited_is_never_refused_and_uses_nothing(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "0"})
    waits = of_quota(pod("p"), "a").memory("1Gi")
    bench.pod(waits)
    assert bench.refusal(waits) == ""
    bench.pod(waits.on("n"))
    assert bench.amount("used", "a", "memory") == ""


def test_non_preemptible_pods_are_limited_by_min(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "10"}, least={"cpu": "3"})
    bench.pod(of_quota(pod("runs"), "a").cpu("2").label(PREEMPTIBLE, "false").on("n"))
    waits = of_quota(pod("waits"), "a").cpu("2")
    bench.pod(waits.label(PREEMPTIBLE, "false"))
    assert bench.refusal(waits.label(PREEMPTIBLE, "false")) == (
        "Insufficient non-preemptible quotas, quotaName: a, min: cpu:3, nonPreemptibleUsed: cpu:2, pod's request: cpu:2, "
        "exceedDimensions: [cpu]"
    )
    bench.pod(waits)
    assert bench.refusal(waits) == ""


@pytest.mark.parametrize("checks", [True, False])
def test_ancestors_are_checked_if_asked_for(checks: bool) -> None:
    bench = QuotaBench(enable_check_parent_quota=checks, enable_runtime_quota=False)
    bench.quota("p", most={"cpu": "6"}, is_parent="true")
    for name in ("c1", "c2"):
        bench.quota(name, most={"cpu": "5"}, parent="p")
    bench.pod(of_quota(pod("runs"), "c1").cpu("5").on("n"))
    waits = of_quota(pod("waits"), "c2").cpu("2")
    bench.pod(waits)
    text = (
        "Insufficient quotas, quotaNameTopo: [p c2], runtime: cpu:6, used: cpu:5, pod's request: cpu:2, exceedDimensions: [cpu]"
        if checks
        else ""
    )
    assert bench.refusal(waits) == text


def test_a_missing_ancestor_is_an_error_where_ancestors_are_checked() -> None:
    bench = QuotaBench(enable_check_parent_quota=True, enable_runtime_quota=False)
    bench.quota("c", most={"cpu": "5"}, parent="gone")
    waits = of_quota(pod("waits"), "c").cpu("2")
    bench.pod(waits)
    assert bench.refusal(waits) == "Could not find the elasticQuota gone, quotaNameTopo: [gone c]"


def test_a_pod_that_goes_moves_pods_of_its_quota_and_of_no_other(bench: QuotaBench) -> None:
    for name in ("a", "b"):
        bench.quota(name, most={"cpu": "1"})
        bench.pod(of_quota(pod(f"runs-{name}"), name).cpu("1").on("n"))
        bench.pod(of_quota(pod(f"waits-{name}"), name).cpu("1"))
        assert bench.refusal(of_quota(pod(f"waits-{name}"), name).cpu("1"))
    bench.remove_pod("runs-a")
    assert bench.announced == ["a"]
    bench.pod(of_quota(pod("also-waits"), "b").cpu("1"))
    bench.remove_pod("also-waits")
    assert bench.announced == ["a"]
    bench.quota("b", most={"cpu": "2"})
    assert bench.announced == ["a", "b"]


def test_a_change_of_a_quota_that_makes_no_room_moves_none_of_its_pods(bench: QuotaBench) -> None:
    most, least = {"cpu": "2"}, {"cpu": "1"}
    bench.quota("a", most=most, least=least)
    bench.pod(of_quota(pod("runs"), "a").cpu("2").on("n"))
    waits = of_quota(pod("waits"), "a").cpu("1")
    bench.pod(waits)
    assert bench.refusal(waits)
    bench.quota("a", most=most, least=least, annotations={"namespaces": '["x"]', "shared-weight": '{"cpu":"7"}'}, is_parent="true")
    bench.quota("a", most={"cpu": "1"}, least={"cpu": "1"})
    assert bench.announced == []
    bench.quota("a", most={"cpu": "3"}, least={"cpu": "1"})
    assert bench.announced == ["a"]


def test_more_nodes_move_the_pods_that_lacked_runtime(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "200"})
    waits = of_quota(pod("p"), "a").cpu("150")
    bench.pod(waits)
    assert "runtime: cpu:100" in bench.refusal(waits)
    bench.set(node("m").cpu("100"))
    assert bench.announced == ["a"]
    assert bench.refusal(waits) == ""
    bench.remove("m")
    assert "runtime: cpu:100" in bench.refusal(waits)


# Reserve


def test_a_reserved_pod_uses_its_quota_until_it_is_given_back_or_bound(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "4"})
    waits = of_quota(pod("p"), "a").cpu("3")
    bench.pod(waits)
    reserve(bench, waits)
    assert bench.amount("used", "a") == "3"
    unreserve(bench, waits)
    assert bench.amount("used", "a") == ""
    reserve(bench, waits)
    bench.pod(waits.on("n"))
    unreserve(bench, waits)  # the bind was taken for failed, but the pod is bound
    assert bench.amount("used", "a") == "3"
    bench.remove_pod("p")
    assert bench.amount("used", "a") == bench.amount("request", "a") == ""


def test_what_an_undone_turn_gives_back_is_room_for_none(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "3"})
    members = [of_quota(pod(f"m{i}"), "a").cpu("2") for i in range(2)]
    for member in members:
        bench.pod(member)
    bench.cache.table.begin_turn()
    reserve(bench, members[0])
    assert bench.refusal(members[1])
    unreserve(bench, members[0])
    bench.cache.table.keep_turn()
    bench.pod(pod("other").cpu("1"))
    assert bench.announced == []


# Association


def test_the_first_rule_that_matches_names_the_quota(bench: QuotaBench) -> None:
    def quota_of(builder: object) -> str | None:
        return bench.plugin.admission_key(builder.info())  # type: ignore[attr-defined, return-value]

    default = "koordinator-default-quota"
    plain = pod("p", "x")
    bench.pod(plain)
    assert quota_of(plain) == default
    bench.quota("b", annotations={"namespaces": '["x"]'})
    bench.quota("a", annotations={"namespaces": '["x"]'})
    assert quota_of(plain) == "a"  # of several the first by name
    bench.quota("x", namespace="other")
    assert quota_of(plain) == "a"
    bench.quota("x", namespace="x", created="2025-01-01T00:00:00Z")
    assert quota_of(plain) == "x"
    assert quota_of(of_quota(pod("q", "x"), "gone")) == default
    bench.remove_quota("x", "x")
    bench.remove_quota("a")
    assert quota_of(plain) == "b"


def test_pods_move_when_their_quota_comes_or_goes(bench: QuotaBench) -> None:
    bench.pod(of_quota(pod("bound"), "q").cpu("2").on("n"))
    assert bench.amount("used", "koordinator-default-quota") == "2"
    bench.quota("q", most={"cpu": "5"})
    assert (bench.amount("used", "q"), bench.amount("used", "koordinator-default-quota")) == ("2", "")
    bench.remove_quota("q")
    assert bench.amount("used", "koordinator-default-quota") == "2"


def test_a_changed_mapping_of_namespaces_concerns_its_own_pods_only(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "9"}, annotations={"namespaces": '["x"]'})
    bench.pod(pod("p", "x").cpu("1").on("n"))
    bench.pod(pod("p", "y").cpu("2").on("n"))
    bench.pod(pod("p", "z").cpu("4").on("n"))
    changed: list[str] = []

    def collect(concerns: object) -> None:
        changed.extend(key for key in ("x", "y", "z") if concerns(pod("p", key).info()))  # type: ignore[operator]

    bench.cache.signatures.call(collect)
    bench.quota("a", most={"cpu": "9"}, annotations={"namespaces": '["y"]'})
    assert changed == ["x", "y"]
    assert (bench.amount("used", "a"), bench.amount("used", "koordinator-default-quota")) == ("2", "5")


@pytest.mark.parametrize("by_runtime", [True, False])
def test_max_limits_the_default_and_the_system_quota_where_runtimes_are_turned_off(by_runtime: bool) -> None:
    most = {"cpu": "1"}
    bench = QuotaBench(enable_runtime_quota=by_runtime, default_quota_group_max=most, system_quota_group_max=most)
    bench.set(node("n").cpu("9"))
    for name in ("default", "system"):
        waits = of_quota(pod(name), f"koordinator-{name}-quota").cpu("2")
        bench.pod(waits)
        text = f"Insufficient quotas, quotaName: koordinator-{name}-quota, runtime: cpu:1, used: <empty>, pod's request: cpu:2"
        assert bench.refusal(waits) == ("" if by_runtime else f"{text}, exceedDimensions: [cpu]")


def test_without_a_default_quota_only_labels_count() -> None:
    bench = QuotaBench(gates=("DisableDefaultQuota",))
    bench.quota("x", most={"cpu": "0"}, namespace="x")
    plain = pod("p", "x").cpu("1")
    bench.pod(plain)
    assert bench.plugin.admit(plain.info()) is SKIP
    assert "Insufficient quotas" in bench.refusal(of_quota(pod("q", "x"), "x").cpu("1"))


# Accounting


def test_a_quota_that_moves_takes_its_requests_along(bench: QuotaBench) -> None:
    for name in ("p1", "p2"):
        bench.quota(name, most={"cpu": "50"}, is_parent="true")
    bench.quota("a", most={"cpu": "9"}, parent="p1")
    bench.pod(of_quota(pod("p"), "a").cpu("4").on("n"))
    assert (bench.amount("used", "p1"), bench.amount("request", "p1")) == ("4", "4")
    bench.quota("a", most={"cpu": "9"}, parent="p2")
    assert [bench.amount(column, "p1") for column in ("used", "request")] == ["", ""]
    assert [bench.amount(column, "p2") for column in ("used", "request", "runtime")] == ["4", "4", "4"]
    assert bench.state.counting.pods["uid-default-p"].entry.assigned


def test_only_pods_of_a_namespace_that_changed_hands_are_keyed_again(bench: QuotaBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.quota("a", most={"cpu": "100"}, annotations={"namespaces": '["x"]'})
    bench.quota("b", most={"cpu": "100"})
    for namespace, pods in (("x", 3), ("other", 20)):
        for i in range(pods):
            bench.pod(pod(f"p{i}", namespace=namespace).cpu("1").on("n"))
    bench.pod(of_quota(pod("labelled", namespace="x"), "b").cpu("1").on("n"))
    asked: list[str] = []
    quota_of = PodAssociation.quota_of

    def counting(association: PodAssociation, asked_about: Pod) -> Quota | None:
        asked.append(f"{asked_about.metadata.namespace}/{asked_about.metadata.name}")
        return quota_of(association, asked_about)

    monkeypatch.setattr(PodAssociation, "quota_of", counting)
    bench.quota("b", most={"cpu": "100"}, annotations={"namespaces": '["x"]'})
    assert (bench.amount("used", "a"), bench.amount("used", "b")) == ("3", "1"), "of two the first by name has the namespace"
    bench.quota("a", most={"cpu": "100"})
    assert (bench.amount("used", "a"), bench.amount("used", "b")) == ("", "4")
    assert sorted(asked) == sorted(2 * ["x/p0", "x/p1", "x/p2"])


def test_pods_that_moved_wait_under_their_new_quota(bench: QuotaBench) -> None:
    changed = bench.state.counting.moves
    bench.quota("a", most={"cpu": "1"})
    bench.pod(of_quota(pod("p"), "late").cpu("1"))
    assert bench.state.counting.moves == changed
    bench.quota("late", most={"cpu": "9"})
    assert bench.state.counting.moves == changed + 1
    assert bench.plugin.admission_key(of_quota(pod("p"), "late").info()) == "late"


def test_a_resource_that_max_names_later_counts_the_pods_there_are(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "9"})
    bench.pod(of_quota(pod("p"), "a").cpu("1").memory("3Gi").on("n"))
    bench.quota("a", most={"cpu": "9", "memory": "9Gi"})
    assert bench.amount("used", "a", "memory") == "3Gi"
    bench.quota("a", most={"memory": "9Gi"})
    assert (bench.amount("used", "a", "memory"), bench.amount("used", "a")) == ("3Gi", "")


def test_sums_are_exact(bench: QuotaBench) -> None:
    bench.quota("a", most={"memory": "9Gi"})
    for i in range(2):
        bench.pod(of_quota(pod(f"p{i}"), "a").memory("1500m").on("n"))
    assert bench.amount("used", "a", "memory") == "3"


def test_a_terminating_pod_counts_as_the_gates_say() -> None:
    gone = rfc3339(START - 5)
    for gates, used in (((), "1"), (("ElasticQuotaImmediateIgnoreTerminatingPod",), ""), (("ElasticQuotaIgnoreTerminatingPod",), "1")):
        bench = QuotaBench(gates=gates)
        bench.quota("a", most={"cpu": "9"})
        builder = of_quota(pod("p"), "a").cpu("1").on("n")
        bench.pod(builder)
        made = builder.deleted_at(gone).build()
        made = replace(made, metadata=replace(made.metadata, deletion_grace_period_seconds=10, resource_version="7"))
        bench.state.counting.set_pod(made)
        assert bench.amount("used", "a") == used
        bench.hand.time = START + 5.5  # more than twice the grace of 10 s after the delete call
        bench.state.counting.set_pod(replace(made, metadata=replace(made.metadata, resource_version="8")))
        assert bench.amount("used", "a") == ("1" if not gates else "")


def test_a_pod_whose_time_has_passed_goes_with_its_quota() -> None:
    bench = QuotaBench(gates=("ElasticQuotaIgnoreTerminatingPod",))
    bench.quota("p", most={"cpu": "9"}, is_parent="true")
    bench.quota("a", most={"cpu": "9"}, parent="p")
    bench.pod(of_quota(pod("p"), "a").cpu("1").on("n").deleted_at(rfc3339(START + 5)))
    assert bench.amount("used", "a") == "1"
    bench.hand.time = START + 6
    bench.remove_quota("a")  # no event of the pod has come since
    assert (bench.amount("used", "p"), bench.amount("used", "koordinator-default-quota")) == ("", "")
    bench.quota("b", most={"cpu": "9"}, parent="p")
    bench.remove_pod("p")
    assert bench.amount("used", "b") == bench.amount("request", "p") == ""


def test_pods_without_a_quota_count_in_the_one_that_comes() -> None:
    bench = QuotaBench(gates=("DisableDefaultQuota",))
    bench.pod(of_quota(pod("waits"), "a").cpu("1"))
    bench.pod(of_quota(pod("runs"), "a").cpu("2").on("n"))
    bench.pod(of_quota(pod("gone"), "a").cpu("4"))
    bench.pod(of_quota(pod("other"), "a").cpu("8"))
    bench.remove_pod("gone")
    bench.pod(of_quota(pod("other"), "b").cpu("8"))
    bench.quota("a", most={"cpu": "9"})
    assert (bench.amount("request", "a"), bench.amount("used", "a")) == ("3", "2")
    bench.remove_quota("a")
    bench.pod(of_quota(pod("runs"), "b").cpu("2").on("n"))
    bench.quota("b", most={"cpu": "9"})
    bench.quota("a", most={"cpu": "9"})
    assert [bench.amount(column, name) for name in "ab" for column in ("request", "used")] == ["1", "", "10", "2"]


def test_a_pod_of_another_label_is_found_under_it(bench: QuotaBench) -> None:
    """Whether its quota is known or not, and though both labels mean the default quota."""
    runs = pod("p").cpu("2").on("n")
    bench.pod(of_quota(runs, "late"))
    bench.pod(of_quota(runs, "later"))
    bench.quota("late", most={"cpu": "9"})
    assert (bench.amount("used", "late"), bench.amount("used", "koordinator-default-quota")) == ("", "2")
    bench.quota("later", most={"cpu": "9"})
    assert bench.amount("used", "later") == "2"
    bench.pod(runs)
    bench.quota("own", most={"cpu": "9"}, annotations={"namespaces": '["default"]'})
    assert (bench.amount("used", "later"), bench.amount("used", "own")) == ("", "2")


def test_overhead_counts_unless_a_gate_leaves_it_out() -> None:
    for gates, request in (((), "3"), (("ElasticQuotaIgnorePodOverhead",), "2")):
        bench = QuotaBench(gates=gates)
        bench.quota("a", most={"cpu": "9"})
        bench.pod(of_quota(pod("p"), "a").cpu("2").overhead({"cpu": "1"}))
        assert bench.amount("request", "a") == request


# Trees


def test_a_tree_takes_what_its_root_says_off_the_default_tree() -> None:
    bench = QuotaBench(gates=("MultiQuotaTree",))
    bench.set(node("n").cpu("50"))
    bench.quota("a", most={"cpu": "100"})
    bench.pod(of_quota(pod("p"), "a").cpu("100"))
    root = {"tree_id": "t", "is_root": "true", "is_parent": "true"}
    total = {"total-resource": '{"cpu":"20"}'}
    bench.quota("r", most={"cpu": "100"}, annotations=total, **root)
    assert bench.amount("runtime", "a") == "30"
    bench.quota("r", most={"cpu": "100"}, annotations=total, ignore_default_tree="true", **root)
    assert bench.amount("runtime", "a") == "50"
    bench.quota("r", most={"cpu": "100"}, annotations=total, **root)
    bench.quota("c", most={"cpu": "100"}, parent="r", tree_id="t")
    waits = of_quota(pod("q"), "c").cpu("25")
    bench.pod(waits)
    assert bench.amount("runtime", "c") == "20"
    bench.remove_quota("r")
    assert bench.amount("runtime", "a") == "50"
    assert bench.refusal(waits) == "Could not find the specified ElasticQuotaManager for quota: c, tree: t"


def test_without_the_gate_tree_ids_mean_nothing(bench: QuotaBench) -> None:
    bench.quota("r", most={"cpu": "100"}, tree_id="t", is_root="true", annotations={"total-resource": '{"cpu":"20"}'})
    bench.pod(of_quota(pod("p"), "r").cpu("100"))
    assert bench.amount("runtime", "r") == "100"


# Bad input


def test_what_is_wrong_with_a_quota_is_reported_once_and_concerns_no_other(bench: QuotaBench) -> None:
    bench.quota("good", most={"cpu": "5"})
    for _ in range(2):
        bench.quota("bad", most={"cpu": "lots", "memory": "-1"}, least={"cpu": "1"}, annotations={"shared-weight": "{", "namespaces": "x"})
    bench.pod(of_quota(pod("p"), "good").cpu("5"))
    assert bench.refusal(of_quota(pod("p"), "good").cpu("5")) == ""
    problems = bench.state.problems.of(bench.state.quotas["bad"])
    assert [problem.split(":")[0] for problem in problems] == [
        "spec.max[cpu]",
        "spec.max[memory]",
        "spec.min[cpu]",
        "quota.scheduling.koordinator.sh/shared-weight",
        "quota.scheduling.koordinator.sh/namespaces",
    ]
    assert "Insufficient quotas" in bench.refusal(of_quota(pod("q"), "bad").cpu("1"))
    assert [said.partition(": ")[0] for said in bench.said] == ["malformed ElasticQuota", "InvalidElasticQuota bad"], "once"
    assert bench.said[1].removeprefix("InvalidElasticQuota bad: ") == "; ".join(problems)
    bench.quota("bad", most={"cpu": "5"})
    assert bench.state.problems.of(bench.state.quotas["bad"]) == ()
    assert len(bench.said) == 2, "what is right again is no event"


def test_quotas_that_are_their_own_ancestors_get_what_they_ask_for_up_to_their_min(bench: QuotaBench) -> None:
    for name, parent in (("a", "b"), ("b", "a"), ("below", "a"), ("self", "self")):
        bench.quota(name, most={"cpu": "9"}, least={"cpu": "2"}, parent=parent)
        bench.pod(of_quota(pod(f"p-{name}"), name).cpu("5"))
    assert [bench.amount("runtime", name) for name in ("a", "b", "self")] == ["2", "2", "2"]
    assert bench.amount("runtime", "below") == "2"  # all that a has
    assert "its own ancestor" in bench.state.problems.of(bench.state.quotas["a"])[0]
    bench.quota("b", most={"cpu": "9"}, least={"cpu": "2"})
    assert bench.state.problems.of(bench.state.quotas["a"]) == ()
    assert bench.amount("runtime", "b") == "9"


def test_a_parent_in_another_tree_is_reported() -> None:
    bench = QuotaBench(gates=("MultiQuotaTree",))
    bench.quota("p", most={"cpu": "9"}, is_parent="true", tree_id="one")
    bench.quota("c", most={"cpu": "9"}, least={"cpu": "2"}, parent="p", tree_id="two")
    bench.pod(of_quota(pod("x"), "c").cpu("5"))
    assert bench.amount("runtime", "c") == "2"
    assert bench.said[-1] == "InvalidElasticQuota c: parent p: is in the tree 'one', so the quota gets what it asks for up to its min"


def test_of_two_roots_of_a_tree_the_first_by_name_counts_in_whatever_order_they_come() -> None:
    for names in (("r1", "r2"), ("r2", "r1")):
        bench = QuotaBench(gates=("MultiQuotaTree",))
        bench.set(node("n").cpu("50"))
        bench.quota("a", most={"cpu": "100"})
        bench.pod(of_quota(pod("p"), "a").cpu("100"))
        for name in names:
            total = {"total-resource": '{"cpu":"20"}' if name == "r1" else '{"cpu":"7"}'}
            bench.quota(name, most={"cpu": "100"}, annotations=total, tree_id="t", is_root="true", is_parent="true")
        bench.quota("c", most={"cpu": "100"}, parent="r1", tree_id="t")
        bench.pod(of_quota(pod("q"), "c").cpu("60"))
        assert (bench.amount("runtime", "a"), bench.amount("runtime", "c")) == ("30", "20")
        problem = "annotation total-resource: what the tree 't' has is said by its root r1"
        assert bench.state.problems.of(bench.state.quotas["r2"]) == (problem,)
        assert f"InvalidElasticQuota r2: {problem}" in bench.said
        assert bench.state.problems.of(bench.state.quotas["r1"]) == ()
        bench.remove_quota("r1")
        assert bench.state.problems.of(bench.state.quotas["r2"]) == ()
        assert bench.amount("runtime", "a") == "43"
        bench.remove_quota("r2")
        assert bench.amount("runtime", "a") == "50"
        assert bench.refusal(of_quota(pod("q"), "c").cpu("60")).startswith("Could not find the specified ElasticQuotaManager")


def test_children_whose_min_is_more_than_their_parents_are_reported(bench: QuotaBench) -> None:
    bench.quota("p", most={"cpu": "9"}, least={"cpu": "3"}, is_parent="true")
    for name in ("a", "b"):
        bench.quota(name, most={"cpu": "9"}, least={"cpu": "2"}, parent="p")
    bench.state.quotas["p"].runtimes()
    assert bench.state.problems.of(bench.state.quotas["p"]) == ("spec.min[cpu]: the children's min is more together",)


def test_of_two_quotas_of_a_name_the_older_one_counts(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "5"}, namespace="y", created="2026-02-01T00:00:00Z")
    bench.quota("a", most={"cpu": "3"}, namespace="x", created="2026-01-01T00:00:00Z")
    assert bench.amount("max", "a") == "3"
    bench.remove_quota("a", "x")
    assert bench.amount("max", "a") == "5"


def test_a_built_in_quota_stays_without_its_object(bench: QuotaBench) -> None:
    bench.quota("koordinator-default-quota", most={"cpu": "7"}, namespace="koordinator-system")
    assert bench.amount("max", "koordinator-default-quota") == "7"
    bench.remove_quota("koordinator-default-quota", "koordinator-system")
    assert bench.amount("max", "koordinator-default-quota") == str((2**63 - 1) // 5)
    bench.quota("koordinator-root-quota", most={"cpu": "7"}, namespace="koordinator-system")
    assert bench.amount("max", "koordinator-root-quota") == ""


# What is written


def test_what_is_used_of_the_root_is_written_too(bench: QuotaBench) -> None:
    """As in the reference, which keeps neither a child request nor a guarantee of it."""
    writer = QuotaStatusWriter(bench, bench.state)
    made = quota("koordinator-root-quota", namespace="koordinator-system", is_parent="true")
    bench.came(ELASTIC_QUOTA, made)
    bench.quota("a", most={"cpu": "5"})
    kernel = bench.state.default.up_to_date()
    kernel.take_changed()
    bench.pod(of_quota(pod("p"), "a").cpu("1500m").on("n"))
    root = bench.state.default.root
    assert root.row in kernel.take_changed()
    patch = writer.patch(root, made)
    assert patch == {
        "metadata": {"annotations": {"quota.scheduling.koordinator.sh/request": '{"cpu":"1500m"}'}},
        "status": {"used": {"cpu": "1500m"}},
    }


def test_the_status_is_written_when_it_differs_and_zeros_make_no_difference(bench: QuotaBench) -> None:
    writer = QuotaStatusWriter(bench, bench.state)
    made = quota("a", most={"cpu": "5"}, least={"cpu": "1"})
    bench.came(ELASTIC_QUOTA, made)
    known = bench.state.quotas["a"]
    assert writer.patch(known, made) is None
    bench.pod(of_quota(pod("p"), "a").cpu("1500m").label(PREEMPTIBLE, "false").on("n"))
    prefix = "quota.scheduling.koordinator.sh/"
    patch = writer.patch(known, made)
    assert patch == {
        "metadata": {
            "annotations": {
                prefix + "request": '{"cpu":"1500m"}',
                prefix + "child-request": '{"cpu":"1500m"}',
                prefix + "non-preemptible-request": '{"cpu":"1500m"}',
                prefix + "non-preemptible-used": '{"cpu":"1500m"}',
                prefix + "runtime": '{"cpu":"1500m"}',
            }
        },
        "status": {"used": {"cpu": "1500m"}},
    }
    written = {key.removeprefix(prefix): text for key, text in patch["metadata"]["annotations"].items()}
    after = quota("a", most={"cpu": "5"}, least={"cpu": "1"}, annotations={**written, "runtime": "garbage"})
    after = replace(after, status=replace(after.status, used={"cpu": 1.5}))
    assert writer.patch(known, after) == {"metadata": {"annotations": {prefix + "runtime": '{"cpu":"1500m"}'}}}
    bench.remove_pod("p")
    again = writer.patch(known, after)
    assert again is not None
    assert again["status"] == {"used": {"cpu": "0"}}
    assert again["metadata"]["annotations"][prefix + "request"] == '{"cpu":"0"}'


# Gauges


def test_gauges_show_every_field_and_none_of_a_deleted_quota() -> None:
    bench = QuotaBench(gates=("MultiQuotaTree",))
    bench.set(node("n").cpu("50"))
    total = {"total-resource": '{"cpu":"20"}', "unschedulable-resource": '{"cpu":"4500m","memory":"1Gi"}'}
    bench.quota("r", most={"cpu": "30"}, least={"cpu": "2"}, annotations=total, tree_id="t", is_root="true", is_parent="true")
    bench.quota("q", most={"cpu": "9"}, least={"cpu": "1"}, parent="r", tree_id="t", annotations={"shared-weight": '{"cpu":"3"}'})
    bench.pod(of_quota(pod("p"), "q").cpu("1500m").label(PREEMPTIBLE, "false").on("n"))
    shown = status_values(bench.state)
    assert {labels[5]: value for labels, value in shown.items() if labels[:5] == ("q", "cpu", "t", "false", "r")} == {
        **dict.fromkeys(("request", "child-request", "non-preemptible-request", "non-preemptible-used", "used", "runtime"), 1500.0),
        "min": 1000.0,
        "max": 9000.0,
        "sharedWeight": 3000.0,
    }
    root = ("t", "true", "koordinator-root-quota", "unschedulable-resource")
    assert (shown["r", "cpu", *root], shown["r", "memory", *root]) == (4500.0, 2.0**30)
    assert spec_values(bench.state) == {labels: value for labels, value in shown.items() if labels[5] in {"min", "max"}}
    bench.remove_quota("q")
    assert {labels[0] for labels in (*status_values(bench.state), *spec_values(bench.state))} == {"r"}


def test_latencies_are_observed_by_operation(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "9"})
    for number in range(101):  # one in a hundred is timed, the first to begin with
        bench.pod(of_quota(pod(f"p{number}"), "a").cpu("1"))
    bench.remove_quota("a")
    latency = bench.metrics._own["scheduler_elastic_quota_process_latency"]
    samples = [sample for family in latency.collect() for sample in family.samples]
    counts = {labels[0]: sum(value.counts) for labels, value in samples if isinstance(value, BucketCounts)}
    assert {operation: count for operation, count in counts.items() if count} == {"UpdateQuota": 1, "OnPodAdd": 2, "DeleteQuota": 1}


# Hooks


class Refusing(QuotaHook):
    def check_pod(self, quota: str, pod: object) -> str:
        return f"{quota} is closed" if self.key == "closed" else ""


def test_a_hook_refuses_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks_module, "installed_factories", lambda: {"refusing": Refusing})
    bench = QuotaBench(hook_plugins=(HookPluginConf(key="closed", factory_key="refusing"),))
    bench.quota("a", most={"cpu": "9"})
    assert "Insufficient" in bench.refusal(of_quota(pod("p"), "a").cpu("1"))  # before the hook: there is no node
    bench.set(node("n").cpu("9"))
    bench.pod(of_quota(pod("p"), "a").cpu("1"))
    assert bench.refusal(of_quota(pod("p"), "a").cpu("1")) == "CheckPod failed for hook plugin closed, err: a is closed"


class Noting(QuotaHook):
    """Notes what it is called for; its own annotation says what it saw last."""

    def __init__(self, quotas: Mapping[str, Quota], key: str, args: str) -> None:
        super().__init__(quotas, key, args)
        self.noted: list[str] = []

    def is_quota_updated(self, old: Quota, new: QuotaDefinition, obj: ElasticQuota) -> bool:
        return obj.metadata.annotations.get("size") != (old.obj.metadata.annotations.get("size") if old.obj else None)

    def pre_quota_update(self, update: QuotaUpdate) -> None:
        update.shared["known"] = update.obj.metadata.name in self.quotas
        self.noted.append(f"pre {_step(update)} {update.obj.metadata.name}")

    def post_quota_update(self, update: QuotaUpdate) -> None:
        is_known = update.obj.metadata.name in self.quotas
        self.noted.append(f"post {_step(update)}: known {update.shared['known']} -> {is_known}")

    def on_pod_updated(self, quota: str, old: Pod | None, new: Pod | None) -> None:
        self.noted.append(f"pod of {quota}: {'-' if old is None else old.metadata.name} -> {'-' if new is None else new.metadata.name}")

    def update_quota_status(self, obj: ElasticQuota, annotations: Mapping[str, str]) -> Mapping[str, str] | None:
        return {"last": self.noted[-1]}


def _step(update: QuotaUpdate) -> str:
    return "add" if update.old is None else "remove" if update.new is None else "change"


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> tuple[QuotaBench, Noting]:
    """Return a bench with that hook, once it has been asked for what it noted of the start."""
    made: list[Noting] = []

    def make(quotas: Mapping[str, Quota], key: str, args: str) -> Noting:
        made.append(Noting(quotas, key, args))
        return made[-1]

    monkeypatch.setattr(hooks_module, "installed_factories", lambda: {"noting": make})
    bench = QuotaBench(hook_plugins=(HookPluginConf(key="k", factory_key="noting", factory_args="x"),))
    bench.set(node("n").cpu("9"))
    return bench, made[0]


def test_hooks_are_called_around_changes_of_quotas_and_nothing_else(noting: tuple[QuotaBench, Noting]) -> None:
    bench, hook = noting
    bench.quota("a", most={"cpu": "9"})
    bench.quota("a", most={"cpu": "9"}, annotations={"runtime": "{}"})
    assert hook.noted == ["pre add a", "post add: known False -> True"], "what the scheduler writes is no change"
    hook.noted.clear()
    bench.quota("a", most={"cpu": "8"})
    made = quota("a", most={"cpu": "8"})
    bench.came(ELASTIC_QUOTA, replace(made, metadata=replace(made.metadata, annotations={"size": "L"})))
    bench.remove_quota("a")
    assert hook.noted == [
        "pre change a",
        "post change: known True -> True",
        "pre change a",  # the hook wants it, though the definition is the same
        "post change: known True -> True",
        "pre remove a",
        "post remove: known True -> False",
    ]


def test_hooks_are_called_for_assigned_pods(noting: tuple[QuotaBench, Noting]) -> None:
    bench, hook = noting
    bench.quota("a", most={"cpu": "9"})
    hook.noted.clear()
    waits = of_quota(pod("p"), "a").cpu("1")
    bench.pod(waits)
    assert hook.noted == [], "it is not assigned"
    reserve(bench, waits)
    unreserve(bench, waits)
    bench.pod(waits.on("n"))
    bench.pod(waits.on("n").annotation("of no", "concern"))
    bench.remove_pod("p")
    latency = bench.metrics._own["scheduler_elastic_quota_hook_plugin_latency"]
    observed = {labels for family in latency.collect() for labels, _ in family.samples}
    assert observed == {("k", operation) for operation in ("pre_quota_update", "post_quota_update", "on_pod_update")}
    assert [noted.removeprefix("pod of a: ") for noted in hook.noted] == ["- -> p", "p -> -", "- -> p", "p -> p", "p -> -"]


def test_hooks_write_annotations_beside_the_numbers(noting: tuple[QuotaBench, Noting]) -> None:
    bench, hook = noting
    writer = QuotaStatusWriter(bench, bench.state)
    made = quota("a", most={"cpu": "9"})
    bench.came(ELASTIC_QUOTA, made)
    patch = writer.patch(bench.state.quotas["a"], made)
    assert patch == {"metadata": {"annotations": {"last": "post add: known False -> True"}}}
    made = replace(made, metadata=replace(made.metadata, annotations=patch["metadata"]["annotations"]))
    assert writer.patch(bench.state.quotas["a"], made) is None
    hook.noted.append("later")
    assert writer.patch(bench.state.quotas["a"], made) == {"metadata": {"annotations": {"last": "later"}}}


def test_hooks_that_cannot_be_made_end_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks_module, "installed_factories", dict)
    wrong = (HookPluginConf(), HookPluginConf(key="k"), HookPluginConf(key="l", factory_key="f"))
    with pytest.raises(SettingsError) as refused:
        QuotaBench(hook_plugins=wrong)
    assert str(refused.value) == (
        "plugin ElasticQuota: failed to initialize index-0 hook plugin: key is empty; failed to initialize hook plugin k: factory key is "
        "empty; failed to initialize hook plugin l: factory f not found"
    )


def test_nodes_that_are_being_deleted_stay_what_they_were(bench: QuotaBench) -> None:
    going = node("n").cpu("7").build()
    bench.came(NODE, replace(going, metadata=replace(going.metadata, resource_version="900", deletion_timestamp=rfc3339(START))))
    assert bench.state.default.total["cpu"] == 100 * 10**9


# The standing check


def test_a_node_that_was_being_deleted_when_it_came_is_no_difference(bench: QuotaBench) -> None:
    going = node("going").cpu("7").build()
    bench.came(NODE, replace(going, metadata=replace(going.metadata, resource_version="900", deletion_timestamp=rfc3339(START))))
    assert "going" not in bench.state.nodes.known
    assert list(bench.cache.checked[0].differences("going")) == []


def test_the_check_finds_and_mends_what_differs(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "9"})
    made = bench.pod(of_quota(pod("p"), "a").cpu("2").on("n"))
    bench.cache.set_pod(of_quota(pod("p"), "a").cpu("2").on("n").info(), "n")
    check = bench.cache.checked[0]
    assert set(check.names()) == {"n"}
    assert list(check.differences("n")) == []
    bench.state.counting.remove_pod(made.metadata.uid)
    bench.state.nodes.known["n"] = {"cpu": 5}
    assert [each.column for each in check.differences("n")] == ["offered", "quota of default/p"]
    check.rebuild("n")
    assert list(check.differences("n")) == []
    assert bench.amount("used", "a") == "2"
    bench.state.default.kernel.unassign(bench.state.counting.pods[made.metadata.uid].entry)
    assert [each.column for each in check.differences("n")] == ["pod default/p is assigned"]
    check.rebuild("n")
    assert bench.amount("used", "a") == "2"


# Preemption and revoke


def test_what_victims_have_to_release_is_what_the_quota_lacks_without_those_that_leave(bench: QuotaBench) -> None:
    bench.quota("a", most={"cpu": "6", "memory": "100Gi"})
    for i in range(3):
        bench.pod(of_quota(pod(f"p{i}"), "a").cpu("2").memory("1Gi").priority(i).on("n"))
    waits = of_quota(pod("w"), "a").cpu("3").memory("1Gi").priority(9)
    bench.pod(waits)
    rule = bench.plugin._victims
    assert rule.to_release((waits.info(),)) == {"cpu": 3000}
    assert rule.may_evict_some(waits.info())
    assert not rule.may_evict_some(of_quota(pod("low"), "a").cpu("1").priority(0).info())
    assert set(rule.members(waits.info())) >= {"uid-default-p0"}
    bench.pod(of_quota(pod("p0"), "a").cpu("2").memory("1Gi").on("n").deleted_at(rfc3339(START)))
    assert rule.to_release((waits.info(),)) == {"cpu": 1000}
    assert rule.group(of_quota(pod("p0"), "a").deleted_at(rfc3339(START)).info()) is None


def test_ancestors_that_are_checked_have_to_have_room_too() -> None:
    bench = QuotaBench(enable_check_parent_quota=True, enable_runtime_quota=False)
    bench.quota("p", most={"cpu": "6", "memory": "1"}, is_parent="true")
    bench.quota("a", most={"cpu": "6"}, parent="p")
    bench.quota("b", most={"cpu": "6"}, parent="p")
    bench.pod(of_quota(pod("x"), "b").cpu("3").on("n"))
    bench.pod(of_quota(pod("y"), "a").cpu("2").on("n"))
    waits = of_quota(pod("w"), "a").cpu("2").priority(9)
    bench.pod(waits)
    assert bench.plugin._victims.to_release((waits.info(),)) == {"cpu": 1000}


def revoked(bench: QuotaBench, *protected: str) -> list[str]:
    """Return the pods of quota a that would be evicted; a budget protects some."""
    made = OverUseRevoke(bench, bench.state, lambda pods: [each.metadata.name in protected for each in pods])
    return [counted.pod.metadata.name for counted in made.choose(bench.state.quotas["a"])]


def over_used(**pods: tuple[int, str]) -> QuotaBench:
    """Return a quota whose runtime is 8; pods: priority and CPUs, by name."""
    bench = QuotaBench()
    bench.set(node("n").cpu("8").memory("8Gi"))
    bench.quota("a", most={"cpu": "100", "memory": "100Gi"})
    for name, (priority, cpu) in pods.items():
        bench.pod(of_quota(pod(name), "a").cpu(cpu).priority(priority).on("n"))
    return bench


def test_the_least_important_pods_are_revoked_and_given_back_as_far_as_possible() -> None:
    bench = over_used(p9=(9000, "4"), p7=(7000, "2"), p5=(5000, "5"), p3=(3000, "2"))
    assert revoked(bench) == ["p5"]


def test_protected_pods_are_revoked_last_and_non_preemptible_and_leaving_ones_never() -> None:
    bench = over_used(a=(1, "4"), b=(2, "4"), c=(3, "4"))
    assert revoked(bench) == ["a"]
    assert revoked(bench, "a") == ["b"]
    bench.pod(of_quota(pod("a"), "a").cpu("4").priority(1).label(PREEMPTIBLE, "false").on("n"))
    assert revoked(bench) == ["b"]
    bench.pod(of_quota(pod("c"), "a").cpu("4").priority(3).on("n").deleted_at(rfc3339(START)))
    assert revoked(bench) == []  # what leaves counts as gone: 8 are used


def test_a_pod_that_uses_nothing_of_what_is_short_is_not_revoked() -> None:
    bench = over_used(big=(9, "10"))
    bench.pod(of_quota(pod("other"), "a").memory("1Gi").priority(1).on("n"))
    assert revoked(bench) == ["big"]
