"""What the log says when something goes wrong on a pod's way, whole lines: operators search for these texts and filter by these keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import node
from support.drift import check_all, standing_check
from support.fakes import FakeFilter, FakePostFilter, Late, config_with, embedded, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, begin, bound_to, condition, metric, ref

from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Ref, ServerError, Unreadable
from koordsched.framework.status import unschedulable
from koordsched.scheduler.extenders.transport import Unanswered

N1 = Ref(NODE, "", "n1")
BUG = "internal error, see the scheduler's log: KeyError('oops')"


class Buggy(Late):
    """Raises at one point, the first time."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self.point = point

    def _maybe(self, point: str) -> None:
        if self.point == point:
            self.point = ""
            raise KeyError("oops")

    def reserve(self, *args: Any) -> Any:
        self._maybe("reserve")
        return super().reserve(*args)

    def permit(self, *args: Any) -> Any:
        self._maybe("permit")
        return super().permit(*args)

    def pre_bind_pre_flight(self, *args: Any) -> Any:
        self._maybe("preBind")
        return super().pre_bind_pre_flight(*args)

    def post_bind(self, *args: Any) -> None:
        self._maybe("postBind")


class BuggyFilter(FakeFilter):
    """Passes nodes or refuses them; with `broken` its signature of a state, its version, cannot be had."""

    broken = False

    def version(self, pod: PodInfo) -> int:
        if self.broken:
            raise KeyError("oops")
        return 0


class BuggyPostFilter(FakePostFilter):
    """Fails as a plugin with a bug does, when it is asked and when its refusal is estimated."""

    async def post_filter(self, *_args: Any) -> Any:
        raise KeyError("oops")


def failures(logs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [dict(line) for line in logs if line["log_level"] in {"error", "warning"}]


def bug(event: str, **keys: object) -> dict[str, object]:
    """Return the line of an unexpected exception: with its traceback."""
    return {"event": event, "log_level": "error", "exc_info": True, **keys}


@pytest.mark.parametrize(
    ("point", "event"),
    [
        ("reserve", "Reserve failed"),
        ("permit", "Permit failed"),
        ("preBind", "binding cycle failed"),
    ],
)
async def test_a_bug_before_the_pod_is_bound_is_logged_and_reported_and_undone(stage: Stage, point: str, event: str) -> None:
    plugin = Buggy(point)
    async with stage((plugin, point)) as world:
        with capture_logs() as logs:
            await begin(world)
        assert failures(logs) == [bug(event, pod="default/p", node="n1")]
        assert condition(world) == ("SchedulerError", BUG)
        assert world.scheduler.cache.pods == {}
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"


async def test_a_bug_in_post_bind_is_logged_and_the_pod_stays_bound(stage: Stage) -> None:
    async with stage((Buggy("postBind"), "postBind")) as world:
        with capture_logs() as logs:
            await begin(world)
            await asyncio.sleep(3)
        assert failures(logs) == [bug("PostBind failed", pod="default/p", node="n1")]
        assert bound_to(world) == "n1"
        assert metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}') == 1


async def test_a_bug_in_post_filter_is_logged_and_reported_with_the_reasons(stage: Stage) -> None:
    judge, savior = FakeFilter(), BuggyPostFilter("Q", (None, None))
    judge.refuse_all = unschedulable("full")
    async with stage((judge, "filter"), (savior, "postFilter")) as world:
        with capture_logs() as logs:
            await begin(world)
        assert failures(logs) == [bug("PostFilter failed", pod="default/p")]
        assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 full. {BUG}")


async def test_a_bug_while_a_node_is_looked_for_is_logged_and_costs_one_attempt(stage: Stage) -> None:
    judge = BuggyFilter()
    judge.broken = True
    async with stage((judge, "filter")) as world:
        with capture_logs() as logs:
            await begin(world)
        (reported,) = failures(logs)
        assert reported == bug("scheduling cycle failed", pod="default/p")
        assert condition(world) == ("SchedulerError", BUG)
        judge.broken = False
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"


