"""DefaultPreemption beyond what scenarios show: API faults, the gate, victims that never leave, lower nominations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support import queueing
from support.builders import node, pod
from support.preemption import Answers
from support.preemption import EvictionApi as Api
from support.preemption import PreemptionBench as Bench
from support.reservations import available
from support.world import Setup, World

from koordsched.api.groups import PodDisruptionBudget, PodDisruptionBudgetSpec
from koordsched.api.kinds import POD_DISRUPTION_BUDGET
from koordsched.api.meta import LabelSelector, ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo
from koordsched.clock import parse_rfc3339
from koordsched.cluster.port import ADDED, Conflict, Forbidden, NotFound, Patch, PatchType, Ref, ServerError, WatchEvent
from koordsched.config import REFERENCE, Environment
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.handle import ExtenderError, Victims
from koordsched.framework.interface import FilterPlugin, PostFilterResult
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate
from koordsched.framework.preemption.estimate import Preemptor
from koordsched.framework.preemption.eviction import overdue_at
from koordsched.framework.status import Code, Status, error, unschedulable
from koordsched.framework.waiting import WaitingPod
from koordsched.plugins import REGISTRY
from koordsched.queue.events import ASSIGNED_POD_DELETE, EventHint
from koordsched.queue.hints import hints_for


async def test_the_preemptor_is_gated_until_its_last_victim_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    high = bench.high("4")
    assert await bench.preempt(high) == (PostFilterResult("n1"), None)
    assert api.calls == []
    refusal = bench.plugin.pre_enqueue(high)
    assert refusal is not None
    assert refusal.message == "waiting for the preemption for this pod to be finished"
    await bench.finish()
    assert bench.plugin.pre_enqueue(high) is None
    assert api.calls == ["patch mid", "delete mid uid-default-mid", "patch low", "delete low uid-default-low"]
    assert bench.world.said == [
        "attempted",
        "evicting 2",
        "Preempted mid: Preempted by pod uid-default-high on node n1",
        "Preempted low: Preempted by pod uid-default-high on node n1",
        "evicted: success",
        "activate default/high",  # it was held: the victims may have gone meanwhile
    ]


@pytest.mark.parametrize("goes", ["gone", "terminating"])
async def test_the_preemptor_is_gated_until_its_victim_is_seen_going_though_the_deletion_was_answered_before(
    goes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried in between it would find the victim still there, and evict another pod."""
    bench = Bench(api := Api(), monkeypatch)
    api.gone = lambda _: None  # the watch is late
    high = bench.high()
    await bench.preempt(high)
    work = asyncio.ensure_future(bench.finish())
    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.world.said[-1] == "evicted: success"
    assert bench.plugin.pre_enqueue(high) is not None
    bench.run("mid", 1)  # something else changes
    await asyncio.sleep(0)
    assert bench.plugin.pre_enqueue(high) is not None
    if goes == "gone":
        bench.gone("low")
    else:
        bench.run("low", 0, deleted="2026-01-01T00:00:20Z")
    assert bench.plugin.pre_enqueue(high) is None, "at once, for the event that comes next may let it in"
    await work
    assert api.calls == ["patch low", "delete low uid-default-low"]
    assert bench.world.said[-1] == "activate default/high"


