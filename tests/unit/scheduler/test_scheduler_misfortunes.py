"""What goes wrong in plugins, in the API server and in the watch, and must not cost more than it has to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from support.fakes import LATE_POINTS, FakeFilter, Late, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage

from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Ref, ServerError, TooManyRequests
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Code, Status, error, unschedulable
from koordsched.serve.endpoints import Endpoints
from koordsched.server.http import HttpRequest

WAIT = Status(Code.WAIT)
P = Ref(POD, "default", "p")


async def test_what_reserve_gave_back_helps_those_who_wait(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 10.0)
    async with stage((late, "permit")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("big", "3"))
        await world.create(POD, pod_manifest("p", "2"))
        await world.settle()
        await world.delete(Ref(POD, "default", "big"))
        late.permit_answer = (None, 0.0)
        await asyncio.sleep(100)
        assert world.cluster.raw(P)["spec"].get("nodeName") == "n1"


async def test_a_bug_in_post_bind_does_not_unbind(stage: Stage) -> None:
    class Buggy(Late):
        def post_bind(self, *_args: object) -> None:
            raise KeyError("oops")

    late = Buggy()
    async with stage((late, LATE_POINTS)) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await asyncio.sleep(5)
        assert "unreserve L" not in late.journal
        assert [each["status"] for each in world.cluster.raw(P)["status"]["conditions"]] == ["True"]


async def test_a_pre_flight_error_ends_the_wait_on_permit_too(stage: Stage) -> None:
    late = Late()
    late.permit_answer, late.pre_flight_answer = (WAIT, 600.0), error("no")
    async with stage((late, LATE_POINTS)) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.settle()
        late.permit_answer, late.pre_flight_answer = (None, 0.0), None
        await asyncio.sleep(60)
        assert world.cluster.raw(P)["spec"].get("nodeName") == "n1"


async def test_an_error_while_a_probe_pod_is_judged_does_not_end_the_scheduling_loop(stage: Stage) -> None:
    class Flaky(FakeFilter):
        answers: Sequence[Status | None] = ()
        count = 0

        def version(self, pod: PodInfo) -> int:
            self.count += 1
            return self.count

        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            if not self.answers:
                return unschedulable("full")
            answer, *self.answers = self.answers
            return answer

    flaky = Flaky("F")
    flaky.events = None
    async with stage((flaky, "filter")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        for i in range(3):
            await world.create(POD, pod_manifest(f"q{i}"))
        await asyncio.sleep(30)
        flaky.answers = [None, unschedulable("full"), error("boom")]  # probe, first probe pod, unchanged_since_failure of the second
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(20)
        assert not known(world.scheduler._loop_task).done()


async def test_a_pod_whose_binding_and_deletion_were_both_missed_leaves_the_cache(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        while not world.cluster.calls["bind", POD]:  # noqa: ASYNC110  # the very moment, in virtual time
            await asyncio.sleep(0)
        world.cluster.faults.rules.append(Fault(verb="watch", kind=POD, times=6, error=lambda: ServerError("down")))
        world.cluster.cut_watches(lambda: ServerError("cut"))
        await asyncio.sleep(0.01)
        await world.delete(P)
        world.cluster.compact()
        await asyncio.sleep(600)
        assert not world.scheduler.cache.pods


async def test_all_pods_of_a_shape_get_the_reason_that_its_probe_pod_found(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        for name in "pq":
            await world.create(POD, pod_manifest(name, "9"))
        await world.settle()
        await world.patch(Ref(NODE, "", "n1"), {"status": {"allocatable": {"cpu": "9", "memory": "8Gi", "pods": "110"}}})
        await world.create(POD, pod_manifest("there", "9", nodeName="n1"))
        await world.create(NODE, {**node_manifest("n2", "9"), "spec": {"unschedulable": True}})
        await asyncio.sleep(100)
        first, second = (world.cluster.raw(Ref(POD, "default", name))["status"]["conditions"][0]["message"] for name in "pq")
        assert second == first


async def test_a_retried_condition_does_not_overwrite_that_of_a_bound_pod(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="patch status", kind=POD, times=1, error=lambda: ServerError("x")))
        await world.create(NODE, node_manifest("n1", "100m"))
        await world.create(POD, pod_manifest())
        await world.start()
        await asyncio.sleep(0.05)
        await world.create(NODE, node_manifest("n2"))
        await asyncio.sleep(5)
        raw = world.cluster.raw(P)
        assert (raw["spec"].get("nodeName"), raw["status"]["conditions"][0]["status"]) == ("n2", "True")


@pytest.mark.parametrize("fault", [Fault(delay=1.0), Fault(error=lambda: TooManyRequests("slow", 1))], ids=["stop-mid-request", "429"])
async def test_a_condition_is_written_in_the_end(stage: Stage, fault: Fault) -> None:
    async with stage() as world:
        fault.verb, fault.times = "patch status", 1
        world.cluster.faults.rules.append(fault)
        await world.create(NODE, node_manifest("n1", "100m"))
        await world.create(POD, pod_manifest())
        await world.start()
        await asyncio.sleep(0.05 if fault.delay else 10)
        await world.stop()
        assert world.cluster.raw(P)["status"].get("conditions")


async def test_a_target_that_is_no_url_is_answered(stage: Stage) -> None:
    async with stage() as world:
        assert (await Endpoints(world.scheduler).answer(HttpRequest.of("GET", "//["))).status in {400, 404}
