"""The event recorder: what it writes, that it never blocks, and what it does when the cluster does not take events."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import node, pod
from support.virtual_loop import running, settle

from koordsched.api.groups import Event
from koordsched.api.kinds import EVENT
from koordsched.cluster.event_body import EventSource, event_name, micro_time, short_note
from koordsched.cluster.event_recorder import EventRecorder, RecorderOptions
from koordsched.cluster.event_series import EventText
from koordsched.cluster.memory import Fault, Faults, MemoryCluster, Moment
from koordsched.cluster.port import ClusterError, Forbidden, Invalid, OutcomeUnknown, Ref, ServerError, TooManyRequests, Unauthorized

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.clock import VirtualClock

FAILED = EventText("Warning", "FailedScheduling", "Scheduling", "0/3 nodes are available: 3 Insufficient cpu.")
SCHEDULED = EventText("Normal", "Scheduled", "Binding", "Successfully assigned ns/p to n1")


class NoChance(Random):
    """Lengthens no delay."""

    def random(self) -> float:
        return 0.0


def recorder_for(cluster: MemoryCluster, clock: VirtualClock) -> EventRecorder:
    return EventRecorder(cluster, clock, NoChance(), EventSource("koord-scheduler", "koord-scheduler-host-1"))


async def events(cluster: MemoryCluster) -> list[Event]:
    return [event for event in (await cluster.list(EVENT)).items if isinstance(event, Event)]


def web(version: str = "7") -> Pod:
    made = pod("web", "team").build()
    return replace(made, metadata=replace(made.metadata, resource_version=version))


def many(number: int) -> Pod:
    """Return one of many pods; its version is its number."""
    made = pod(f"p{number}", "team").build()
    return replace(made, metadata=replace(made.metadata, resource_version=str(number)))


async def test_an_event_is_written_as_events_v1(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        await asyncio.sleep(1.25)
        recorder.event(web(), FAILED)
        await settle()
    (event,) = await events(cluster)
    assert (event.api_version, event.kind) == ("events.k8s.io/v1", "Event")
    assert event.metadata.namespace == "team"
    # 2026-01-01T00:00:01.25Z is 1767225601.25 s after the epoch.
    assert event.metadata.name == f"web.{1767225601250000000:x}"
    assert event.event_time == "2026-01-01T00:00:01.250000Z"
    assert (event.type, event.reason, event.action, event.note) == ("Warning", "FailedScheduling", "Scheduling", FAILED.note)
    assert (event.reporting_controller, event.reporting_instance) == ("koord-scheduler", "koord-scheduler-host-1")
    regarding = event.regarding
    assert (regarding.api_version, regarding.kind, regarding.namespace, regarding.name) == ("v1", "Pod", "team", "web")
    assert (regarding.uid, regarding.resource_version) == ("uid-team-web", "7")
    assert event.series is None
    assert event.related is None


async def test_the_related_object_is_named(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    recorder.event(web(), EventText("Normal", "Preempted", "Preempting", "Preempted by pod"), related=pod("boss", "prod").build())
    await recorder.flush()
    (event,) = await events(cluster)
    assert event.related is not None
    assert (event.related.kind, event.related.namespace, event.related.name) == ("Pod", "prod", "boss")


async def test_an_event_about_a_cluster_scoped_object_is_kept_in_default(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    recorder.event(node("n1").build(), SCHEDULED)
    await recorder.flush()
    assert [(event.metadata.namespace, event.regarding.kind) for event in await events(cluster)] == [("default", "Node")]


async def test_events_of_one_instant_have_different_names(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    recorder.event(web(), FAILED)
    recorder.event(web(), SCHEDULED)
    await recorder.flush()
    assert len({event.metadata.name for event in await events(cluster)}) == 2


async def test_twenty_equal_failures_are_one_event_with_a_series(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        for _ in range(20):
            recorder.event(web(), FAILED)
            await asyncio.sleep(10)
        (event,) = await events(cluster)
        assert event.series is not None
        assert (event.series.count, event.series.last_observed_time) == (2, "2026-01-01T00:00:10.000000Z")
        assert (cluster.calls["create", EVENT], cluster.calls["patch", EVENT]) == (1, 1)
        await asyncio.sleep(600)  # the last was at 190 s; the series ends 360 s later
    (event,) = await events(cluster)
    assert event.series is not None
    assert (event.series.count, event.series.last_observed_time) == (20, "2026-01-01T00:03:10.000000Z")
    assert cluster.calls["patch", EVENT] == 2


async def test_another_version_of_the_pod_is_another_event(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    recorder.event(web("7"), FAILED)
    await recorder.flush()
    recorder.event(web("8"), FAILED)
    await recorder.flush()
    assert [event.series for event in await events(cluster)] == [None, None]


async def test_of_what_happens_to_a_pod_while_nothing_is_written_the_last_is_written(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    for version in range(100):
        recorder.event(web(str(version)), EventText("Warning", "FailedScheduling", "Scheduling", f"no. {version}"))
    assert recorder.unwritten == 1
    await recorder.flush()
    assert [event.note for event in await events(cluster)] == ["no. 99"]


async def test_a_series_whose_event_expired_is_written_anew(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await settle()
        (event,) = await events(cluster)
        await cluster.delete(Ref(EVENT, "team", event.metadata.name))
        recorder.event(web(), FAILED)
        await settle()
    (again,) = await events(cluster)
    assert again.metadata.name == event.metadata.name
    assert again.series is not None
    assert again.series.count == 2


@pytest.mark.parametrize(
    ("note", "short"),
    [
        ("100% of nodes", "100% of nodes"),
        ("a" * 1024, "a" * 1024),
        ("a" * 1025, "a" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("a" + "é" * 512, "a" + "é" * 509 + " ..."),  # 1 + 2 * 509 = 1019 bytes: half an é does not fit
    ],
)
def test_a_note_is_cut_between_characters(note: str, short: str) -> None:
    assert short_note(note) == short
    assert len(short_note(note).encode()) <= 1024


def test_a_very_long_object_name_still_makes_a_valid_event_name() -> None:
    name = event_name("a" * 230 + "." + "b" * 22, 1767225601250000000)
    assert len(name) <= 253
    assert name.endswith(f".{1767225601250000000:x}")


SHORT = RecorderOptions(limit=1000)


async def test_recording_never_blocks_and_a_full_queue_drops(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), SHORT)
    for number in range(SHORT.limit + 5):
        recorder.event(many(number), FAILED)
    assert recorder.stats.dropped == 5
    await recorder.flush()
    assert len(await events(cluster)) == SHORT.limit


async def test_a_dropped_event_is_written_when_it_happens_again(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), SHORT)
    for number in range(SHORT.limit + 1):
        recorder.event(many(number), FAILED)
    await recorder.flush()
    recorder.event(many(SHORT.limit), FAILED)
    await recorder.flush()
    written = [event for event in await events(cluster) if event.regarding.resource_version == str(SHORT.limit)]
    assert [event.series for event in written] == [None]


async def test_the_tail_of_many_long_series_survives_a_flush(cluster: MemoryCluster, clock: VirtualClock) -> None:
    """More series than the queue holds: flush feeds them in portions and drops nothing."""
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), SHORT)
    async with running(recorder.run()):
        for _ in range(3):
            for number in range(SHORT.limit + 100):
                recorder.event(many(number), FAILED)
                if number % 100 == 0:
                    await settle()
    await recorder.flush()
    assert recorder.stats.dropped == 0
    assert {event.series.count for event in await events(cluster) if event.series} == {3}


async def test_while_pods_wait_to_be_bound_events_wait(cluster: MemoryCluster, clock: VirtualClock) -> None:
    busy = True
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), RecorderOptions(busy=lambda: busy))
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(5)
        assert cluster.calls["create", EVENT] == 0
        busy = False
        await asyncio.sleep(0.2)
        assert cluster.calls["create", EVENT] == 1


async def test_events_do_not_wait_for_ever(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), RecorderOptions(busy=lambda: True))
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(10.5)
        assert cluster.calls["create", EVENT] == 1


async def test_events_do_not_wait_when_the_queue_is_half_full(cluster: MemoryCluster, clock: VirtualClock) -> None:
    recorder = EventRecorder(cluster, clock, Random(1), EventSource("c", "i"), RecorderOptions(busy=lambda: True, limit=1000))
    async with running(recorder.run()):
        for number in range(700):
            recorder.event(many(number), FAILED)
        await asyncio.sleep(1)
        assert 195 <= cluster.calls["create", EVENT] <= 210


async def test_an_unreachable_cluster_is_tried_twelve_times_in_two_minutes(clock: VirtualClock) -> None:
    down = Fault(verb="create", kind=EVENT, error=lambda: OutcomeUnknown("connection refused"), moment=Moment.BEFORE)
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[down]))
    recorder = recorder_for(cluster, clock)
    with capture_logs() as logs:
        async with running(recorder.run()):
            recorder.event(web(), FAILED)
            await asyncio.sleep(1)
            assert cluster.calls["create", EVENT] == 3  # after 0, 0.25 and 0.75 s
            await asyncio.sleep(110.5)
            assert (cluster.calls["create", EVENT], recorder.stats.failed) == (11, 0)
            await asyncio.sleep(0.25)  # 0.25 + 0.5 + 1 + 2 + 4 + 8 + 16 + 4 * 20 = 111.75 s
            assert (cluster.calls["create", EVENT], recorder.stats.failed) == (12, 1)
    assert [(entry["object"], entry["reason"], entry["error"]) for entry in logs] == [
        ("team/web", "FailedScheduling", "connection refused")
    ]


async def test_an_event_whose_answer_was_lost_is_written_once(clock: VirtualClock) -> None:
    lost = Fault(verb="create", kind=EVENT, nth=(1,), error=lambda: OutcomeUnknown("connection reset"), moment=Moment.AFTER)
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[lost]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(11)
    assert len(await events(cluster)) == 1
    assert (recorder.stats.written, recorder.stats.failed) == (1, 0)


async def test_a_repeat_while_the_event_is_being_written_follows_it(clock: VirtualClock) -> None:
    slow = Fault(verb="create", kind=EVENT, delay=5)
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[slow]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(1)
        recorder.event(web(), FAILED)
        await asyncio.sleep(10)
    assert (cluster.calls["create", EVENT], cluster.calls["patch", EVENT]) == (1, 1)
    (event,) = await events(cluster)
    assert event.series is not None
    assert event.series.count == 2


async def test_a_busy_server_decides_how_long_to_wait(clock: VirtualClock) -> None:
    throttled = Fault(verb="create", nth=(1,), error=lambda: TooManyRequests("slow down", retry_after=30))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[throttled]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(29)
        assert cluster.calls["create", EVENT] == 1
        await asyncio.sleep(1)
        assert cluster.calls["create", EVENT] == 2


async def test_an_invalid_event_is_not_tried_again(clock: VirtualClock) -> None:
    refused = Fault(verb="create", error=lambda: Invalid("note: too long"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[refused]))
    recorder = recorder_for(cluster, clock)
    with capture_logs() as logs:
        async with running(recorder.run()):
            recorder.event(web(), FAILED)
            await asyncio.sleep(60)
    assert (cluster.calls["create", EVENT], recorder.stats.failed, len(logs)) == (1, 1, 1)


@pytest.mark.parametrize("error", [Forbidden, Unauthorized])
async def test_an_api_server_that_knows_no_roles_yet_is_given_half_a_minute(clock: VirtualClock, error: type[ClusterError]) -> None:
    refused = Fault(verb="create", times=7, error=lambda: error("not yet"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[refused]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(32)
    assert len(await events(cluster)) == 1
    assert (recorder.stats.written, recorder.stats.failed) == (1, 0)


async def test_events_of_a_namespace_that_ends_hold_up_no_other(clock: VirtualClock) -> None:
    """At 32 s of trying each, four writers would be busy with these for three minutes."""
    why = 'events.events.k8s.io "web.1" is forbidden: unable to create new content in namespace team because it is being terminated'
    ending = Fault(verb="create", times=24, error=lambda: Forbidden(why))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[ending]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        for number in range(25):
            recorder.event(many(number), FAILED)
        await asyncio.sleep(1)
    assert (len(await events(cluster)), recorder.stats.failed) == (1, 24)


async def test_a_stop_does_not_wait_for_rights(clock: VirtualClock) -> None:
    refused = Fault(verb="create", error=lambda: Forbidden("events is forbidden"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[refused]))
    recorder = recorder_for(cluster, clock)
    recorder.event(web(), FAILED)
    await recorder.flush()
    assert (cluster.calls["create", EVENT], recorder.stats.failed) == (1, 1)


async def test_one_failing_request_in_twenty_does_not_hold_up_the_others(clock: VirtualClock) -> None:
    shaky = Fault(verb="create", kind=EVENT, nth=tuple(range(20, 1001, 20)), error=lambda: ServerError("now and then"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[shaky]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        for number in range(900):
            recorder.event(many(number), FAILED)
        await asyncio.sleep(20)
    assert (recorder.stats.written, recorder.stats.dropped, recorder.unwritten) == (900, 0, 0)


async def test_a_stop_in_the_middle_of_a_retry_loses_nothing(clock: VirtualClock) -> None:
    down = Fault(verb="create", nth=(1,), error=lambda: ServerError("down"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[down]))
    recorder = recorder_for(cluster, clock)
    async with running(recorder.run()):
        recorder.event(web(), FAILED)
        await asyncio.sleep(3)
    await recorder.flush()
    assert len(await events(cluster)) == 1


async def test_a_flush_that_takes_too_long_can_be_given_up(clock: VirtualClock) -> None:
    down = Fault(verb="create", kind=EVENT, error=lambda: ServerError("down"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[down]))
    recorder = recorder_for(cluster, clock)
    recorder.event(web(), FAILED)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await recorder.flush()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250000Z"),
        (1_700_000_000.000001, "2023-11-14T22:13:20.000001Z"),
        (59.9999994, "1970-01-01T00:00:59.999999Z"),
        (59.9999999, "1970-01-01T00:01:00.000000Z"),
    ],
)
def test_times_have_microseconds_and_are_rounded_to_them(seconds: float, text: str) -> None:
    assert micro_time(seconds) == text