async def test_a_preemptor_is_gated_until_the_victims_of_all_its_attempts_are_seen_going(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    api.gone = lambda _: None  # the watch is late
    high = bench.high()
    for name in ("low", "mid"):
        assert bench.plugin.engine.evictions.evict([high], {"n1": [bench.world.cache.pods[f"uid-default-{name}"].info]}) is None
    work = [asyncio.ensure_future(each) for each in bench.world.spawned]
    bench.world.spawned.clear()
    for name in ("low", "mid"):
        assert bench.plugin.pre_enqueue(high) is not None
        bench.gone(name)
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        work = [each for each in work if not each.done()]
    assert bench.plugin.pre_enqueue(high) is None
    assert work == []


def test_no_event_reaches_a_gated_preemptor_and_it_goes_on_when_it_is_activated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking each of them again at each deletion would be quadratic in the number of preemptors."""
    plugin = Bench(Api(), monkeypatch).plugin
    queue = queueing.Bench({**hints_for([plugin]), "NodeResourcesFit": [EventHint(ASSIGNED_POD_DELETE)]})
    held = queue.add(*(pod(f"p{i}") for i in range(200)), shape="s")
    for info in held:
        queue.queue.nominate(info, f"n-{info.key}")
    queue.fail_all("NodeResourcesFit")
    queue.profile.gates = {info.key: plugin.name for info in held}
    queue.profile.preferred.clear()
    for victim in range(200):
        queue.queue.move_all(ASSIGNED_POD_DELETE, pod(f"victim-{victim}").on("n1").build(), None)
    assert len(queue.profile.preferred) == 200, "each is asked once, when it is gated"
    assert queue.queue.sizes().gated == 200
    queue.queue.check_invariants()
    queue.profile.gates.clear()
    queue.queue.activate(held)
    assert queue.queue.sizes().active == 200


@pytest.mark.parametrize(
    "answers",
    [[ServerError("busy"), None, ServerError("busy")], [NotFound("gone")], [Conflict("another uid")], [None, Conflict("another uid")]],
)
async def test_faults_that_pass_and_pods_that_are_gone_are_no_failure(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(*answers), monkeypatch)
    await bench.preempt(bench.high())
    await bench.finish()
    assert bench.world.said[-1] == "evicted: success"


async def test_what_stands_for_a_reservation_is_no_victim(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no pod to delete, whether or not some pod may own a part of the Reservation (reservation.md D10)."""
    bench = Bench(api := Api(), monkeypatch)
    cache = bench.world.cache
    for name in ("low", "mid"):
        cache.remove_pod(f"uid-default-{name}")
    early, late = (PodInfo.of_reservation(available(name, "n1", {"cpu": "2"})) for name in ("early", "late"))
    assert early.priority == 2**31 - 1
    early.priority = late.priority = 0
    cache.set_pod(early, "n1")  # before the victims are looked at for the first time, and after that
    cache.credits.grant("x", early.uid)
    bench.run("low", 0)
    high = bench.high()
    finder = bench.plugin.engine.finder
    assert isinstance(bench.world.find(high), Diagnosis)
    assert [each.uid for each in bench.victims(high)] == ["uid-default-low"]
    bench.gone("low")
    cache.set_pod(late, "n1")
    assert bench.victims(high) == []
    assert not finder.victims.any_below(high.priority)
    result, status = await bench.preempt(high)
    assert result is None or not result.nominated_node_name
    assert status is not None
    assert "No preemption victims found for incoming pod" in status.message
    assert api.calls == []
    cache.remove_pod(late.uid)
    cache.remove_pod(early.uid)
    assert not finder.victims.any_below(high.priority)


async def test_a_deletion_refused_because_others_wrote_at_the_same_time_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim is still there: if the conflict counted as its end, the preemptor would wait for it for ever."""
    bench = Bench(api := Api(None, Conflict("the object has been modified")), monkeypatch)
    api.gone = lambda name: bench.gone(name) if not api.answers and len(api.calls) == 3 else None
    await bench.preempt(bench.high())
    await bench.finish()
    assert api.calls == ["patch low", "delete low uid-default-low", "delete low uid-default-low"]
    assert bench.world.said[-1] == "evicted: success"


@pytest.mark.parametrize("answers", [[Forbidden("no rights")], [ServerError("busy")] * 6])
async def test_a_preemptor_whose_victim_cannot_be_evicted_is_tried_again(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(*answers), monkeypatch)
    await bench.preempt(bench.high())
    with capture_logs() as logs:
        await bench.finish()
    assert bench.world.said[-2:] == ["evicted: error", "activate default/high"]
    assert api.calls == ["patch low"] * len(answers)
    (said,) = logs
    assert (said["event"], said["log_level"]) == ("a pod could not be evicted; its preemptor is tried again", "error")
    assert (said["pod"], said["node"], said["err"]) == ("default/high", "n1", answers[0].message)  # type: ignore[union-attr]


async def test_a_bug_while_pods_are_evicted_is_logged_and_the_preemptor_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(KeyError("oops")), monkeypatch)
    await bench.preempt(bench.high())
    with capture_logs() as logs:
        await bench.finish()
    assert [(said["event"], said["pod"], said["node"]) for said in logs] == [
        ("evicting pods failed", "default/high", "n1"),
        ("a pod could not be evicted; its preemptor is tried again", "default/high", "n1"),
    ]
    assert logs[1]["err"] == "KeyError('oops')"
    assert bench.world.said[-2:] == ["evicted: error", "activate default/high"]


async def test_a_victim_that_waits_on_permit_is_sent_back_instead_of_being_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    waiting = WaitingPod(bench.world.cache.pods["uid-default-low"].info, "n1", {"Gang": 60.0})
    bench.world.waiting_pods.add(waiting)
    high = bench.high("4")
    await bench.preempt(high)
    work = asyncio.ensure_future(bench.finish())
    assert await waiting.outcome() == unschedulable("preempted").with_plugin("DefaultPreemption")
    assert bench.plugin.pre_enqueue(high) is not None, "it still counts on its node"
    bench.gone("low")
    await work
    assert api.calls == ["patch mid", "delete mid uid-default-mid"]
    assert "Preempted low: Preempted by pod uid-default-high on node n1" in bench.world.said
    assert bench.world.said[-2:] == ["evicted: success", "activate default/high"]
    assert bench.plugin.pre_enqueue(high) is None


async def test_the_condition_of_a_victim_says_who_evicts_it_and_which_state_of_it_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    bench.world.clock = Late("2026-01-01T00:00:30Z")
    stored = bench.store["default/low"]
    bench.store["default/low"] = replace(stored, metadata=replace(stored.metadata, generation=7))
    patched: list[dict[str, Any]] = []
    patch = api.patch

    async def noted(ref: Ref, change: Patch) -> None:
        assert (ref.namespace, change.type, change.subresource) == ("default", PatchType.STRATEGIC, "status")
        patched.append(dict(change.body))
        await patch(ref, change)

    monkeypatch.setattr(api, "patch", noted)
    await bench.preempt(bench.high("4"))
    await bench.finish()
    expected = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastTransitionTime": "2026-01-01T00:00:30Z",
    }
    assert patched == [
        {"metadata": {"uid": "uid-default-mid"}, "status": {"conditions": [expected]}},
        {"metadata": {"uid": "uid-default-low"}, "status": {"conditions": [expected | {"observedGeneration": 7}]}},
    ]


async def test_a_victim_that_terminates_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(), monkeypatch)
    bench.world.clock = Late("2026-01-01T00:00:30Z")
    bench.run("low", 0, deleted="2026-01-01T00:00:20Z")
    high = bench.high()
    bench.world.nominator.set(high, "n1")
    assert await bench.preempt(high) == (
        None,
        Status(Code.UNSCHEDULABLE, ("preemption: not eligible due to a terminating pod on the nominated node.",)),
    )
    assert bench.world.said == ["attempted", "in 50 s"]  # 60 s after the end of its grace period
    for _, call in bench.world.timers:
        call()
    assert bench.world.said[2:] == ["activate default/high"]


async def test_a_victim_that_never_leaves_is_given_up_and_not_chosen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    bench.world.clock = Late("2026-01-01T00:01:30Z")
    bench.run("low", 0, deleted="2026-01-01T00:00:20Z")
    high = bench.high()
    bench.world.nominator.set(high, "n1")
    result, status = await bench.preempt(high)
    assert (result, status) == (PostFilterResult("n1"), None)
    await bench.finish()
    assert api.calls == ["patch mid", "delete mid uid-default-mid"]


async def test_a_victim_that_began_to_terminate_meanwhile_is_neither_evicted_again_nor_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(api := Api(), monkeypatch)
    assert await bench.preempt(bench.high()) == (PostFilterResult("n1"), None)
    bench.run("low", 0, deleted="2026-01-01T00:00:20Z")  # before the eviction has begun
    await bench.finish()
    assert api.calls == []
    assert bench.world.said == ["attempted", "evicting 1", "evicted: success"]


async def test_lower_nominations_that_do_not_fit_any_more_are_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(), monkeypatch)
    lower, higher = pod("lower").cpu("2").priority(5).info(), pod("higher").cpu("1").priority(10).info()
    for other in (lower, higher):
        bench.world.nominator.set(other, "n1")
    await bench.preempt(bench.high("1"))
    assert "withdraw default/lower" in bench.world.said
    assert "withdraw default/higher" not in bench.world.said
    await bench.finish()


async def test_a_lower_nomination_that_still_fits_beside_the_preemptor_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(), monkeypatch)
    asked: list[tuple[str, list[str], list[str]]] = []

    def fits(waiting: PodInfo, there: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        asked.append((waiting.key, [other.key for other in add], [other.key for other in remove]))
        return True

    monkeypatch.setattr(bench.world, "fits", fits)
    bench.world.nominator.set(pod("lower").cpu("2").priority(5).info(), "n1")
    await bench.preempt(bench.high("1"))
    assert asked == [("default/lower", ["default/high"], ["default/low"])]
    assert "withdraw default/lower" not in bench.world.said
    await bench.finish()


def test_a_victim_is_overdue_a_minute_after_its_grace_and_never_where_that_is_not_known() -> None:
    made = pod("p")
    assert overdue_at(made.deleted_at("2026-01-01T00:00:20Z").info()) == parse_rfc3339("2026-01-01T00:01:20Z")
    assert overdue_at(made.info()) == overdue_at(made.deleted_at("soon").info()) == float("inf")


async def test_expected_refusals_are_those_of_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(), monkeypatch)
    for made in (pod("a").cpu("2").priority(-1), pod("b").cpu("5").priority(9), pod("c").cpu("2").priority(9).preemption_policy("Never")):
        info = made.info()
        bench.store[info.key] = info.pod
        found = bench.world.find(info)
        assert isinstance(found, Diagnosis)
        _, status = await bench.plugin.post_filter(CycleState(), info, found)
        assert status is not None
        assert not bench.plugin.may_help(info, found)
        assert bench.plugin.expected_refusal(info, found) == status


class Late:
    """A clock that stands still."""

    def __init__(self, now: str) -> None:
        self._now = parse_rfc3339(now)

    def now(self) -> float:
        return self._now

    def perf(self) -> float:
        return 0.0

    def uptime(self) -> float:
        return 0.0


class Undecided(FilterPlugin):
    """Takes one pod a node; of a node named n1 that has one already and had two it knows nothing."""

    name = "Undecided"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if node.name == "n1" and len(node.pods) == 1:
            return error("no idea")
        return unschedulable("taken") if node.pods else None


UNDECIDED = Setup(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {multiPoint: {enabled: [{name: Undecided}]}}}]\n",
    Environment(catalogue=REFERENCE.with_plugin("Undecided", frozenset({"filter"}))),
    {**REGISTRY, "Undecided": lambda _args, _handle: Undecided()},
)


@pytest.mark.parametrize("nodes", [["n1"], ["n1", "n2"]])
async def test_a_filter_that_fails_while_evictions_are_played_spoils_that_node_only_and_nothing_is_left_of_the_play(
    nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(Api(), monkeypatch, World(UNDECIDED))
    if "n2" in nodes:
        bench.world.cache.set_node(node("n2").cpu("4").build())
        bench.run("other", 2, on="n2")
    high = bench.high()
    result, status = await bench.preempt(high)
    if "n2" in nodes:
        assert (result, status) == (PostFilterResult("n2"), None)  # although its victim is worth more
        await bench.finish()
    else:
        assert (result, status) == (None, error('preemption: running "Undecided" filter plugin: no idea'))
    n1 = bench.world.cache.node("n1")
    assert n1 is not None
    assert sorted(each.key for each in n1.pods.values()) == ["default/low", "default/mid"]
    assert not bench.world.cache.simulating
    assert bench.world.cache.table.requested_of(n1.row, 1) == 4000


PICKY = Setup(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{pluginConfig: [{name: DefaultPreemption, "
    "args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 2}}]}]\n"
)


async def test_where_each_node_has_to_be_tried_the_most_promising_are_and_no_more_than_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Api(), monkeypatch, World(PICKY))
    for i, priority in enumerate((5, 3, 4, 3, 3)):
        bench.world.cache.set_node(node(f"busy{i}").cpu("4").build())
        made = pod(f"p{i}").host_port(80).priority(priority).on(f"busy{i}")
        bench.store[f"default/p{i}"] = made.build()
        bench.world.cache.set_pod(made.info(counted_on_node=True), f"busy{i}")
    bench.world.cache.set_node(node("n1").cpu("4").cordoned().build())
    tried: list[str] = []
    select_victims = CandidateFinder.select_victims

    def noted(finder: CandidateFinder, preemptor: Preemptor, row: int) -> PreemptionCandidate | Status:
        info = bench.world.cache.infos[row]
        tried.append("" if info is None else info.name)
        return select_victims(finder, preemptor, row)

    monkeypatch.setattr(CandidateFinder, "select_victims", noted)
    high = pod("high").host_port(80).priority(9).info()
    bench.store[high.key] = high.pod
    assert await bench.preempt(high) == (PostFilterResult("busy1"), None)
    assert tried == ["busy1", "busy3"]
    await bench.finish()


class Extenders:
    """Extenders that leave of the candidates what `choose` says."""

    def __init__(self, choose: Callable[[Mapping[str, Victims]], dict[str, Victims]]) -> None:
        self._choose = choose
        self.asked: list[dict[str, list[str]]] = []

    def wants_preemption(self, pod: PodInfo) -> bool:
        return pod.priority == 9

    async def preempt(self, pod: PodInfo, candidates: Mapping[str, Victims]) -> dict[str, Victims]:
        self.asked.append({name: [victim.key for victim in victims.pods] for name, victims in candidates.items()})
        return self._choose(candidates)


def with_extenders(monkeypatch: pytest.MonkeyPatch, extenders: Extenders) -> Bench:
    """Return a bench with a second node, whose one pod has priority 5."""
    bench = Bench(Api(), monkeypatch)
    bench.world.extenders = extenders
    bench.world.cache.set_node(node("n2").cpu("4").build())
    made = pod("other").cpu("4").priority(5).on("n2")
    bench.store["default/other"] = made.build()
    bench.world.cache.set_pod(made.info(counted_on_node=True), "n2")
    return bench


async def test_the_best_of_the_nodes_that_extenders_leave_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = with_extenders(monkeypatch, extenders := Extenders(dict))
    assert await bench.preempt(bench.high()) == (PostFilterResult("n1"), None)
    assert extenders.asked == [{"n1": ["default/low"], "n2": ["default/other"]}]
    await bench.finish()
    bench.world.extenders = Extenders(lambda candidates: {"gone": candidates["n2"], "n2": candidates["n2"], "n1": Victims((), 0)})
    bench.run("low", 0)
    assert await bench.preempt(bench.high()) == (PostFilterResult("n2"), None), "n1 without victims and unknown nodes are passed over"
    await bench.finish()


async def test_extenders_see_no_more_candidates_than_are_wanted_the_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = with_extenders(monkeypatch, extenders := Extenders(dict))
    high = bench.high()
    found = bench.world.find(high)
    assert isinstance(found, Diagnosis)
    for wanted in (1, 2):
        await bench.plugin.engine.preempt(high, found, wanted)
    assert [list(asked) for asked in extenders.asked] == [["n1"], ["n1", "n2"]]
    bench.world.spawned[1].close()
    del bench.world.spawned[1]
    await bench.finish()


async def test_extenders_get_the_number_of_victims_that_budgets_protect(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def note(candidates: Mapping[str, Victims]) -> dict[str, Victims]:
        seen.update({name: victims.pdb_violations for name, victims in candidates.items()})
        return {}

    bench = with_extenders(monkeypatch, Extenders(note))
    bench.world.cache.set_pod(pod("other").cpu("4").priority(5).label("app", "db").on("n2").info(counted_on_node=True), "n2")
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="db", namespace="default", uid="uid-db", resource_version="1"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "db"})),
    )
    bench.world.informer(POD_DISRUPTION_BUDGET)._objects.apply(WatchEvent(ADDED, budget))
    await bench.preempt(bench.high())
    assert seen == {"n1": 0, "n2": 1}


async def test_no_node_is_nominated_where_extenders_leave_none_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Mapping[str, Victims]) -> dict[str, Victims]:
        raise ExtenderError("no answer")

    bench = with_extenders(monkeypatch, Extenders(lambda _: {}))
    assert await bench.preempt(bench.high()) == (None, unschedulable("preemption: no candidate node for preemption"))
    bench.world.extenders = Extenders(fail)
    assert await bench.preempt(bench.high()) == (None, error("preemption: no answer"))


async def test_extenders_are_not_asked_about_a_pod_that_they_do_not_want_or_that_evictions_cannot_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = with_extenders(monkeypatch, extenders := Extenders(dict))
    helpless = bench.high("5")
    result, status = await bench.preempt(helpless)
    bench.world.extenders = None
    assert (result, status) == (PostFilterResult(""), (await bench.preempt(helpless))[1])
    assert status is not None
    assert status.message == "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    bench.world.extenders = extenders
    unwanted = pod("unwanted").cpu("2").priority(8).info()
    bench.store[unwanted.key] = unwanted.pod
    assert await bench.preempt(unwanted) == (PostFilterResult("n1"), None)
    assert extenders.asked == []
    await bench.finish()