async def test_a_nomination_that_no_longer_holds_is_logged(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1", "1"))
        big = pod_manifest("p", "2", preemptionPolicy="Never")
        await world.create(POD, {**big, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        await world.start()
        await world.settle()
        with capture_logs() as logs:
            await world.delete(N1)
            await world.settle()
        (reported,) = [line for line in logs if "nomination" in line["event"]]
        assert reported == {"event": "a nomination no longer holds", "log_level": "info", "pod": "default/p", "node": "n1"}
        assert "nominatedNodeName" not in world.cluster.raw(ref())["status"]


async def test_a_nomination_about_which_a_filter_fails_is_kept_and_the_failure_logged(stage: Stage) -> None:
    judge = BuggyFilter()
    async with stage((judge, "filter")) as world:
        await world.create(NODE, node_manifest("n1", "1"))
        big = pod_manifest("p", "2", preemptionPolicy="Never")
        await world.create(POD, {**big, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        await world.start()
        await world.settle()
        judge.broken = True
        with capture_logs() as logs:
            await world.patch(N1, {"metadata": {"labels": {"a": "b"}}})
            await asyncio.sleep(0.01)
        reported = [line for line in logs if "nomination" in line["event"]]
        assert reported == [bug("cannot find out whether a nomination still holds", pod="default/p", node="n1")]
        assert world.cluster.raw(ref())["status"]["nominatedNodeName"] == "n1"
        judge.broken = False


async def test_plugins_that_this_version_does_not_have_are_named_at_the_start() -> None:
    config = config_with({"Elsewhere": "reserve permit", "Another": "reserve"})
    with capture_logs() as logs:
        async with embedded(asyncio.get_running_loop(), config):
            pass
    text = "plugins that this version does not have take no part"
    (reported,) = failures(logs)
    assert reported == {"event": text, "log_level": "warning", "profile": "default-scheduler", "plugins": ["Another", "Elsewhere"]}


async def test_a_dump_and_a_comparison_are_logged_in_lines_that_say_how_much_there_is(stage: Stage) -> None:
    nominated = {**pod_manifest("big", "9", preemptionPolicy="Never"), "status": {"phase": "Pending", "nominatedNodeName": "n1"}}
    async with stage() as world:
        await begin(world, pod_manifest("p", priority=1), nominated)
        world.cluster.faults.rules.append(Fault(verb="list", error=lambda: ServerError("down")))
        with capture_logs() as logs:
            await world.scheduler.debugger.log_all()
        reported = [{key: value for key, value in line.items() if key != "items"} for line in logs]
        part = {"log_level": "info", "total": 0}
        assert reported[:2] == [
            {"event": "dump: cache", "log_level": "info", "nodes": 1, "pods": 1, "assumed": 0, "repairs": 0},
            {"event": "dump: nodes", "log_level": "info", "first": 1, "total": 1},
        ]
        assert reported[2] == {"event": "dump: nominations", "log_level": "info", "by_node": {"n1": ("default/big",)}}
        assert reported[3:9] == [
            {**part, "event": "dump: active pods"},
            {**part, "event": "dump: backoff pods"},
            {"event": "dump: unschedulable pods", "log_level": "info", "first": 1, "total": 1},
            {**part, "event": "dump: gated pods"},
            {**part, "event": "dump: in_flight pods"},
            {**part, "event": "dump: pods waiting on permit"},
        ]
        text = "no fresh list to compare with; compared with the watches only"
        assert reported[9] == {"event": text, "log_level": "warning", "status": 500, "err": "down"}
        assert reported[10]["event"] == "cache comparison: equal to the cluster"
        assert len(reported) == 11


async def test_a_condition_that_cannot_be_written_for_long_is_logged_once_as_a_warning(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="patch status", kind=POD, times=12, error=lambda: ServerError("etcd is away")))
        with capture_logs() as logs:
            await begin(world, pod_manifest("p", "9"))
            await asyncio.sleep(300)
        (reported,) = failures(logs)
        assert reported == {
            "event": "a pod's status cannot be written; it is tried again",
            "log_level": "warning",
            "pod": "default/p",
            "err": "etcd is away",
            "status": ServerError.status,
        }
        assert condition(world)[0] == "Unschedulable"


# The standing check


async def test_a_check_without_an_answer_is_logged_and_counted_and_the_next_one_comes(stage: Stage) -> None:
    async with stage() as world:
        await begin(world)
        world.cluster.faults.rules.append(Fault(verb="list", times=1, error=lambda: ServerError("etcd is away")))
        check = standing_check(world)
        task = asyncio.create_task(check.run(60.0))
        with capture_logs() as logs:
            await asyncio.sleep(150)
        task.cancel()
        await asyncio.wait([task])
        assert failures(logs) == [
            {
                "event": "the cache could not be compared with the cluster",
                "log_level": "warning",
                "status": ServerError.status,
                "err": "etcd is away",
            }
        ]
        assert metric(world, 'koord_scheduler_cache_checks_total{result="failed"}') == 1
        assert metric(world, 'koord_scheduler_cache_checks_total{result="done"}') >= 1


async def test_a_bug_in_the_check_is_logged_and_counted_and_the_next_one_comes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        await begin(world)
        check, times = standing_check(world), []

        async def fails() -> None:
            times.append(asyncio.get_running_loop().time())
            raise KeyError("oops")

        monkeypatch.setattr(check, "check_part", fails)
        task = asyncio.create_task(check.run(60.0))
        with capture_logs() as logs:
            await asyncio.sleep(150)
        task.cancel()
        await asyncio.wait([task])
        assert len(times) == 2
        assert failures(logs) == [bug("the standing check of the cache failed")] * 2
        assert metric(world, 'koord_scheduler_cache_checks_total{result="failed"}') == 2


async def test_what_is_mended_is_logged_with_both_values(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p"))
        cache = world.scheduler.cache
        cache.columns.set_labels(cache.nodes_by_name["n1"].row, {}, {"zone": "b"})
        with capture_logs() as logs:
            await check_all(world)
        text = "the cache differed from the cluster and is mended"
        row = {"event": text, "log_level": "error", "kind": "row", "object": "n1", "column": "label zone", "cached": "b", "actual": ""}
        assert failures(logs) == [row]


@pytest.mark.parametrize("lost", ["node", "strange node", "counted pod", "waiting pod"])
async def test_what_is_taken_in_again_is_logged(stage: Stage, lost: str) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p"), pod_manifest("big", "9"))
        scheduler = world.scheduler
        said: dict[str, object] = {"kind": "pod", "object": "default/p", "column": "known", "cached": "it was missing", "actual": ""}
        if lost == "node":
            scheduler.cache.remove_node("n1")
            said = {"kind": "node", "object": "n1", "column": "exists", "cached": False, "actual": True}
        elif lost == "strange node":
            scheduler.cache.set_node(node("n9").build())
            said = {"kind": "node", "object": "n9", "column": "exists", "cached": True, "actual": False}
        elif lost == "counted pod":
            scheduler.cache.remove_pod(next(iter(scheduler.cache.pods)))
        else:
            info = scheduler.queue.get("default/big")
            assert info is not None
            scheduler.queue.forget(info.pod_info)
            said["object"] = "default/big"
        with capture_logs() as logs:
            await check_all(world)
        line = {"event": "the cache differed from the cluster and is mended", "log_level": "error", **said}
        assert line in failures(logs)


async def test_a_change_that_the_watch_missed_is_logged_with_both_versions(stage: Stage) -> None:
    async with stage() as world:
        await begin(world)
        watched = world.cluster.raw(N1)["metadata"]["resourceVersion"]
        world.cluster.faults.rules.append(Fault(verb="watch", kind=NODE, error=lambda: ServerError("down")))
        world.cluster.cut_watches(lambda: ServerError("cut"))
        await asyncio.sleep(0.01)
        await world.patch(N1, {"metadata": {"labels": {"zone": "b"}}})
        actual = world.cluster.raw(N1)["metadata"]["resourceVersion"]
        with capture_logs() as logs:
            await check_all(world)
        reported = [line for line in failures(logs) if "watch missed" in line["event"]]
        text = "a watch missed a change; it is taken in now"
        assert reported == [
            {"event": text, "log_level": "error", "kind": "nodes", "object": "n1", "cached": watched, "actual": actual},
        ]
        assert known(world.scheduler.cache.nodes_by_name["n1"].node).metadata.labels == {"zone": "b"}


async def test_an_object_that_cannot_be_read_when_it_is_asked_for_is_logged_and_left(stage: Stage) -> None:
    async with stage() as world:
        await begin(world)
        world.cluster.faults.rules.append(Fault(verb="watch", kind=NODE, error=lambda: ServerError("down")))
        world.cluster.cut_watches(lambda: ServerError("cut"))
        await asyncio.sleep(0.01)
        await world.patch(N1, {"metadata": {"labels": {"zone": "b"}}})
        world.cluster.faults.rules.append(Fault(verb="get", kind=NODE, error=lambda: Unreadable("it cannot be read")))
        with capture_logs() as logs:
            await check_all(world)
        reported = [line for line in failures(logs) if "cannot be read" in line["event"]]
        text = "an object cannot be read, and is not compared"
        assert reported[0] == {"event": text, "log_level": "warning", "kind": "nodes", "object": "n1", "err": "it cannot be read"}
        assert not any("watch missed" in line["event"] for line in logs)


# Extenders


async def test_that_it_is_unknown_whether_an_extender_bound_a_pod_is_logged(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoServer:
        def __init__(self, _settings: object) -> None:
            pass

        async def post(self, url: str, _body: bytes) -> object:
            raise Unanswered("no answer within 5 s")

        async def close(self) -> None:
            pass

    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", NoServer)
    async with stage(extenders=[{"urlPrefix": "http://e", "bindVerb": "bind"}]) as world:
        world.cluster.faults.rules.append(Fault(verb="get", kind=POD, error=lambda: ServerError("etcd is away")))
        with capture_logs() as logs:
            await begin(world)
        text = "it is not known whether an extender bound a pod"
        assert failures(logs) == [{"event": text, "log_level": "warning", "pod": "default/p", "err": "etcd is away"}]
        assert condition(world) == ("SchedulerError", 'Post "http://e/bind": no answer within 5 s')
        assert world.scheduler.cache.pods == {}
