"""Controllers of plugins: from when to when they run, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs
from support.fakes import Controlled, node_manifest, pod_manifest
from support.stages import Stage, begin, nodes_of_pods

from koordsched import tasks
from koordsched.api.kinds import NODE, POD
from koordsched.cluster.memory import Fault
from koordsched.framework.controllers import controllers_of


async def test_a_standby_runs_no_controller_and_one_that_begins_to_schedule_does(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        await world.scheduler.fill()
        await asyncio.sleep(3600)
        assert plugin.ticks == []
        world.scheduler.begin()
        await asyncio.sleep(2.5)
        assert plugin.ticks == ["tick"] * 3
        await world.stop()
        await asyncio.sleep(60)
        assert plugin.ticks == ["tick"] * 3 + ["end"]


async def test_pods_are_placed_before_controllers_begin_where_these_are_to_wait(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest("p"))
        await world.scheduler.fill()
        world.scheduler.begin(controllers_after=1.0)
        await asyncio.sleep(0.9)
        assert plugin.ticks == []
        assert nodes_of_pods(world) == {"p": "n1"}
        await asyncio.sleep(0.2)
        assert plugin.ticks == ["tick"]
        await world.stop()
        assert plugin.ticks == ["tick", "end"]


async def test_it_has_ended_before_a_stopping_scheduler_waits_for_its_binds_and_the_lease_is_given_back(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        world.cluster.faults.rules.append(Fault(verb="bind", delay=2.0))
        await begin(world)
        settling = asyncio.create_task(world.scheduler.settle())
        await asyncio.sleep(0.5)
        assert plugin.ticks == ["tick", "end"]
        assert len(world.scheduler.cycle.binding.tasks) == 1
        await settling
        await world.stop()


async def test_a_killed_scheduler_leaves_no_controller_behind_and_its_successor_starts_it_anew(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        await world.start()
        await asyncio.sleep(0.5)
        await world.restart()
        await asyncio.sleep(0.5)
        assert plugin.ticks == ["tick", "end", "tick"]
        assert plugin.made == 2
        await world.stop()


async def test_one_that_raises_is_started_again_after_a_growing_delay(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        await world.start()
        await asyncio.sleep(0.5)
        plugin.fails = True
        with capture_logs() as logs:
            await asyncio.sleep(10)
        assert {(line["event"], line["task"]) for line in logs} == {("a task failed and is started again", "controller C/ticker")}
        assert 2 <= tasks.restarts["controller C/ticker"] <= 5
        plugin.fails = False
        await asyncio.sleep(60)
        assert plugin.ticks[-1] == "tick"
        tasks.restarts.clear()
        await world.stop()


async def test_the_end_of_a_vital_one_ends_the_process_with_its_reason(stage: Stage) -> None:
    plugin = Controlled(vital=True)
    with suppress(LookupError):  # which the end of the world brings out again
        async with stage((plugin, "filter")) as world:
            await world.start()
            await asyncio.sleep(0.5)
            plugin.fails = True
            async with asyncio.timeout(10):
                failure = await world.scheduler.until_failed()
            assert (failure.task, repr(failure.error)) == ("controller C/ticker", "LookupError('oops')")


@pytest.mark.parametrize(("flag", "runs"), [("*", "CD"), ("*,-C", "D"), ("C", "C"), ("-C,-D,*", ""), ("Other", "")])
async def test_a_flag_says_whose_controllers_run(flag: str, runs: str, stage: Stage) -> None:
    first, second = Controlled("C"), Controlled("D")
    async with stage((first, "filter"), (second, "filter"), args=[f"--controller-plugins={flag}"]) as world:
        with capture_logs() as logs:
            await world.start()
        await asyncio.sleep(0.5)
        assert "".join(plugin.name for plugin in (first, second) if plugin.ticks) == runs
        (line,) = [line for line in logs if line["event"] == "controllers of plugins"]
        assert ("".join(line["run"]), "".join(line["off"])) == (runs, "".join(name for name in "CD" if name not in runs))
        await world.stop()


async def test_a_flag_that_names_no_plugin_is_a_warning_and_what_charts_name_is_not(stage: Stage) -> None:
    with capture_logs() as logs:
        async with stage((Controlled(), "filter"), args=["--controller-plugins=*,-ElasticQuota,-C,-Elastic"]) as world:
            assert world.scheduler.profiles
    (line,) = [line for line in logs if line["event"] == "--controller-plugins names plugins without controllers"]
    assert line["names"] == ["-Elastic"]


async def test_a_plugin_of_two_profiles_has_its_controllers_once(stage: Stage) -> None:
    plugin = Controlled()
    async with stage((plugin, "filter")) as world:
        (profile,) = world.scheduler.profiles.values()
        assert plugin.made == 1
        assert [found.name for found in controllers_of([profile, profile])["C"]] == ["ticker"]
        assert plugin.made == 2
