"""What holds of every scheduler at the end of a test, whatever the test was about: the queue's invariants, the gauges against a recount,
durations that are possible, and events and conditions in the words that operators search for."""

from __future__ import annotations

import re
from collections import Counter

from koordsched.api.kinds import EVENT, POD, RESERVATION
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.metrics.collectors import BucketCounts
from koordsched.scheduler.scheduler import Scheduler

EVENTS = {
    ("Warning", "FailedScheduling", "Scheduling"): r".+",
    ("Warning", "FailedScheduling-Reservation", "Scheduling"): r"0/\d+ reservations are available: .*",
    ("Normal", "Scheduled", "Binding"): r"Successfully assigned (\S+/)?\S+ to \S+",
    ("Normal", "Preempted", "Preempting"): r"Preempted by pod \S+ on node \S+",
    ("Warning", "InvalidDevice", "Scheduling"): r".+",
    ("Warning", "InvalidNUMATopology", "Scheduling"): r".+",
    ("Warning", "InvalidAnnotation", "Scheduling"): r".+: .+",
    ("Warning", "InvalidNodeLoad", "Scheduling"): r".+: .+",
    ("Warning", "InvalidExpiration", "Scheduling"): r".+: .+",
    ("Warning", "InvalidOperatingMode", "Scheduling"): r".+: .+",
    ("Warning", "InvalidReservation", "Scheduling"): r"nothing is reserved, since the amounts cannot be read: .+",
    ("Warning", "PreAllocationAllocatesOnce", "Scheduling"): r".+",
    ("Warning", "QuotaOverUsed", "Revoking"): r".+",
    ("Warning", "InvalidGang", "Scheduling"): r".+: .+",
    ("Warning", "InvalidTopology", "Scheduling"): r"spec.networkTopologySpec: .+; .+",
    ("Warning", "InvalidElasticQuota", "Scheduling"): r".+: .+",
    ("Warning", "TopologyIgnored", "Scheduling"): r".+: .+",
}
"""The note of each type, reason and action."""
REASONS = {"Unschedulable", "SchedulerError", "SchedulingGated"}
LONGEST = {
    "scheduler_pod_scheduling_sli_duration_seconds": 1e9,  # of virtual time, as the next
    "scheduler_pod_scheduling_duration_seconds": 1e9,
    "scheduler_permit_wait_duration_seconds": 1e9,
    "scheduler_preemption_goroutines_duration_seconds": 1e9,
}
POSSIBLE_SECONDS = 60.0  # for one observation of the time that computing takes; a reading of the clock itself is far above


async def check_final_state(world: EmbeddedCluster, *, damaged: bool) -> None:
    """AssertionError: something does not hold. damaged: the scheduler need not know what the cluster has."""
    scheduler = world.scheduler
    failed = {informer.kind.plural: informer.handler_errors for informer in scheduler._informers if informer.handler_errors}
    assert not failed, f"handlers of these kinds raised, which a scheduler only logs: {failed}"
    scheduler.queue.check_invariants()
    if not damaged:
        await _check_cache(scheduler)
    _check_gauge(scheduler)
    _check_durations(scheduler)
    _check_words(world)


async def _check_cache(scheduler: Scheduler) -> None:
    """Compare cache and queue with what the watches say, and look for what is kept of pods that are gone."""
    found = await scheduler.debugger.compare_with_watch()
    assert found.ok, f"the cache is not what the watches say: {found}"
    reservations = [informer.store for informer in scheduler._informers if informer.kind is RESERVATION]
    cache, known = scheduler.cache, {obj.metadata.uid for store in (scheduler.pods, *reservations) for obj in store.values()}
    assert cache.assumed_count == sum(state.assumed for state in cache.pods.values())
    assert scheduler.status_writer._known <= known, "conditions of pods that are gone"
    nominated = {uid for pods in scheduler.queue.nominator.nodes.values() for uid in pods}
    assert nominated <= known, "nominations of pods that are gone"


def _check_gauge(scheduler: Scheduler) -> None:
    """Recount the unschedulable pods by plugin and profile. Those in flight are of no plugin."""
    recount: Counter[tuple[str, str]] = Counter()
    for info in scheduler.queue.waiting():
        recount.update((plugin, info.profile) for plugin in info.rejectors.all)
    gauge = next(collector for collector in scheduler.metrics.collectors if collector.name == "scheduler_unschedulable_pods")
    shown = {labels: value for family in gauge.collect() for labels, value in family.samples if value}
    assert shown == recount, f"scheduler_unschedulable_pods: {shown}, but the queue holds {dict(recount)}"


def _check_durations(scheduler: Scheduler) -> None:
    for collector in scheduler.metrics.collectors:
        longest = LONGEST.get(collector.name, POSSIBLE_SECONDS)
        for family in collector.collect() if collector.name.endswith("_duration_seconds") else ():
            for labels, value in family.samples:
                assert isinstance(value, BucketCounts)
                count = sum(value.counts)
                assert 0.0 <= value.total <= count * longest, f"{collector.name} {labels}: {value.total} s in {count} observations"


def _check_words(world: EmbeddedCluster) -> None:
    for event in world.cluster.raws(EVENT):
        said = event["type"], event["reason"], event["action"]
        assert said in EVENTS, f"an unknown event: {event}"
        assert re.fullmatch(EVENTS[said], event["note"], re.DOTALL), f"an event in other words: {event}"
    for pod in world.cluster.raws(POD):
        for condition in pod.get("status", {}).get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                assert condition["reason"] in REASONS, f"an unknown condition: {condition}"
